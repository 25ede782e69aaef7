"""The session store."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, TypeAlias

from deputy_agents.domain.event import Event
from deputy_agents.domain.file_change import FileChange
from deputy_agents.domain.message import Message
from deputy_agents.domain.permission_mode import PermissionMode
from deputy_agents.domain.rule import Rule


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """A session as lists show it. ``cwd`` is an absolute path. A child's row in a list has its agent id as
    ``session_id``, and names its session as ``parent_session_id``."""

    session_id: str
    agent_id: str
    title: str
    cwd: str
    created_at: float
    updated_at: float
    model: str
    archived: bool = False
    agent_count: int = 0
    permission_mode: PermissionMode | None = None
    """The one that was chosen for this session; that of the settings where there is none."""
    rules: tuple[Rule, ...] = ()
    """What answers of the user have added."""
    parent_session_id: str | None = None


@dataclass(frozen=True, slots=True)
class HistoryRecord:
    """One message of one agent's model history, appended in order."""

    agent_id: str
    message: Message


@dataclass(frozen=True, slots=True)
class OutputRecord:
    """The whole output of a tool call of which the events tell a part. ``tool_call_id`` is unique for its agent."""

    agent_id: str
    tool_call_id: str
    text: str


@dataclass(frozen=True, slots=True)
class ChangesDropped:
    """The changes of these ids have not come about, or were taken back: they need not be kept."""

    change_ids: tuple[str, ...]


Record: TypeAlias = HistoryRecord | FileChange | ChangesDropped | OutputRecord
"""What is stored beside the events, in the order in which it comes."""


@dataclass(frozen=True, slots=True)
class SessionQuery:
    """Which sessions to list, and how many rows. ``cursor`` is that of the page before; ``children`` adds a row for
    each child behind its session's; ``before`` leaves out what was used then or later (seconds since the epoch)."""

    cwd: str | None = None
    children: bool = False
    archived: bool = True
    cursor: str | None = None
    limit: int | None = None
    before: float | None = None


@dataclass(frozen=True, slots=True)
class SessionPage:
    """A part of a list; ``cursor`` leads to the next one, and is ``None`` at the end."""

    records: tuple[SessionRecord, ...]
    cursor: str | None = None


class Claim(Enum):
    """What came of wanting to own a session: to be the one process that may change it."""

    MINE = "mine"
    TAKEN_OVER = "taken_over"
    """Mine now. Its last owner ended without giving it back, so runs of its agents may have no end."""
    FOREIGN = "foreign"
    """Another process that lives owns it."""


class Store(Protocol):
    """Keeps sessions. The event log is the truth; everything else is a fold of it or beside it.

    What changes a session is atomic: all or nothing of one call is there after a crash, and it returns after the
    commit. Several processes may use one store at once. Each session is changed by its owner alone; reading needs no
    claim. All methods raise StoreError when the store cannot be used, and UnknownSession for a session that it has not.
    """

    async def create(self, record: SessionRecord) -> None:
        """Keeps a new session, which is then owned by this process."""
        ...

    async def update(self, record: SessionRecord) -> None: ...

    async def get(self, session_id: str) -> SessionRecord: ...

    async def sessions(self, query: SessionQuery) -> SessionPage:
        """Newest first; children behind their session, in the order of their starts.

        Raises:
            InvalidRequest: the cursor is none.
        """
        ...

    async def delete(self, session_id: str) -> None:
        """Forgets a session and all that belongs to it, the documents that showed it included."""
        ...

    async def append(self, session_id: str, events: Sequence[Event], records: Sequence[Record] = ()) -> None:
        """Commits numbered events and what belongs to them.

        Raises:
            StoreError: ``seq`` does not follow the last one.
        """
        ...

    async def events(self, session_id: str, after: int = 0, limit: int | None = None) -> Sequence[Event]:
        """Durable events with ``seq`` greater than ``after``, in order. One of a kind that is not known any more, or
        not yet, has an :class:`~deputy_agents.domain.event.Unknown` body."""
        ...

    async def history(self, session_id: str, agent_id: str) -> Sequence[Message]: ...

    async def histories(self, session_id: str) -> Mapping[str, Sequence[Message]]:
        """The histories of all agents that have one."""
        ...

    async def changes(self, session_id: str) -> Sequence[FileChange]:
        """What agents have changed in files and nobody has taken back, in order; a store may keep the last ones
        alone."""
        ...

    async def output(self, session_id: str, agent_id: str, tool_call_id: str) -> str | None:
        """The whole output of a call; ``None`` where there is none beyond that of its events, or none any more."""
        ...

    async def claim(self, session_id: str) -> Claim:
        """Makes this process the owner, unless another one that lives is. Of several that want it, one gets it."""
        ...

    async def release(self, session_id: str) -> None:
        """Gives the session back; of one that is not owned, nothing."""
        ...

    async def abandoned(self) -> Sequence[str]:
        """The sessions whose owner ended without giving them back."""
        ...

    async def close(self) -> None:
        """Keeps what was handed in, gives every session back and lets go of all files."""
        ...
