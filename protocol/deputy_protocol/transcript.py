"""A transcript is the folded form of an agent's events: one entry per message, tool call and child, in its latest
state. A re-opened session is drawn from it, and goes on with the events after `lastSeq`.
"""

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from deputy_protocol.agent import AgentNode
from deputy_protocol.base import Count, Flag, Params, Positive, Wire
from deputy_protocol.event import PlanEntry, PromptQueueEntry, TurnOutcome
from deputy_protocol.message import Message
from deputy_protocol.permission import PermissionRequest
from deputy_protocol.place import Reference
from deputy_protocol.session import SessionInfo
from deputy_protocol.tool import ToolCall


class _Entry(Wire):
    seq: Positive
    """That of the event that opened it."""
    agent_id: str
    run: Positive
    time: str


class MessageEntry(Message, _Entry):
    """A message."""

    type: Literal["message"] = "message"


class ToolCallEntry(ToolCall, _Entry):
    """A tool call in its latest state."""

    type: Literal["tool_call"] = "tool_call"
    content: str | None = None
    """What people see of the result, bounded."""
    truncated: Flag | None = None
    """Whether `content` is a part of the output, and `deputy/agent/output` gives more of it."""


class AgentEntry(_Entry):
    """The block of a child. `agentId` and `run` are the child's."""

    type: Literal["agent"] = "agent"
    agent: AgentNode
    tool_call_id: str | None = None
    """The parent's tool call, to whose block the agent belongs."""
    result: str | None = None
    """Its answer, or what it had found, once it has ended."""
    references: tuple[Reference, ...] | None = None


Entry: TypeAlias = Annotated[MessageEntry | ToolCallEntry | AgentEntry, Field(discriminator="type")]


class AgentTranscriptParams(Params):
    """A part of an agent's transcript."""

    session_id: str
    agent_id: str
    after: Count = 0
    """Entries with a greater `seq` only."""
    limit: Positive | None = None


class AgentTranscriptResult(Wire):
    """Entries in the order of `seq`."""

    entries: tuple[Entry, ...]
    last_seq: Count
    """The session's last published `seq`: events after it are news."""


class AgentOutputParams(Params):
    """A part of what a tool call has put out."""

    session_id: str
    agent_id: str
    tool_call_id: str
    offset: Count = 0
    """Characters to leave out at the start."""
    limit: Annotated[Positive, Field(le=1_000_000)] = 100_000
    """Characters to give at most."""


class AgentOutputResult(Wire):
    """A part of an output, and how long all of it is. Of a flood, the middle is left out, with a line that says so."""

    text: str
    size: Count
    """Characters in all."""


class AgentPlan(Wire):
    """The plan of one agent."""

    agent_id: str
    entries: tuple[PlanEntry, ...]


class SessionLoadResult(Wire):
    """Everything that is needed to draw a session. Events with a greater `seq` follow the answer."""

    session: SessionInfo
    agents: tuple[AgentNode, ...]
    transcript: tuple[Entry, ...]
    """The primary's."""
    permissions: tuple[PermissionRequest, ...]
    """The open questions; they also come as requests."""
    plans: tuple[AgentPlan, ...]
    """Of the agents that have one."""
    prompt_queue: tuple[PromptQueueEntry, ...]
    """The prompts that wait, in order."""
    last_turn: TurnOutcome | None = None
    """How the last turn ended; absent while one runs, and before the first."""
    snapshot: Flag | None = None
    """Whether the session is live in another server process: no events follow, and what would change it is an error."""
    last_seq: Count
