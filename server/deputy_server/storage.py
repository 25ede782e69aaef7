"""The session store of the user."""

import logging
from collections.abc import Iterable, Mapping
from pathlib import Path

from platformdirs import user_state_path

from deputy_agents.domain.errors import StoreError, UnknownSession
from deputy_agents.ports.store import SessionRecord, Store
from deputy_agents.redact import Redactor
from deputy_agents.store.memory import MemoryStore
from deputy_agents.store.sqlite import SqliteStore

APPROVALS = "mcp.json"
"""Name of the file, in the folder of the session store, with the approvals of MCP servers."""

_ID_LENGTH = 36

logger = logging.getLogger(__name__)


def state_folder(environ: Mapping[str, str]) -> Path:
    """The folder of the session store, which may not exist."""
    named = environ.get("DEPUTY_STATE", "").strip()
    return Path(named).absolute() if named else user_state_path("deputy", appauthor=False)


def resolve_id(records: Iterable[SessionRecord], prefix: str) -> str:
    """The id of the only session of ``records`` whose id begins with ``prefix``. A complete id is returned unchecked.

    Raises:
        UnknownSession: no session, or more than one, has such an id.
    """
    if len(prefix) == _ID_LENGTH:
        return prefix
    found = [record.session_id for record in records if record.session_id.startswith(prefix)]
    if len(found) != 1:
        raise UnknownSession(f"{len(found) or 'No'} sessions have an id that begins with {prefix}.")
    return found[0]


def open_store(environ: Mapping[str, str]) -> tuple[Store, str | None]:
    """Open the user's store. If it cannot be used, return a store in memory and a notice for the user. Blocks."""
    try:
        return SqliteStore.open(state_folder(environ), Redactor(environ).json), None
    except StoreError as error:
        logger.warning("sessions are not stored: %s", error)
        return MemoryStore(), f"{error} Sessions are kept in memory until Deputy is restarted."
