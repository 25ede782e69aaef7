"""The state of the user: stored sessions, approvals and transcripts, in a folder that only the user can enter."""

import logging
import os
import stat
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from anyio import to_thread

from deputy_agents.domain.errors import StoreError, UnknownSession
from deputy_agents.files.paths import state_folder
from deputy_agents.guidance.answered_rules import AnsweredRules
from deputy_agents.mcp.approvals import Approvals
from deputy_agents.mcp.sign_ins import SignIns
from deputy_agents.ports.store import SessionRecord, Store
from deputy_agents.redact import Redactor
from deputy_agents.store.memory import MemoryStore
from deputy_agents.store.sqlite import SqliteStore

APPROVALS = "mcp.json"
"""Name of the file, in the folder of the session store, with the approvals of MCP servers."""
SIGN_INS = "mcp-sign-ins.json"
"""Name of the file there with where the user is signed in at MCP servers."""
ANSWERS = "rules.json"
"""Name of the file there with the rules that answers have added to personal files of projects."""

_ID_LENGTH = 36
_SHORT_LENGTH = 12
_MAX_SHOWN = 8
_OTHERS = 0o077

logger = logging.getLogger(__name__)


def resolve_id(records: Iterable[SessionRecord], part: str) -> str:
    """The id of the only session of ``records`` whose id begins or ends with ``part``. A complete id is returned
    unchecked. Ids of sessions that were created together begin alike, but end differently.

    Raises:
        UnknownSession: no session, or more than one, has such an id.
    """
    if len(part) == _ID_LENGTH:
        return part
    found = [one.session_id for one in records if one.session_id.startswith(part) or one.session_id.endswith(part)]
    if not part or not found:
        raise UnknownSession(f"No session has an id that begins or ends with {part or 'nothing'}.")
    if len(found) > 1:
        ends = ", ".join(short_id(one) for one in found[:_MAX_SHOWN]) + (", …" if len(found) > _MAX_SHOWN else "")
        raise UnknownSession(f"{len(found)} sessions have an id that begins or ends with {part}. Use the end: {ends}.")
    return found[0]


def short_id(session_id: str) -> str:
    """The random end of an id, enough to tell sessions apart."""
    return session_id[-_SHORT_LENGTH:]


@dataclass(frozen=True, slots=True)
class State:
    """What a process keeps for the user. ``notice`` is why it is not stored, if it is not."""

    folder: Path
    store: Store
    approvals: Approvals
    sign_ins: SignIns
    answered: AnsweredRules
    notice: str | None = None
    temporary: "TemporaryDirectory[str] | None" = None
    """The owner of ``folder``, if it ends with the process."""

    async def close(self) -> None:
        await self.store.close()
        if self.temporary is not None:
            await to_thread.run_sync(self.temporary.cleanup)


def open_state(environ: Mapping[str, str]) -> State:
    """Open the user's state. If the folder is not safe to use, nothing in it is read or written, and the state ends
    with the process; if only the store cannot be used, sessions end with it. Blocks."""
    folder = state_folder(environ)
    try:
        make_private(folder)
    except StoreError as error:
        temporary = TemporaryDirectory(prefix="deputy-", ignore_cleanup_errors=True)
        none = Approvals(), SignIns(), AnsweredRules()
        return State(Path(temporary.name), MemoryStore(), *none, _not_stored(error), temporary)
    kept = Approvals(folder / APPROVALS), SignIns(folder / SIGN_INS), AnsweredRules(folder / ANSWERS)
    try:
        return State(folder, SqliteStore.open(folder, Redactor(environ).json), *kept)
    except StoreError as error:
        return State(folder, MemoryStore(), *kept, _not_stored(error))


def _not_stored(error: StoreError) -> str:
    logger.warning("sessions are not stored: %s", error)
    return f"{error} Sessions are kept in memory until Deputy is restarted."


def open_store(environ: Mapping[str, str]) -> Store:
    """Open the user's store, for a command of the user. Blocks.

    Raises:
        StoreError: it cannot be used.
    """
    folder = state_folder(environ)
    make_private(folder)
    return SqliteStore.open(folder)


def open_approvals(environ: Mapping[str, str]) -> Approvals:
    """The user's approvals of MCP servers, for a command of the user. Blocks.

    Raises:
        StoreError: the folder of the file is not safe to use.
    """
    folder = state_folder(environ)
    make_private(folder)
    return Approvals(folder / APPROVALS)


def open_sign_ins(environ: Mapping[str, str]) -> SignIns:
    """Where the user is signed in, for a command of the user. Raises as :func:`open_approvals`. Blocks."""
    folder = state_folder(environ)
    make_private(folder)
    return SignIns(folder / SIGN_INS)


def open_answers(environ: Mapping[str, str]) -> AnsweredRules:
    """The rules that answers have added to personal files of projects, for a command of the user. Raises as
    :func:`open_approvals`. Blocks."""
    folder = state_folder(environ)
    make_private(folder)
    return AnsweredRules(folder / ANSWERS)


def make_private(folder: Path) -> None:
    """Let nobody but the user into an existing state folder. Blocks.

    Raises:
        StoreError: the folder, or something in it, belongs to another user, who could have prepared it.
    """
    if sys.platform == "win32":
        return
    try:
        if not stat.S_ISDIR(mode := _own_mode(folder.stat(), folder)):
            return  # the store reports it
        if mode & _OTHERS:
            logger.warning(
                "%s has your sessions, and its permissions (%o) let other users of this machine in. Deputy has removed "
                "these permissions.",
                folder,
                stat.S_IMODE(mode),
            )
            folder.chmod(stat.S_IMODE(mode) & ~_OTHERS)
        inside = [str(folder)]
        while inside:
            with (
                suppress(FileNotFoundError),
                os.scandir(inside.pop()) as entries,
            ):  # much faster than Path.walk, at thousands of transcripts
                inside += [entry.path for entry in entries if _make_private(entry)]
    except FileNotFoundError:
        pass
    except OSError as error:
        logger.warning(
            "other users of this machine may read the sessions in %s, because its permissions cannot be changed: %s",
            folder,
            error.strerror,
        )


def _make_private(entry: "os.DirEntry[str]") -> bool:
    """Let nobody else use ``entry``; whether it is a folder."""
    with suppress(FileNotFoundError):  # another process has deleted it
        mode = _own_mode(entry.stat(follow_symlinks=False), entry.path)
        if mode & _OTHERS and not stat.S_ISLNK(mode):
            Path(entry.path).chmod(stat.S_IMODE(mode) & ~_OTHERS)
        return stat.S_ISDIR(mode)
    return False


def _own_mode(status: os.stat_result, path: Path | str) -> int:
    if status.st_uid != os.geteuid():
        raise StoreError(f"{path} belongs to another user. Set DEPUTY_STATE to a folder of your own.")
    return status.st_mode
