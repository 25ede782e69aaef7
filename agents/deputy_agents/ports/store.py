"""The session store."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol, TypeAlias

from deputy_agents.domain.event import Event
from deputy_agents.domain.file_change import FileChange
from deputy_agents.domain.message import Message
from deputy_agents.domain.model_card import Effort, ThinkingMode
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
    effort: Effort | None = None
    """The effort chosen for this session; ``None`` means that of the definition or the settings."""
    thinking: ThinkingMode | None = None
    """The mode chosen for this session; ``None`` means the mode from the settings."""


@dataclass(frozen=True, slots=True)
class HistoryRecord:
    """One message of an agent's model history, appended in order."""

    agent_id: str
    message: Message


@dataclass(frozen=True, slots=True)
class ContextRecord:
    """What an agent's model receives of its history, so that the first request after a restart starts like the last one
    before it. ``frame`` identifies the model, the prompt and the tools; ``summary`` replaces the messages before
    ``start``; thinking before ``thinking_start`` is left out; ``withheld`` are blocks (message, block) that are
    replaced."""

    agent_id: str
    frame: str
    summary: str = ""
    start: int = 0
    thinking_start: int = 0
    withheld: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class PendingPrompt:
    """A prompt that waits for the running turn to end: as the model reads it, and as users see it."""

    prompt_id: str
    message: Message
    shown: str
    origin: str


@dataclass(frozen=True, slots=True)
class PromptsRecord:
    """All queued prompts of a session, in order."""

    prompts: tuple[PendingPrompt, ...]


@dataclass(frozen=True, slots=True)
class NotesRecord:
    """All of the user's messages to an agent that its model has not received yet, in order."""

    agent_id: str
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ViewRecord:
    """What the events up to ``seq`` amount to, so that a restart reads only later ones. ``version`` identifies the code
    that made it. ``facts`` and ``index`` are dataclasses that the store encodes as JSON; ``index`` has only numbers and
    ids. A store keeps the last one, or none."""

    seq: int
    version: str
    facts: object
    index: object


@dataclass(frozen=True, slots=True)
class StoredView:
    """A :class:`ViewRecord` as it was stored, in JSON."""

    seq: int
    version: str
    facts: bytes
    index: bytes


@dataclass(frozen=True, slots=True)
class SessionState:
    """What a session holds beside its events and histories: the last record of each kind, or of each agent."""

    contexts: tuple[ContextRecord, ...] = ()
    prompts: tuple[PendingPrompt, ...] = ()
    notes: tuple[NotesRecord, ...] = ()
    view: StoredView | None = None
    """``None`` also if it does not fit the events."""


@dataclass(frozen=True, slots=True)
class HistoryEnds:
    """What is known of a history without reading all of it: its number of messages, the first and the last one, and
    those whose text contains the text that was searched for."""

    count: int
    first: Message
    last: Message
    matching: tuple[Message, ...] = ()


@dataclass(frozen=True, slots=True)
class OutputRecord:
    """The full output of a tool call whose events contain only a part. ``tool_call_id`` is unique within the agent."""

    agent_id: str
    tool_call_id: str
    text: str


@dataclass(frozen=True, slots=True)
class ChangesDropped:
    """These changes were not made; the store deletes them."""

    change_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CheckpointRecord:
    """The state before a turn, or the one that a rewind leaves (``is_left``). ``agent_id`` is the primary agent, and
    ``prompt`` what the user wrote. The store adds the rest: ``counts`` is the number of messages in the history of each
    agent, ``context`` what the primary's model was sent, and ``last_change`` the number of the last change of a
    file."""

    checkpoint_id: str
    turn_id: str
    agent_id: str
    time: float
    title: str
    prompt: Message | None
    is_left: bool = False
    counts: Mapping[str, int] = field(default_factory=dict[str, int])
    context: ContextRecord | None = None
    last_change: int = 0


@dataclass(frozen=True, slots=True)
class RewindRecord:
    """The histories of agents get the messages that they had at the checkpoint ``target``: ``counts`` of them. What
    they are now is kept with the checkpoint ``left``. ``agent_id`` is the primary agent, which gets ``context``."""

    target: str
    left: str
    counts: Mapping[str, int]
    agent_id: str
    context: ContextRecord | None


@dataclass(frozen=True, slots=True)
class ReviewRecord:
    """What is unreviewed in a file, as JSON text, after all changes up to ``change_id``. Replaces the previous record
    of the file; an empty ``change_id`` stands for that of the previous record."""

    path: str
    state: str
    change_id: str = ""
    texts: tuple[str, ...] = ()
    """All text in ``state``. If it contains a secret, the state is not stored."""


@dataclass(frozen=True, slots=True)
class StoredReview:
    """The latest records of all files, and the later changes, in order. ``withheld`` are the paths of files whose
    record was not stored, because it contains a secret."""

    records: tuple[ReviewRecord, ...] = ()
    changes: tuple[FileChange, ...] = ()
    withheld: tuple[str, ...] = ()


Record: TypeAlias = (
    HistoryRecord
    | ContextRecord
    | PromptsRecord
    | NotesRecord
    | ViewRecord
    | FileChange
    | ChangesDropped
    | ReviewRecord
    | OutputRecord
    | CheckpointRecord
    | RewindRecord
)
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

    async def delete(self, session_id: str, purge_after: float = 0) -> None:
        """Deletes a session and all its data, including its transcript documents. The session is gone when this
        returns; its data is removed in the background, not before ``purge_after`` (seconds since the epoch)."""
        ...

    async def undelete(self, purge_after: float) -> None:
        """Restores the deleted sessions whose data would be removed after that time."""
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

    async def events_at(self, session_id: str, numbers: Sequence[int]) -> Sequence[Event]:
        """The durable events with these ``seq``, in order. Those that are not there are left out."""
        ...

    async def history(self, session_id: str, agent_id: str, limit: int | None = None) -> Sequence[Message]:
        """The first ``limit`` messages of an agent's history."""
        ...

    async def history_ends(
        self, session_id: str, agent_ids: Sequence[str], containing: str = ""
    ) -> Mapping[str, HistoryEnds]:
        """What is known of the non-empty histories of these agents without reading them. ``containing`` is searched for
        in the texts of messages; an empty one finds nothing."""
        ...

    async def state(self, session_id: str) -> SessionState: ...

    async def changes(self, session_id: str, since: str | None = None) -> Sequence[FileChange]:
        """The changes of agents and of rewinds to files, in order: all, or those ``since`` a checkpoint. A store may
        keep only the latest; of each file with older ones, the last of these is there too, as ``forgotten``."""
        ...

    async def checkpoints(self, session_id: str) -> Sequence[CheckpointRecord]:
        """The checkpoints of a session, oldest first."""
        ...

    async def fork(
        self, session_id: str, record: SessionRecord, ids: Mapping[str, str], checkpoint_id: str | None = None
    ) -> None:
        """Stores a new session, ``record``, that begins as a copy of another one at a checkpoint, or as that is now.
        ``ids`` has the new id of each agent. Nobody owns it yet.

        Raises:
            InvalidRequest: there is no such checkpoint.
            WrongState: this store does not fork.
        """
        ...

    async def review(self, session_id: str) -> StoredReview:
        """What agents changed in files and the user has not reviewed."""
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
