"""The indexes of the folders whose paths were completed lately. One that is old is built again in the background."""

import logging
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup

from deputy_agents.editor.path_index import PathIndex, build
from deputy_agents.files.place import Place
from deputy_agents.files.workspace import Workspace
from deputy_agents.tool.ripgrep import list_files

logger = logging.getLogger(__name__)

MAX_FOLDERS = 4
"""Folders whose indexes are kept."""
MIN_AGE = 0.5
"""Seconds in which an index is new enough."""
_AGE_FACTOR = 20
"""An index is also new enough for so many times as long as it took to build it."""
FIRST_WAIT = 10.0
"""Seconds that a completion waits for the first index of a folder."""
WAIT = 0.03
"""Seconds that a completion waits for a newer index before it uses the old one."""


@dataclass(slots=True)
class _Folder:
    index: PathIndex | None = None
    read_at: float = 0.0
    cost: float = 0.0
    """Seconds that it took to build the index."""
    built: anyio.Event | None = None
    """Set when the index that is being built is complete, or could not be built."""

    @property
    def stale(self) -> bool:
        return self.index is None or monotonic() - self.read_at > max(MIN_AGE, _AGE_FACTOR * self.cost)


_folders: OrderedDict[Path, _Folder] = OrderedDict()


async def paths_below(place: Place, workspace: Workspace, tasks: TaskGroup) -> PathIndex | None:
    """The paths below the folder at ``place``; ``None`` if they cannot be listed in time. ``tasks`` owns the building
    of an index."""
    folder = _folders.setdefault(place.path, _Folder())
    _folders.move_to_end(place.path)
    while len(_folders) > MAX_FOLDERS:
        _folders.popitem(last=False)
    if folder.built is None and folder.stale:
        folder.built = anyio.Event()
        tasks.start_soon(_build, folder, folder.built, place, workspace)
    if folder.built is not None:
        with anyio.move_on_after(WAIT if folder.index else FIRST_WAIT):
            await folder.built.wait()
    return folder.index


async def _build(folder: _Folder, built: anyio.Event, place: Place, workspace: Workspace) -> None:
    try:
        began = monotonic()
        async with workspace.working_directory(place) as cwd:
            listing = await list_files(cwd)
        folder.index = await to_thread.run_sync(build, listing)
        folder.read_at, folder.cost = began, monotonic() - began
    except Exception as error:  # noqa: BLE001 - a completion that fails must not end what `tasks` also runs
        logger.warning("the paths below %s cannot be listed: %s", place.path, error)
    finally:
        folder.built = None
        built.set()
