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
    """A session as a row of the session list. ``cwd`` is an absolute path. The row of a sub-agent has the agent id as
    its ``session_id`` and the id of its session as ``parent_session_id``."""

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
    """The mode chosen for this session; ``None`` means the mode from the settings."""
    rules: tuple[Rule, ...] = ()
    """Rules added by the user's answers."""
    parent_session_id: str | None = None


@dataclass(frozen=True, slots=True)
class HistoryRecord:
    """One message of an agent's model history, appended in order."""

    agent_id: str
    message: Message


@dataclass(frozen=True, slots=True)
class OutputRecord:
    """The full output of a tool call whose events contain only a part. ``tool_call_id`` is unique within the agent."""

    agent_id: str
    tool_call_id: str
    text: str


@dataclass(frozen=True, slots=True)
class ChangesDropped:
    """These changes were not made or were reverted; the store deletes them."""

    change_ids: tuple[str, ...]


Record: TypeAlias = HistoryRecord | FileChange | ChangesDropped | OutputRecord
"""Data stored beside the events, in the order of its arrival."""


@dataclass(frozen=True, slots=True)
class SessionQuery:
    """Which sessions to list, and how many rows. ``cursor`` comes from the previous page. ``children`` adds a row for
    each sub-agent after the row of its session. ``before`` excludes sessions used at that time or later (seconds since
    the epoch)."""

    cwd: str | None = None
    children: bool = False
    archived: bool = True
    cursor: str | None = None
    limit: int | None = None
    before: float | None = None


@dataclass(frozen=True, slots=True)
class SessionPage:
    """One page of a list; ``cursor`` requests the next page, ``None`` on the last one."""

    records: tuple[SessionRecord, ...]
    cursor: str | None = None


class Claim(Enum):
    """The result of claiming a session. Only the process that owns a session may change it."""

    MINE = "mine"
    TAKEN_OVER = "taken_over"
    """Owned by this process now. The previous owner ended without releasing it, so runs of its agents may be
    unfinished."""
    FOREIGN = "foreign"
    """Owned by another running process."""


class Store(Protocol):
    """Stores sessions. The event log is the source of truth; all other data is derived from it or stored beside it.

    Every change is atomic: after a crash, all of a call's data is stored or none of it. A call returns after the
    commit. Several processes can use one store at once. Only the owner changes a session; reading needs no claim. All
    methods raise StoreError when the store cannot be used, and UnknownSession when the session does not exist.
    """

    async def create(self, record: SessionRecord) -> None:
        """Stores a new session, owned by this process."""
        ...

    async def update(self, record: SessionRecord) -> None: ...

    async def get(self, session_id: str) -> SessionRecord: ...

    async def sessions(self, query: SessionQuery) -> SessionPage:
        """Newest first; sub-agents follow their session in start order.

        Raises:
            InvalidRequest: the cursor is invalid.
        """
        ...

    async def delete(self, session_id: str) -> None:
        """Deletes a session and all its data, including its transcript documents."""
        ...

    async def append(self, session_id: str, events: Sequence[Event], records: Sequence[Record] = ()) -> None:
        """Commits numbered events and their records.

        Raises:
            StoreError: the first ``seq`` does not follow the last stored one, or there is a gap.
        """
        ...

    async def events(self, session_id: str, after: int = 0, limit: int | None = None) -> Sequence[Event]:
        """Durable events with ``seq`` greater than ``after``, in order. An event of an unknown type, for instance of a
        newer version, has an :class:`~deputy_agents.domain.event.Unknown` body."""
        ...

    async def history(self, session_id: str, agent_id: str) -> Sequence[Message]: ...

    async def histories(self, session_id: str) -> Mapping[str, Sequence[Message]]:
        """All non-empty histories by agent id."""
        ...

    async def changes(self, session_id: str) -> Sequence[FileChange]:
        """Agents' changes to files that were not reverted, in order; a store may keep only the latest."""
        ...

    async def output(self, session_id: str, agent_id: str, tool_call_id: str) -> str | None:
        """The full output of a tool call; ``None`` if its events contain all of it or it is no longer stored."""
        ...

    async def claim(self, session_id: str) -> Claim:
        """Makes this process the owner unless another running process is. Of several concurrent claims, one
        succeeds."""
        ...

    async def release(self, session_id: str) -> None:
        """Releases the session; does nothing if this process does not own it."""
        ...

    async def abandoned(self) -> Sequence[str]:
        """The sessions whose owner ended without releasing them."""
        ...

    async def close(self) -> None:
        """Completes pending writes, releases all sessions and closes all files."""
        ...
