"""A prompt is answered when its turn has ended, hooks at its end included, with a stop reason and what it used. Every
way to cancel answers it with `{"stopReason": "cancelled", …}`, never with error -32800: `$/cancelRequest` of the prompt
and cancel of its `workDoneToken` end the turn and the children that it waits for; `deputy/session/cancel`,
`deputy.cancelSession` and `deputy/agent/cancel` on the primary end background agents too. A failure of the model that
ends the turn is error -32006. A cancelled turn also emits `message` with the text shown so far.

A prompt during a turn is error -32003 unless it has `queue: true`, or the turn was begun by the end of a background
agent: then it waits, shown by the event `prompt_queue`, and can be taken back. `deputy/session/cancel` empties the
queue.

Buffers and `workspace/applyEdit` belong to the client that prompted while it is connected, else to the one that
subscribed first. A session that is live in another server process loads as a snapshot without events, and every method
that would change it is error -32003.
"""

from enum import StrEnum
from typing import Annotated, TypeAlias

from pydantic import Field, StrictInt

from deputy_protocol.agent import Usage
from deputy_protocol.base import Count, Flag, Params, Positive, Wire
from deputy_protocol.message import PromptBlock


class PermissionMode(StrEnum):
    """How much is allowed without asking, in rising order."""

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
    """A session as lists show it."""

    session_id: str
    """A child's is its agent id."""
    parent_session_id: str | None = None
    title: str
    cwd: str
    """URI of its folder."""
    created_at: str
    updated_at: str
    archived: Flag
    model: str
    permission_mode: PermissionMode | None = None
    """Absent while nobody has set one: that of the settings holds. The answer to `deputy/session/load` always has the
    one in force, save of a session that is live in another server process."""
    agent_count: Count


class SessionParams(Params):
    """A session."""

    session_id: str


class SessionNewParams(Params):
    """How the session starts."""

    cwd: str | None = None
    """URI of its folder; the first workspace folder when absent. One outside of the workspace folders is a workspace of
    its own: the client is the user's, so its word is enough."""
    title: str | None = None
    model: str | None = None
    permission_mode: PermissionMode | None = None
    agent: str | None = None
    """Name of the definition of its own agent; `primary` when absent."""


class SessionNewResult(Wire):
    """The session and its primary agent."""

    session_id: str
    agent_id: str


class SessionPromptParams(Params):
    """A prompt."""

    session_id: str
    prompt: Annotated[tuple[PromptBlock, ...], Field(min_length=1, max_length=1000)]
    queue: Flag = False
    """Wait when a turn runs."""
    work_done_token: ProgressToken | None = None
    """Carries the primary's progress."""


class SessionPromptResult(Wire):
    """How the turn ended."""

    stop_reason: StopReason
    usage: Usage
    """What the turn used."""


class SessionUnqueueParams(Params):
    """A prompt that waits."""

    session_id: str
    prompt_id: str


class SessionUnqueueResult(Wire):
    """Whether it was taken back."""

    removed: Flag
    """False for an id that does not wait."""


class SessionListParams(Params):
    """Which sessions."""

    cwd: str | None = None
    """URI of a folder; sessions of all folders when absent."""
    include_children: Flag = False
    include_archived: Flag = False
    cursor: str | None = None
    """`nextCursor` of the part before."""
    limit: Positive | None = None


class SessionListResult(Wire):
    """A part of the list."""

    sessions: tuple[SessionInfo, ...]
    """Newest first."""
    next_cursor: str | None = None
    """Absent at the end of the list."""


class SessionRenameParams(Params):
    """A new title."""

    session_id: str
    title: str


class SessionArchiveParams(Params):
    """Into the archive, or out of it."""

    session_id: str
    archived: Flag


class ExportFormat(StrEnum):
    """Form of an exported session."""

    MARKDOWN = "markdown"
    JSON = "json"


class SessionExportParams(Params):
    """What to export."""

    session_id: str
    format: ExportFormat = ExportFormat.MARKDOWN


class SessionExportResult(Wire):
    """The exported session."""

    text: str


class SessionSetPermissionModeParams(Params):
    """A new permission mode."""

    session_id: str
    permission_mode: PermissionMode


class SessionSetModelParams(Params):
    """A new model."""

    session_id: str
    model: str
