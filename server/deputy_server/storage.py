"""Where sessions are kept."""

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
"""Name of the file, in the folder of the session store, that says which MCP servers may run."""

_ID_LENGTH = 36

logger = logging.getLogger(__name__)


def state_folder(environ: Mapping[str, str]) -> Path:
    """The folder of the session store; it need not exist."""
    named = environ.get("DEPUTY_STATE", "").strip()
    return Path(named).absolute() if named else user_state_path("deputy", appauthor=False)


def whole_id(records: Iterable[SessionRecord], begun: str) -> str:
    """The id of the one session of ``records`` whose id begins so; a whole id is taken as it is.

    Raises:
        UnknownSession: there is none, or there are several.
    """
    if len(begun) == _ID_LENGTH:
        return begun
    found = [record.session_id for record in records if record.session_id.startswith(begun)]
    if len(found) != 1:
        raise UnknownSession(f"{len(found) or 'No'} sessions have an id that begins with {begun}.")
    return found[0]


def open_store(environ: Mapping[str, str]) -> tuple[Store, str | None]:
    """The user's store; where it cannot be used, one that ends with the process, and what to tell the user of it.
    Blocks."""
    try:
        return SqliteStore.open(state_folder(environ), Redactor(environ).json), None
    except StoreError as error:
        logger.warning("sessions are not kept: %s", error)
        return MemoryStore(), f"{error} Until Deputy is started anew, sessions are kept in memory alone."
