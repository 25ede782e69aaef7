"""A transcript is the folded form of an agent's events: one entry per message, tool call and sub-agent, in its latest
state. A client draws a reopened session from it, and continues with the events after `lastSeq`."""

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from deputy_protocol.agent import AgentNode
from deputy_protocol.base import Count, Flag, Params, Positive, Wire
from deputy_protocol.event import PlanEntry, PromptQueueEntry, TurnOutcome
from deputy_protocol.message import Message, Thought
from deputy_protocol.permission import PermissionRequest
from deputy_protocol.place import Reference
from deputy_protocol.session import SessionInfo, SessionParams
from deputy_protocol.tool import EditDiff, ToolCall
from deputy_protocol.user_input import InputRequest


class _Entry(Wire):
    seq: Positive
    """`seq` of the event that created the entry."""
    agent_id: str
    run: Positive
    time: str


class MessageEntry(Message, _Entry):
    """A message."""

    type: Literal["message"] = "message"


class ThoughtEntry(Thought, _Entry):
    """What the model thought. Show it folded."""

    type: Literal["thought"] = "thought"


class ToolCallEntry(ToolCall, _Entry):
    """A tool call in its latest state."""

    type: Literal["tool_call"] = "tool_call"
    content: str | None = None
    """The part of the result to show to the user. Limited in length."""
    truncated: Flag | None = None
    """Whether `content` is only a part of the output. `deputy/agent/output` returns more of it."""
    diff: EditDiff | None = None
    """What a completed edit has changed."""


class AgentEntry(_Entry):
    """A sub-agent. `agentId` and `run` are those of the sub-agent."""

    type: Literal["agent"] = "agent"
    agent: AgentNode
    tool_call_id: str | None = None
    """The parent's tool call that the agent belongs to."""
    result: str | None = None
    """The agent's answer, or what it had found so far. Absent until the run has ended."""
    references: tuple[Reference, ...] | None = None
    """Passages that the result refers to."""


Entry: TypeAlias = Annotated[MessageEntry | ThoughtEntry | ToolCallEntry | AgentEntry, Field(discriminator="type")]


class AgentTranscriptParams(Params):
    """Which part of an agent's transcript to return."""

    session_id: str
    agent_id: str
    after: Count = 0
    """Only entries with a greater `seq`."""
    before: Positive | None = None
    """Only entries with a smaller `seq`."""
    limit: Positive | None = None
    """Maximum number of entries: the last ones if `before` is set, otherwise the first."""


class AgentTranscriptResult(Wire):
    """Entries of a transcript."""

    entries: tuple[Entry, ...]
    """Ordered by `seq`."""
    earlier: Flag | None = None
    """True when the transcript has entries before these. Request them with `before`."""
    last_seq: Count
    """The session's last published `seq`. Later events are not part of this result."""


class AgentOutputParams(Params):
    """Which part of a tool call's output to return."""

    session_id: str
    agent_id: str
    tool_call_id: str
    offset: Count = 0
    """Number of characters to skip at the start."""
    limit: Annotated[Positive, Field(le=1_000_000)] = 100_000
    """Maximum number of characters to return, at most 1,000,000."""


class AgentOutputResult(Wire):
    """A part of the output. When a tool call produced too much output, its middle is replaced by a line that says
    so."""

    text: str
    size: Count
    """Total number of characters."""


class AgentPlan(Wire):
    """The plan of one agent."""

    agent_id: str
    entries: tuple[PlanEntry, ...]


class SessionLoadParams(SessionParams):
    """A session, and how much of its transcript to return."""

    transcript_limit: Positive | None = None
    """Maximum number of entries in `transcript`: the last ones. Default: all."""


class SessionLoadResult(Wire):
    """Everything needed to draw a session. Events with a greater `seq` follow the result."""

    session: SessionInfo
    agents: tuple[AgentNode, ...]
    transcript: tuple[Entry, ...]
    """Transcript of the primary agent."""
    earlier: Flag | None = None
    """True when the transcript has entries before these. `deputy/agent/transcript` with `before` returns them."""
    permissions: tuple[PermissionRequest, ...]
    """Open permission requests. They are also sent as requests."""
    inputs: tuple[InputRequest, ...]
    """Open input requests. They are also sent as requests."""
    plans: tuple[AgentPlan, ...]
    """Plans of the agents that have one."""
    prompt_queue: tuple[PromptQueueEntry, ...]
    """Queued prompts, in the order in which they will run."""
    last_turn: TurnOutcome | None = None
    """How the last turn ended. Absent while a turn runs, and before the first turn."""
    snapshot: Flag | None = None
    """True when the session is live in another server process. No events follow, and methods that would change the
    session return an error."""
    last_seq: Count
    """The session's last published `seq`."""
