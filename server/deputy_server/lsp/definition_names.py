"""The names of agent definitions for the response to ``initialize``, which is sent before agents can run."""

import os.path
from collections.abc import Sequence

import anyio
import anyio.to_thread

from deputy_agents.definition.definition import BUILT_IN, FOLDERS
from deputy_agents.files.paths import home_folder
from deputy_server.lsp.client import local_paths

GRACE = 1
"""Seconds that a slow disk may delay the response; after that it names only built-in definitions."""


async def definition_names(folders: Sequence[str], *, trusted: bool) -> tuple[str, ...]:
    """The names for workspace ``folders``, given as URIs. Cancelling the caller does not interrupt this: the response
    to ``initialize`` must be sent."""
    with anyio.move_on_after(GRACE, shield=True):
        return await anyio.to_thread.run_sync(_find, folders, trusted, abandon_on_cancel=True)
    return BUILT_IN


def _find(folders: Sequence[str], trusted: bool) -> tuple[str, ...]:
    roots = local_paths(folders) if trusted else ()
    home = home_folder()
    places = (*roots, home) if home else roots
    exists = (os.path.isdir(place / folder) for place in places for folder in FOLDERS)  # noqa: PTH112 - never raises
    if not any(exists):
        return BUILT_IN
    # Loading takes a tenth of the start-up time; users without definition files do not wait for it.
    from deputy_agents.definition.catalogue import Catalogue

    catalogue = Catalogue(roots, trusted=trusted)
    catalogue.load()
    return tuple(catalogue.definitions)
