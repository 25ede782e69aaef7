"""Where sessions are kept."""

import logging
from collections.abc import Mapping
from pathlib import Path

from platformdirs import user_state_path

from deputy_agents.errors import StoreError
from deputy_agents.ports import Store
from deputy_agents.redact import Redactor
from deputy_agents.store.memory import MemoryStore
from deputy_agents.store.sqlite import SqliteStore

APPROVALS = "mcp.json"
"""Name of the file, in the folder of the session store, that says which MCP servers may run."""

logger = logging.getLogger(__name__)


def state_folder(environ: Mapping[str, str]) -> Path:
    """The folder of the session store; it need not exist."""
    named = environ.get("DEPUTY_STATE", "").strip()
    return Path(named).absolute() if named else user_state_path("deputy", appauthor=False)


def open_store(environ: Mapping[str, str]) -> tuple[Store, str | None]:
    """The user's store; where it cannot be used, one that ends with the process, and what to tell the user of it.
    Blocks."""
    try:
        return SqliteStore.open(state_folder(environ), Redactor(environ).json), None
    except StoreError as error:
        logger.warning("sessions are not kept: %s", error)
        return MemoryStore(), f"{error} Until Deputy is started anew, sessions are kept in memory alone."
