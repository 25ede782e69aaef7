"""A prompt returns when its turn has ended, including the hooks that run at its end. The result has the stop reason and
the usage. However a prompt is cancelled, it returns `{"stopReason": "cancelled", …}` and never error -32800.
`$/cancelRequest` for the prompt, or cancelling its `workDoneToken`, ends the turn and the sub-agents that the turn
waits for. `deputy/session/cancel`, `deputy.cancelSession`, and `deputy/agent/cancel` for the primary agent also end
background tasks. If a failure of the model ends the turn, the prompt returns error -32006. A cancelled turn also emits
a `message` with the text shown so far.

A prompt during a turn returns error -32003, unless it has `queue: true` or the running turn was started by the end of a
background task. In these cases the prompt is queued: the event `prompt_queue` shows it, and `deputy/session/unqueue`
removes it. `deputy/session/cancel` empties the queue.

The client that sent the prompt provides its open documents and receives `workspace/applyEdit` while it is connected;
otherwise the client that subscribed first does. A session that is live in another server process loads as a snapshot
without events; every method that would change it returns error -32003.
"""

from enum import StrEnum
from typing import Annotated, TypeAlias

from pydantic import Field, StrictInt

from deputy_protocol.agent import Usage
from deputy_protocol.base import Count, Flag, Params, Positive, Wire
from deputy_protocol.message import PromptBlock
from deputy_protocol.model import Effort, Thinking


class PermissionMode(StrEnum):
    """What agents may do without approval, from least to most."""

    PLAN = "plan"
    DEFAULT = "default"
    ACCEPT_EDITS = "accept_edits"
    BYPASS = "bypass"


class StopReason(StrEnum):
    """Why a turn ended."""

    END_TURN = "end_turn"
    MAX_TOKENS = "max_tokens"
    MAX_TURN_REQUESTS = "max_turn_requests"
    REFUSAL = "refusal"
    CANCELLED = "cancelled"


ProgressToken: TypeAlias = StrictInt | str


class SessionInfo(Wire):
    """A session as shown in lists."""

    session_id: str
    """For a sub-agent, its agent id."""
    parent_session_id: str | None = None
    """For a sub-agent, the session it belongs to."""
    title: str
    cwd: str
    """URI of the session's folder."""
    created_at: str
    updated_at: str
    """When the session last changed."""
    archived: Flag
    """Archived sessions are listed only on request."""
    model: str
    permission_mode: PermissionMode | None = None
    """Absent until it is set for this session; until then the mode from the settings applies. The result of
    `deputy/session/load` always has the mode in force, except for a session that is live in another server process."""
    agent_count: Count
    """Number of agents, including ended ones."""
    effort: Effort | None = None
    """Absent unless it was chosen for this session."""
    thinking: Thinking | None = None
    """Absent unless it was chosen for this session."""


class SessionParams(Params):
    """A session."""

    session_id: str


class SessionNewParams(Params):
    """How the session starts."""

    cwd: str | None = None
    """URI of the session's folder. Default: the first workspace folder. A folder outside the workspace folders becomes
    a workspace of its own without further checks, because the client acts for the user."""
    title: str | None = None
    """Default: a title made from the first prompt."""
    model: str | None = None
    """Default: the model from the settings."""
    effort: Effort | None = None
    """Default: the effort from the agent definition or the settings."""
    thinking: Thinking | None = None
    """Default: the mode from the settings."""
    permission_mode: PermissionMode | None = None
    """Default: the permission mode from the settings."""
    agent: str | None = None
    """Name of the agent definition for the primary agent. Default: `primary`."""


class SessionNewResult(Wire):
    """The session and its primary agent."""

    session_id: str
    agent_id: str
    """Id of the primary agent."""


class SessionPromptParams(Params):
    """A prompt."""

    session_id: str
    prompt: Annotated[tuple[PromptBlock, ...], Field(min_length=1, max_length=1000)]
    """1 to 1,000 blocks."""
    queue: Flag = False
    """Queue the prompt if a turn is running."""
    work_done_token: ProgressToken | None = None
    """Shows the progress of the primary agent."""


class SessionPromptResult(Wire):
    """How the turn ended."""

    stop_reason: StopReason
    usage: Usage
    """What the turn used."""
    rewound_prompt: tuple[PromptBlock, ...] | None = None
    """After `/rewind`, the prompt of the turn that was gone back over. Put it into the input."""
    forked_session_id: str | None = None
    """After `/fork`, the new session. Open it."""


class SessionUnqueueParams(Params):
    """A queued prompt."""

    session_id: str
    prompt_id: str
    """Id from the event `prompt_queue`."""


class SessionUnqueueResult(Wire):
    """Whether the prompt was removed from the queue."""

    removed: Flag
    """False when no queued prompt has this id."""


class SessionListParams(Params):
    """Which sessions to list."""

    cwd: str | None = None
    """URI of a folder. When absent, sessions of all folders."""
    include_children: Flag = False
    """Include sub-agents."""
    include_archived: Flag = False
    """Include archived sessions."""
    cursor: str | None = None
    """`nextCursor` of the previous page."""
    limit: Positive | None = None
    """Maximum number of sessions in this page."""


class SessionListResult(Wire):
    """A page of the list."""

    sessions: tuple[SessionInfo, ...]
    """Newest first."""
    next_cursor: str | None = None
    """Absent on the last page."""
    problem: str | None = None
    """Why stored sessions are missing from the list, if they are: the session store cannot be used. Show it."""


class SessionRenameParams(Params):
    """A new title."""

    session_id: str
    title: str


class SessionArchiveParams(Params):
    """Whether to archive the session."""

    session_id: str
    archived: Flag
    """False takes the session out of the archive."""


class ExportFormat(StrEnum):
    """Format of an exported session."""

    MARKDOWN = "markdown"
    JSON = "json"


class SessionExportParams(Params):
    """What to export."""

    session_id: str
    format: ExportFormat = ExportFormat.MARKDOWN
    """`markdown` is for reading; `json` has all data."""


class SessionExportResult(Wire):
    """The exported session."""

    text: str


class SessionSetPermissionModeParams(Params):
    """A new permission mode."""

    session_id: str
    permission_mode: PermissionMode


class Default(StrEnum):
    """Stands for what the settings say."""

    DEFAULT = "default"


class SessionSetModelParams(Params):
    """What to change. What is absent stays as it is."""

    session_id: str
    model: str | None = None
    """Name of a model, which need not be listed by `deputy/model/list`."""
    effort: Effort | Default | None = None
    """`default` is the effort from the agent definition or the settings."""
    thinking: Thinking | Default | None = None
    """`default` is the mode from the settings."""
