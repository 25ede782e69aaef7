"""Files as exact bytes with their mode, and links as their targets: what a text alone does not tell.

Everything here blocks; call it in a worker thread. Names are looked up in open folders, as in ``files.disk``.
"""

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from deputy_agents.domain.errors import ToolError
from deputy_agents.files.disk import Folder, explain_os_errors, open_folder, read_raw

MAX_BYTES: Final = 10 * 1024 * 1024
"""The largest file that is read."""


@dataclass(frozen=True, slots=True)
class FileState:
    """A file or a link. ``mode`` is that of the operating system, with type and permissions; ``data`` is the content,
    or the target of a link."""

    mode: int
    data: bytes

    @property
    def is_link(self) -> bool:
        return stat.S_ISLNK(self.mode)


def read_state(root: Path, parts: Sequence[str]) -> FileState | None:
    """The file or link at ``parts`` beneath ``root``; ``None`` if there is none.

    Raises:
        ToolError: it is a folder or a device, is larger than :data:`MAX_BYTES`, or cannot be read.
    """
    with explain_os_errors(root.joinpath(*parts)):
        try:
            with open_folder(root, parts[:-1]) as folder:
                return state_in(folder, parts[-1])
        except FileNotFoundError:
            return None
        except ToolError as error:
            if isinstance(error.__cause__, FileNotFoundError | NotADirectoryError):
                return None
            raise


def state_in(folder: Folder, name: str) -> FileState | None:
    """The file or link ``name`` in an open folder. Raises as :func:`read_state`, and OSError."""
    try:
        found = os.stat(folder.at(name), dir_fd=folder.fd, follow_symlinks=False)
        if stat.S_ISLNK(found.st_mode):
            target = os.fsencode(os.readlink(folder.at(name), dir_fd=folder.fd))
            return FileState(stat.S_IFLNK | 0o777, target)
        data, opened = read_raw(folder, name, MAX_BYTES)
        return FileState(opened.st_mode, data)
    except FileNotFoundError:
        return None
