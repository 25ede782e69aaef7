"""The table of methods: with `command_table`, the only source of the schema, the reference pages and the editors'
types.

Payload classes are given as functions, so that importing the table imports none of them (see `contract`).
"""

from typing import TYPE_CHECKING, Final, TypeAlias

import deputy_protocol as p
from deputy_protocol.contract import Direction, Notification, Request

if TYPE_CHECKING:
    from pydantic import BaseModel

Method: TypeAlias = "Request[BaseModel, BaseModel] | Notification[BaseModel]"

_ASK: Final = Direction.TO_CLIENT

# -- sessions ----------------------------------------------------------------------------------------------------

SESSION_NEW = Request(
    "deputy/session/new",
    lambda: p.session.SessionNewParams,
    lambda: p.session.SessionNewResult,
    "Opens a session and subscribes the client to it.",
)
SESSION_PROMPT = Request(
    "deputy/session/prompt",
    lambda: p.session.SessionPromptParams,
    lambda: p.session.SessionPromptResult,
    "Starts a turn and returns when it has ended. Subscribes the client to the session.",
)
SESSION_UNQUEUE = Request(
    "deputy/session/unqueue",
    lambda: p.session.SessionUnqueueParams,
    lambda: p.session.SessionUnqueueResult,
    "Removes a queued prompt, which then returns `cancelled`.",
)
SESSION_CANCEL = Request(
    "deputy/session/cancel",
    lambda: p.session.SessionParams,
    lambda: p.agent.CancelledResult,
    "Stops the turn, all queued prompts, and all sub-agents, including background tasks.",
)
SESSION_LIST = Request(
    "deputy/session/list",
    lambda: p.session.SessionListParams,
    lambda: p.session.SessionListResult,
    "Lists sessions, newest first, including those of other servers that use the same store.",
)
SESSION_LOAD = Request(
    "deputy/session/load",
    lambda: p.transcript.SessionLoadParams,
    lambda: p.transcript.SessionLoadResult,
    "Returns everything needed to draw a session, and subscribes the client to it.",
)
SESSION_UNLOAD = Request(
    "deputy/session/unload",
    lambda: p.session.SessionParams,
    lambda: p.base.Empty,
    "Ends the client's subscription. The session continues.",
)
SESSION_RENAME = Request(
    "deputy/session/rename",
    lambda: p.session.SessionRenameParams,
    lambda: p.base.Empty,
    "Changes the title of a session.",
)
SESSION_ARCHIVE = Request(
    "deputy/session/archive",
    lambda: p.session.SessionArchiveParams,
    lambda: p.base.Empty,
    "Moves a session into or out of the archive. Lists omit archived sessions by default.",
)
SESSION_DELETE = Request(
    "deputy/session/delete",
    lambda: p.session.SessionParams,
    lambda: p.base.Empty,
    "Cancels a session, then deletes it and its agents.",
)
SESSION_EXPORT = Request(
    "deputy/session/export",
    lambda: p.session.SessionExportParams,
    lambda: p.session.SessionExportResult,
    "Returns a complete session as text.",
)
SESSION_SET_PERMISSION_MODE = Request(
    "deputy/session/setPermissionMode",
    lambda: p.session.SessionSetPermissionModeParams,
    lambda: p.base.Empty,
    "Changes the permission mode and applies it to open permission requests.",
)
SESSION_SET_MODEL = Request(
    "deputy/session/setModel",
    lambda: p.session.SessionSetModelParams,
    lambda: p.base.Empty,
    "Changes the model, its effort and its thinking for all following requests of the primary agent. Sub-agents that "
    "start later have them too, unless their definition or their task says otherwise.",
)

# -- agents ------------------------------------------------------------------------------------------------------

AGENT_LIST = Request(
    "deputy/agent/list",
    lambda: p.session.SessionParams,
    lambda: p.agent.AgentListResult,
    "Lists all agents of a session, including ended ones.",
)
AGENT_TRANSCRIPT = Request(
    "deputy/agent/transcript",
    lambda: p.transcript.AgentTranscriptParams,
    lambda: p.transcript.AgentTranscriptResult,
    "Returns the transcript of an agent, or a part of it.",
)
AGENT_OUTPUT = Request(
    "deputy/agent/output",
    lambda: p.transcript.AgentOutputParams,
    lambda: p.transcript.AgentOutputResult,
    "Returns the output of a tool call, including parts that the transcript omits.",
)
AGENT_CANCEL = Request(
    "deputy/agent/cancel",
    lambda: p.agent.AgentParams,
    lambda: p.agent.CancelledResult,
    "Stops an agent and everything below it, and returns when all of that has stopped.",
)
AGENT_MESSAGE = Request(
    "deputy/agent/message",
    lambda: p.agent.AgentMessageParams,
    lambda: p.agent.AgentMessageResult,
    "Sends a message to a running agent, which reads it before it continues or ends. Returns error -32003 if the "
    "agent is idle or has ended. A message that the agent could no longer read, because it was cancelled or timed "
    "out, is shown as unread.",
)
AGENT_REVERT = Request(
    "deputy/agent/revert",
    lambda: p.agent.AgentRevertParams,
    lambda: p.agent.AgentRevertResult,
    "Reverts the edits of an agent, except where the text has changed since. Returns error -32003 while the agent "
    "works.",
)

# -- reviews -----------------------------------------------------------------------------------------------------

REVIEW_LIST = Request(
    "deputy/review/list",
    lambda: p.review.ReviewListParams,
    lambda: p.review.ReviewListResult,
    "Lists what agents changed in files and the user has not reviewed, as hunks.",
)
REVIEW_BASE = Request(
    "deputy/review/base",
    lambda: p.review.ReviewBaseParams,
    lambda: p.review.ReviewBaseResult,
    "Returns a file's text without its unreviewed hunks, as the left side of a diff.",
)
REVIEW_KEEP = Request(
    "deputy/review/keep",
    lambda: p.review.ReviewParams,
    lambda: p.review.ReviewResult,
    "Keeps hunks: they become part of the base.",
)
REVIEW_UNDO = Request(
    "deputy/review/undo",
    lambda: p.review.ReviewParams,
    lambda: p.review.ReviewResult,
    "Undoes hunks: the base's lines come back. Open documents are changed with `workspace/applyEdit`.",
)
REVIEW_BLAME = Request(
    "deputy/review/blame",
    lambda: p.review.ReviewBlameParams,
    lambda: p.review.ReviewBlameResult,
    "Returns which agents changed a line, why, and what approved it, in all open sessions of the server.",
)

# -- checkpoints -------------------------------------------------------------------------------------------------------

CHECKPOINT_LIST = Request(
    "deputy/checkpoint/list",
    lambda: p.session.SessionParams,
    lambda: p.checkpoint.CheckpointListResult,
    "Lists the checkpoints to which a session can go.",
)
CHECKPOINT_PREVIEW = Request(
    "deputy/checkpoint/preview",
    lambda: p.checkpoint.CheckpointParams,
    lambda: p.checkpoint.CheckpointPreviewResult,
    "Lists the files that a rewind would change, and changes nothing.",
)
SESSION_REWIND = Request(
    "deputy/session/rewind",
    lambda: p.checkpoint.SessionRewindParams,
    lambda: p.checkpoint.SessionRewindResult,
    "Goes back to a checkpoint. Lines that the user typed stay. Returns error -32003 while an agent works.",
)
SESSION_FORK = Request(
    "deputy/session/fork",
    lambda: p.checkpoint.SessionForkParams,
    lambda: p.session.SessionNewResult,
    "Opens a new session that begins as another one was at a checkpoint, or is now, and subscribes the client to it. "
    "No file changes. Returns error -32003 while sessions are not stored and, without a checkpoint, while "
    "an agent works.",
)

# -- permissions -------------------------------------------------------------------------------------------------

PERMISSION_LIST = Request(
    "deputy/permission/list",
    lambda: p.permission.PermissionListParams,
    lambda: p.permission.PermissionListResult,
    "Lists the open permission requests and input requests.",
)
PERMISSION_PREVIEW = Request(
    "deputy/permission/preview",
    lambda: p.permission.PermissionPreviewParams,
    lambda: p.permission.PermissionPreviewResult,
    "Returns the preview of an open permission request with complete texts.",
)
PERMISSION_ANSWER = Request(
    "deputy/permission/answer",
    lambda: p.permission.PermissionAnswerParams,
    lambda: p.permission.PermissionAnswerResult,
    "Answers an open permission request. Needs no subscription.",
)
PERMISSION_ANSWER_MANY = Request(
    "deputy/permission/answerMany",
    lambda: p.permission.PermissionAnswerManyParams,
    lambda: p.permission.PermissionAnswerManyResult,
    "Gives several open permission requests the same answer. If the answer does not fit all of them, none is answered.",
)
INPUT_ANSWER = Request(
    "deputy/input/answer",
    lambda: p.user_input.InputAnswerParams,
    lambda: p.user_input.InputAnswerResult,
    "Answers an input request of any open session.",
)
PERMISSION_APPROVE_EDITS = Request(
    "deputy/permission/approveEdits",
    lambda: p.permission.PermissionApproveEditsParams,
    lambda: p.permission.PermissionAnswerManyResult,
    "Approves a request about an edit and every further edit of the same agent until the turn ends. Protected files, "
    "Deputy's own configuration, files that a rule asks about, and commands still ask.",
)
RULE_LIST = Request(
    "deputy/rule/list",
    lambda: p.rule.RuleListParams,
    lambda: p.rule.RuleListResult,
    "Lists the permission rules of a session.",
)
RULE_REMOVE = Request(
    "deputy/rule/remove",
    lambda: p.rule.RuleRemoveParams,
    lambda: p.rule.RuleListResult,
    "Removes a permission rule from a session and returns the remaining rules. A rule from the settings stays in "
    "force in other sessions.",
)

# -- models ------------------------------------------------------------------------------------------------------

MODEL_LIST = Request(
    "deputy/model/list",
    lambda: p.base.NoParams,
    lambda: p.model.ModelListResult,
    "Lists the models to offer, with what is known about each.",
)

# -- definitions, context, processes, metrics --------------------------------------------------------------------

DEFINITION_LIST = Request(
    "deputy/definition/list",
    lambda: p.base.NoParams,
    lambda: p.definition.DefinitionListResult,
    "Lists the agent definitions.",
)
CONTEXT_LIST = Request(
    "deputy/context/list",
    lambda: p.session.SessionParams,
    lambda: p.context.ContextListResult,
    "Lists the instructions, skills, commands and MCP servers of a session, and why each applies.",
)
CONTEXT_COMPLETE = Request(
    "deputy/context/complete",
    lambda: p.context.CompleteParams,
    lambda: p.context.CompleteResult,
    "Completes a prompt: commands after `/`, files and folders after `@`.",
)
CONTEXT_USAGE = Request(
    "deputy/context/usage",
    lambda: p.context.ContextUsageParams,
    lambda: p.context.ContextUsageResult,
    "Returns what fills the context window of an agent. Returns error -32003 for a sub-agent that has ended.",
)
SESSION_COMPACT = Request(
    "deputy/session/compact",
    lambda: p.context.SessionCompactParams,
    lambda: p.context.SessionCompactResult,
    "Replaces the conversation of the primary agent by a summary, in what its model receives. It runs as a turn, like "
    "the prompt `/compact`. Returns error -32003 while a turn runs.",
)
PROCESS_LIST = Request(
    "deputy/process/list",
    lambda: p.session.SessionParams,
    lambda: p.process.ProcessListResult,
    "Lists the background processes of a session.",
)
PROCESS_STOP = Request(
    "deputy/process/stop",
    lambda: p.process.ProcessStopParams,
    lambda: p.process.ProcessStopResult,
    "Stops a background process and all its child processes.",
)
METRICS = Request(
    "deputy/metrics",
    lambda: p.base.NoParams,
    lambda: p.metrics.MetricsResult,
    "Returns counters and percentiles of the server.",
)

# -- server to client --------------------------------------------------------------------------------------------

PERMISSION_REQUEST = Request(
    "deputy/permission/request",
    lambda: p.permission.PermissionRequest,
    lambda: p.permission.PermissionResponse,
    "Asks the user to approve or deny a tool call.",
    _ASK,
)
INPUT_REQUEST = Request(
    "deputy/input/request",
    lambda: p.user_input.InputRequest,
    lambda: p.user_input.InputResponse,
    "Asks the user to fill in a form or to open a URL. Sent to clients that declared `input`.",
    _ASK,
)
EDITOR_DIAGNOSTICS = Request(
    "deputy/editor/diagnostics",
    lambda: p.editor.DiagnosticsParams,
    lambda: p.editor.DiagnosticsResult,
    "Requests the diagnostics shown in the editor. Sent to clients that declared `diagnostics`.",
    _ASK,
)
EDITOR_DEFINITION = Request(
    "deputy/editor/definition",
    lambda: p.editor.SpotParams,
    lambda: p.editor.SpotsResult,
    "Requests the definition of a symbol from the editor's language servers. Sent to clients that declared "
    "`navigation`.",
    _ASK,
)
EDITOR_REFERENCES = Request(
    "deputy/editor/references",
    lambda: p.editor.SpotParams,
    lambda: p.editor.SpotsResult,
    "Requests all uses of a symbol, including its definition. Sent to clients that declared `navigation`.",
    _ASK,
)
EDITOR_HOVER = Request(
    "deputy/editor/hover",
    lambda: p.editor.SpotParams,
    lambda: p.editor.HoverResult,
    "Requests the type and documentation of a symbol. Sent to clients that declared `navigation`.",
    _ASK,
)
EDITOR_SYMBOLS = Request(
    "deputy/editor/symbols",
    lambda: p.editor.SymbolsParams,
    lambda: p.editor.SymbolsResult,
    "Requests the symbols of a file or of the workspace. Sent to clients that declared `navigation`.",
    _ASK,
)
EVENT = Notification(
    "deputy/event",
    lambda: p.event.EventParams,
    "Notifies the client of an event in a session.",
)

METHODS: Final[tuple[Method, ...]] = (
    SESSION_NEW,
    SESSION_PROMPT,
    SESSION_UNQUEUE,
    SESSION_CANCEL,
    SESSION_LIST,
    SESSION_LOAD,
    SESSION_UNLOAD,
    SESSION_RENAME,
    SESSION_ARCHIVE,
    SESSION_DELETE,
    SESSION_EXPORT,
    SESSION_SET_PERMISSION_MODE,
    SESSION_SET_MODEL,
    AGENT_LIST,
    AGENT_TRANSCRIPT,
    AGENT_OUTPUT,
    AGENT_CANCEL,
    AGENT_MESSAGE,
    AGENT_REVERT,
    REVIEW_LIST,
    REVIEW_BASE,
    REVIEW_KEEP,
    REVIEW_UNDO,
    REVIEW_BLAME,
    CHECKPOINT_LIST,
    CHECKPOINT_PREVIEW,
    SESSION_REWIND,
    SESSION_FORK,
    PERMISSION_LIST,
    PERMISSION_PREVIEW,
    PERMISSION_ANSWER,
    PERMISSION_ANSWER_MANY,
    INPUT_ANSWER,
    PERMISSION_APPROVE_EDITS,
    RULE_LIST,
    RULE_REMOVE,
    MODEL_LIST,
    DEFINITION_LIST,
    CONTEXT_LIST,
    CONTEXT_COMPLETE,
    CONTEXT_USAGE,
    SESSION_COMPACT,
    PROCESS_LIST,
    PROCESS_STOP,
    METRICS,
    PERMISSION_REQUEST,
    INPUT_REQUEST,
    EDITOR_DIAGNOSTICS,
    EDITOR_DEFINITION,
    EDITOR_REFERENCES,
    EDITOR_HOVER,
    EDITOR_SYMBOLS,
    EVENT,
)

REQUESTS: Final = tuple(
    method for method in METHODS if isinstance(method, Request) and method.direction is Direction.TO_SERVER
)
"""The requests that a server answers."""
