"""The events of a session.

An :class:`Event` is an envelope around a body. Durable bodies are numbered (``seq`` per session, ``agent_seq`` per
agent and run), stored, and then published; the fold in ``events.view`` rebuilds from them everything that a client
shows. Lossy bodies (deltas, activity) and derived bodies (counts, the prompt queue) are never stored. They carry only
``after_seq``, the last published number.

Times are in seconds since the epoch, paths are absolute strings, lines count from 1.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, TypeAlias

from deputy_agents.domain.access import Access
from deputy_agents.domain.message import Usage
from deputy_agents.domain.model_card import Effort
from deputy_agents.domain.outcome import AgentStatus, FailureReason
from deputy_agents.domain.preview import EditDiff, Preview
from deputy_agents.domain.review import ChangesReviewed, CheckpointCreated, ReviewStatus, SessionRewound
from deputy_agents.domain.rule import RuleScope
from deputy_agents.domain.user_input import InputAction, InputForm


class ToolKind(StrEnum):
    """What a tool does. Editors choose an icon by it, the gate its default decision."""

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
    """A range of lines in a file, counted from 1, both ends included; the whole file when both are ``None``."""

    path: str
    start: int | None = None
    end: int | None = None


# -- agents ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AgentInfo:
    """The properties of an agent that are fixed when its run is accepted."""

    agent_id: str
    label: str
    definition: str
    model: str
    access: Access
    depth: int
    parent_id: str | None = None
    tool_call_id: str | None = None
    cwd: str = ""
    """The working folder; that of the session when empty."""
    effort: Effort | None = None
    """``None`` leaves it to the model."""


@dataclass(frozen=True, slots=True)
class AgentRef:
    """The agent of a permission request, with its ancestors from the primary down to its parent."""

    agent_id: str
    label: str
    definition: str
    model: str
    depth: int
    ancestry: tuple[tuple[str, str], ...] = ()
    """Pairs of agent id and label."""


# -- requests to the user -----------------------------------------------------------------------------------------


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
    rules: tuple[str, ...] = ()
    """The rules that the option adds, as users read them."""
    scope: RuleScope = RuleScope.ONCE
    """Where it adds them."""


@dataclass(frozen=True, slots=True)
class Batch:
    """The permission requests of one model reply share an ``id``. ``index`` counts from 0 up to ``size``."""

    id: str
    index: int
    size: int


@dataclass(frozen=True, slots=True)
class PermissionRequest:
    """A request for the user's permission to run one tool call."""

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


@dataclass(frozen=True, slots=True)
class InputRequest:
    """A request for the user's input. It belongs to the tool call during which it was made, if there is one."""

    request_id: str
    agent: AgentRef
    title: str
    form: InputForm
    tool_call_id: str | None = None


class ResolvedBy(StrEnum):
    """How a request was resolved. A call that needs permission runs only after ``RULE``, or ``USER`` with an allowing
    option."""

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
    """Why a turn failed, in words for the user. ``action`` is what the user can do."""

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
    """The process ended during the turn; the user had not stopped it."""
    detail: str = ""
    """The limit that the turn reached, in words, with the name of its setting."""
    setting: str = ""
    """The name of that setting alone, for example ``budgets.tree.tokens``."""


@dataclass(frozen=True, slots=True)
class AgentStarted:
    """A run was accepted. ``PENDING`` while it waits for a slot, with its position in the queue counted from 1."""

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
    """The number of attached images."""


@dataclass(frozen=True, slots=True)
class ThoughtAdded:
    """What the model thought before a message, which may have no text. For display only."""

    message_id: str
    text: str


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
    """Which rule decided about the call and how, if one did."""


@dataclass(frozen=True, slots=True)
class ToolCallUpdated:
    tool_call_id: str
    status: CallStatus
    content: str | None = None
    locations: tuple[Location, ...] | None = None
    truncated: bool = False
    """``content`` is only a part of the output; the store keeps more of it."""
    diff: EditDiff | None = None
    """What a completed edit has changed."""


@dataclass(frozen=True, slots=True)
class PermissionRequested:
    request: PermissionRequest


@dataclass(frozen=True, slots=True)
class PermissionResolved:
    """``option_id`` is the option that the user chose, if any. ``reason`` is the gate's, if the gate resolved the
    request."""

    request_id: str
    by: ResolvedBy
    option_id: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class InputRequested:
    request: InputRequest


@dataclass(frozen=True, slots=True)
class InputResolved:
    """What the user entered is in the result of the tool call, and nowhere else."""

    request_id: str
    action: InputAction
    by: ResolvedBy


@dataclass(frozen=True, slots=True)
class PlanEntry:
    content: str
    status: Literal["pending", "in_progress", "completed"] = "pending"
    priority: Literal["high", "medium", "low"] | None = None


@dataclass(frozen=True, slots=True)
class PlanChanged:
    entries: tuple[PlanEntry, ...]


@dataclass(frozen=True, slots=True)
class ContextSize:
    """How much of a context window is used, in tokens."""

    used: int
    window: int


@dataclass(frozen=True, slots=True)
class UsageChanged:
    """The totals of the agent, and its context window. ``replied`` is not set when a compaction alone has changed
    it."""

    usage: Usage
    context: ContextSize | None = None
    replied: bool = True


@dataclass(frozen=True, slots=True)
class AgentFinished:
    """The end of a run. ``result`` is bounded; if ``truncated``, the rest is in the transcript."""

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
    | ThoughtAdded
    | ToolCallStarted
    | ToolCallUpdated
    | PermissionRequested
    | PermissionResolved
    | InputRequested
    | InputResolved
    | PlanChanged
    | UsageChanged
    | AgentFinished
    | CheckpointCreated
    | SessionRewound
    | ChangesReviewed
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
    """What an agent is doing. Replaces the previous activity."""

    text: str
    tool_call_count: int


@dataclass(frozen=True, slots=True)
class ToolOutputDelta:
    """Further output of a running call. The complete output follows when the call ends."""

    tool_call_id: str
    text: str


Lossy: TypeAlias = MessageDelta | ThoughtDelta | Activity | ToolOutputDelta


@dataclass(frozen=True, slots=True)
class SessionStatus:
    """The number of sub-agents by status, and of the primary. ``running`` includes ``awaiting_permission``."""

    primary: int
    pending: int
    running: int
    awaiting_permission: int
    finished: int


@dataclass(frozen=True, slots=True)
class QueuedPrompt:
    """A prompt that waits for the running turn, as the user sees it. ``pictures`` is the number of attached images."""

    prompt_id: str
    text: str
    pictures: int = 0


@dataclass(frozen=True, slots=True)
class PromptQueue:
    """The prompts that wait for the running turn, in order."""

    entries: tuple[QueuedPrompt, ...]


@dataclass(frozen=True, slots=True)
class SessionChanged:
    """The title, model, permission mode, rules or background processes have changed. Clients read them again."""


@dataclass(frozen=True, slots=True)
class DefinitionsChanged:
    """Agent definitions were added, changed or removed. Clients list them again."""


Derived: TypeAlias = SessionStatus | ReviewStatus | PromptQueue | SessionChanged | DefinitionsChanged


@dataclass(frozen=True, slots=True)
class Unknown:
    """A stored event that this version of Deputy cannot read, because of its name or its form. It keeps its number in
    the sequence, and the fold ignores it."""

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
