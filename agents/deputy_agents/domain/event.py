"""What happens in a session, as facts.

An :class:`Event` is an envelope around a body. Durable bodies are numbered (``seq`` per session, ``agent_seq`` per
agent and run), committed by the store and then published; everything that a front end shows can be rebuilt from
them by the fold in ``view``. Lossy bodies (deltas, activity) and derived ones (counts, the prompt queue) are
never stored and carry only ``after_seq``, the last published number.

Times are seconds since the epoch, paths absolute strings, lines counted from 1.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, TypeAlias

from deputy_agents.domain.access import Access
from deputy_agents.domain.message import Usage
from deputy_agents.domain.outcome import AgentStatus, FailureReason


class ToolKind(StrEnum):
    """What a tool does to the world; editors choose icons by it, the gate its default."""

    READ = "read"
    SEARCH = "search"
    EDIT = "edit"
    EXECUTE = "execute"
    FETCH = "fetch"
    THINK = "think"
    OTHER = "other"


class CallStatus(StrEnum):
    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Location:
    """A place in a file: ``start`` and ``end`` are lines counted from 1, both included, or ``None`` for the whole."""

    path: str
    start: int | None = None
    end: int | None = None


# -- agents ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AgentInfo:
    """What is fixed when a run of an agent is accepted."""

    agent_id: str
    label: str
    definition: str
    model: str
    access: Access
    depth: int
    parent_id: str | None = None
    tool_call_id: str | None = None
    cwd: str = ""
    """Where it works; the session's folder when empty."""


@dataclass(frozen=True, slots=True)
class AgentRef:
    """Who asks: an agent with its ancestry, root first, itself excluded."""

    agent_id: str
    label: str
    definition: str
    model: str
    depth: int
    ancestry: tuple[tuple[str, str], ...] = ()
    """Pairs of agent id and label."""


# -- questions ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DiffPreview:
    """Whole texts; ``old_text`` is ``None`` for a new file."""

    path: str
    old_text: str | None
    new_text: str
    type: Literal["diff"] = "diff"


@dataclass(frozen=True, slots=True)
class CommandPreview:
    command: str
    cwd: str
    type: Literal["command"] = "command"


@dataclass(frozen=True, slots=True)
class TextPreview:
    text: str
    type: Literal["text"] = "text"


Preview: TypeAlias = DiffPreview | CommandPreview | TextPreview


class OptionKind(StrEnum):
    ALLOW_ONCE = "allow_once"
    ALLOW_ALWAYS = "allow_always"
    REJECT_ONCE = "reject_once"
    REJECT_ALWAYS = "reject_always"

    @property
    def allows(self) -> bool:
        return self in (OptionKind.ALLOW_ONCE, OptionKind.ALLOW_ALWAYS)


@dataclass(frozen=True, slots=True)
class Option:
    option_id: str
    name: str
    kind: OptionKind


@dataclass(frozen=True, slots=True)
class Batch:
    """Questions of one model response share ``id``; ``index`` counts from 0, ``size`` counts questions."""

    id: str
    index: int
    size: int


@dataclass(frozen=True, slots=True)
class PermissionRequest:
    """One permission request about one tool call."""

    request_id: str
    agent: AgentRef
    batch: Batch
    tool_call_id: str
    title: str
    tool: str
    kind: ToolKind
    input: Mapping[str, object]
    locations: tuple[Location, ...]
    options: tuple[Option, ...]
    preview: Preview | None = None
    reason: str | None = None


class ResolvedBy(StrEnum):
    """How a question was settled. Only ``USER`` with an allowing option, or ``RULE``, lets the call run."""

    USER = "user"
    RULE = "rule"
    CANCELLED = "cancelled"
    DISMISSED = "dismissed"
    UNREACHABLE = "unreachable"


# -- durable bodies ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TurnStarted:
    turn_id: str
    origin: Literal["user", "task_end", "command"] = "user"


@dataclass(frozen=True, slots=True)
class TurnError:
    """Why a turn failed, fit for the user: ``action`` says what to do."""

    kind: str
    message: str
    retryable: bool = False
    action: str = ""


@dataclass(frozen=True, slots=True)
class TurnFinished:
    turn_id: str
    stop_reason: str
    error: TurnError | None = None
    interrupted: bool = False
    """Its process ended, and nobody had stopped it."""
    detail: str = ""
    """The limit that it reached, in words, with the setting that sets it."""
    setting: str = ""
    """That setting by itself: ``budgets.tree.tokens``."""


@dataclass(frozen=True, slots=True)
class AgentStarted:
    """Emitted at acceptance: ``PENDING`` when it waits for a slot, with its place in the queue counted from 1."""

    info: AgentInfo
    status: AgentStatus
    queue_position: int | None = None


@dataclass(frozen=True, slots=True)
class StatusChanged:
    status: AgentStatus
    queue_position: int | None = None
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class MessageAdded:
    message_id: str
    role: Literal["user", "assistant"]
    text: str
    references: tuple[Location, ...] = ()
    pictures: int = 0
    """How many go with it."""


@dataclass(frozen=True, slots=True)
class ToolCallStarted:
    tool_call_id: str
    tool: str
    title: str
    kind: ToolKind
    status: CallStatus
    input: Mapping[str, object]
    locations: tuple[Location, ...] = ()
    reason: str | None = None
    """Which rule has decided about it and how, where one has."""


@dataclass(frozen=True, slots=True)
class ToolCallUpdated:
    tool_call_id: str
    status: CallStatus
    content: str | None = None
    locations: tuple[Location, ...] | None = None
    truncated: bool = False
    """``content`` is a part of the output; the store keeps more of it."""


@dataclass(frozen=True, slots=True)
class PermissionRequested:
    request: PermissionRequest


@dataclass(frozen=True, slots=True)
class PermissionResolved:
    """``option_id`` is the chosen option, or ``None`` when nobody chose; ``reason`` is what the gate says, where that
    has settled it."""

    request_id: str
    by: ResolvedBy
    option_id: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class PlanEntry:
    content: str
    status: Literal["pending", "in_progress", "completed"] = "pending"
    priority: Literal["high", "medium", "low"] | None = None


@dataclass(frozen=True, slots=True)
class PlanChanged:
    entries: tuple[PlanEntry, ...]


@dataclass(frozen=True, slots=True)
class UsageChanged:
    """Totals of the agent."""

    usage: Usage


@dataclass(frozen=True, slots=True)
class AgentFinished:
    """The one result of a run. ``result`` is bounded; ``truncated`` says that the rest is in the transcript."""

    status: AgentStatus
    result: str
    usage: Usage
    tool_call_count: int
    iterations: int
    failure_reason: FailureReason | None = None
    error: str | None = None
    references: tuple[Location, ...] = ()
    truncated: bool = False


Durable: TypeAlias = (
    TurnStarted
    | TurnFinished
    | AgentStarted
    | StatusChanged
    | MessageAdded
    | ToolCallStarted
    | ToolCallUpdated
    | PermissionRequested
    | PermissionResolved
    | PlanChanged
    | UsageChanged
    | AgentFinished
)

# -- bodies that are never stored --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MessageDelta:
    message_id: str
    text: str


@dataclass(frozen=True, slots=True)
class ThoughtDelta:
    message_id: str
    text: str


@dataclass(frozen=True, slots=True)
class Activity:
    """What an agent does now; the latest replaces the one before."""

    text: str
    tool_call_count: int


@dataclass(frozen=True, slots=True)
class ToolOutputDelta:
    """More of what a call puts out while it runs; its whole output comes with its end."""

    tool_call_id: str
    text: str


Lossy: TypeAlias = MessageDelta | ThoughtDelta | Activity | ToolOutputDelta


@dataclass(frozen=True, slots=True)
class SessionStatus:
    """Counts of children save ``primary``; ``awaiting_permission`` is a part of ``running``."""

    primary: int
    pending: int
    running: int
    awaiting_permission: int
    finished: int


@dataclass(frozen=True, slots=True)
class QueuedPrompt:
    """A prompt that waits for the running turn, as people see it; ``pictures`` is how many go with it."""

    prompt_id: str
    text: str
    pictures: int = 0


@dataclass(frozen=True, slots=True)
class PromptQueue:
    """The prompts that wait for the running turn, in order."""

    entries: tuple[QueuedPrompt, ...]


@dataclass(frozen=True, slots=True)
class SessionChanged:
    """Title, model, permission mode, rules or background commands changed: ask again."""


@dataclass(frozen=True, slots=True)
class DefinitionsChanged:
    """Agent definitions were added, changed or removed: ask again."""


Derived: TypeAlias = SessionStatus | PromptQueue | SessionChanged | DefinitionsChanged


@dataclass(frozen=True, slots=True)
class Unknown:
    """What another version of Deputy has stored under a name that this one does not know, or in a form that it cannot
    read. It holds its number's place, and folds to nothing."""

    type: str


Body: TypeAlias = Durable | Lossy | Derived | Unknown


@dataclass(frozen=True, slots=True)
class Event:
    """The envelope. Session-wide events have neither ``agent_id`` nor ``run``."""

    session_id: str
    time: float
    body: Body
    agent_id: str | None = None
    run: int | None = None
    seq: int | None = None
    agent_seq: int | None = None
    after_seq: int | None = None
