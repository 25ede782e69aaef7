"""Names of the agent definitions, told at ``initialize``: before anything that runs agents is loaded."""

import os.path
from collections.abc import Sequence

import anyio
import anyio.to_thread

from deputy_agents.definition.definition import BUILT_IN, FOLDERS
from deputy_agents.files.paths import home_folder
from deputy_server.lsp.client import local_paths

GRACE = 1
"""Seconds that a slow disk may hold up the answer to ``initialize``; after that it names the built-in ones only."""


async def definition_names(folders: Sequence[str], *, trusted: bool) -> tuple[str, ...]:
    """What there is for workspace ``folders``, given as URIs. A caller that is cancelled gets it too: the first answer
    of a connection must come."""
    with anyio.move_on_after(GRACE, shield=True):
        return await anyio.to_thread.run_sync(_find, folders, trusted, abandon_on_cancel=True)
    return BUILT_IN


def _find(folders: Sequence[str], trusted: bool) -> tuple[str, ...]:
    roots = local_paths(folders) if trusted else ()
    home = home_folder()
    places = (*roots, home) if home else roots
    there = (os.path.isdir(place / folder) for place in places for folder in FOLDERS)  # noqa: PTH112 - never raises
    if not any(there):
        return BUILT_IN
    # The loader takes a tenth of a start-up, which those who have no files of their own need not wait for.
    from deputy_agents.definition.catalogue import Catalogue

    catalogue = Catalogue(roots, trusted=trusted)
    catalogue.load()
    return tuple(catalogue.definitions)
