"""The table of methods and commands: the one source of the schema, the manual and the editors' types.

Payload classes are given as functions, so that reading the table imports none of them (`contract`).
"""

from typing import TYPE_CHECKING, Final, TypeAlias

import deputy_protocol as p
from deputy_protocol.contract import Command, Direction, Notification, Request

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
    "Starts a turn and answers when it has ended; subscribes the client to the session.",
)
SESSION_UNQUEUE = Request(
    "deputy/session/unqueue",
    lambda: p.session.SessionUnqueueParams,
    lambda: p.session.SessionUnqueueResult,
    "Takes a waiting prompt back, which then answers `cancelled`.",
)
SESSION_CANCEL = Request(
    "deputy/session/cancel",
    lambda: p.session.SessionParams,
    lambda: p.agent.CancelledResult,
    "Stops the turn, the waiting prompts and all agents below, background agents included.",
)
SESSION_LIST = Request(
    "deputy/session/list",
    lambda: p.session.SessionListParams,
    lambda: p.session.SessionListResult,
    "Lists sessions, those of other servers on the same store included, newest first.",
)
SESSION_LOAD = Request(
    "deputy/session/load",
    lambda: p.session.SessionParams,
    lambda: p.transcript.SessionLoadResult,
    "Gives all that is needed to draw a session, and subscribes the client to it.",
)
SESSION_UNLOAD = Request(
    "deputy/session/unload",
    lambda: p.session.SessionParams,
    lambda: p.base.Empty,
    "Ends the client's subscription; the session goes on.",
)
SESSION_RENAME = Request(
    "deputy/session/rename",
    lambda: p.session.SessionRenameParams,
    lambda: p.base.Empty,
    "Changes a session's title.",
)
SESSION_ARCHIVE = Request(
    "deputy/session/archive",
    lambda: p.session.SessionArchiveParams,
    lambda: p.base.Empty,
    "Puts a session into the archive, or takes it out; lists leave archived ones out unless asked.",
)
SESSION_DELETE = Request(
    "deputy/session/delete",
    lambda: p.session.SessionParams,
    lambda: p.base.Empty,
    "Cancels a session, then deletes it with its agents.",
)
SESSION_EXPORT = Request(
    "deputy/session/export",
    lambda: p.session.SessionExportParams,
    lambda: p.session.SessionExportResult,
    "Gives a whole session as text.",
)
SESSION_SET_PERMISSION_MODE = Request(
    "deputy/session/setPermissionMode",
    lambda: p.session.SessionSetPermissionModeParams,
    lambda: p.base.Empty,
    "Changes the permission mode; open questions are decided anew.",
)
SESSION_SET_MODEL = Request(
    "deputy/session/setModel",
    lambda: p.session.SessionSetModelParams,
    lambda: p.base.Empty,
    "Changes the model of the next model requests.",
)

# -- agents ------------------------------------------------------------------------------------------------------

AGENT_LIST = Request(
    "deputy/agent/list",
    lambda: p.session.SessionParams,
    lambda: p.agent.AgentListResult,
    "Lists all agents of a session, ended ones included.",
)
AGENT_TRANSCRIPT = Request(
    "deputy/agent/transcript",
    lambda: p.transcript.AgentTranscriptParams,
    lambda: p.transcript.AgentTranscriptResult,
    "Gives the transcript of an agent, or a part of it.",
)
AGENT_OUTPUT = Request(
    "deputy/agent/output",
    lambda: p.transcript.AgentOutputParams,
    lambda: p.transcript.AgentOutputResult,
    "Gives the output of a tool call, also the part that the transcript leaves out.",
)
AGENT_CANCEL = Request(
    "deputy/agent/cancel",
    lambda: p.agent.AgentParams,
    lambda: p.agent.CancelledResult,
    "Stops an agent and everything below it, and answers when that has stopped.",
)
AGENT_MESSAGE = Request(
    "deputy/agent/message",
    lambda: p.agent.AgentMessageParams,
    lambda: p.agent.AgentMessageResult,
    "Says something to a running agent, which reads it before it goes on or ends; to an idle or ended one it is error "
    "-32003. What could not be read any more (cancelled, out of time) is shown as unread.",
)
AGENT_REVERT = Request(
    "deputy/agent/revert",
    lambda: p.agent.AgentRevertParams,
    lambda: p.agent.AgentRevertResult,
    "Takes the edits of an agent back, and leaves alone what was changed since; while it works it is error -32003.",
)

# -- permissions -------------------------------------------------------------------------------------------------

PERMISSION_LIST = Request(
    "deputy/permission/list",
    lambda: p.permission.PermissionListParams,
    lambda: p.permission.PermissionListResult,
    "Lists the open questions.",
)
PERMISSION_ANSWER = Request(
    "deputy/permission/answer",
    lambda: p.permission.PermissionAnswerParams,
    lambda: p.permission.PermissionAnswerResult,
    "Answers an open question; needs no subscription.",
)
PERMISSION_ANSWER_MANY = Request(
    "deputy/permission/answerMany",
    lambda: p.permission.PermissionAnswerManyParams,
    lambda: p.permission.PermissionAnswerManyResult,
    "Answers several open questions at once, or none where the answer does not fit all of them.",
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
    "Drops a permission rule of a session, and gives those that are left; one of the settings still holds in others.",
)

# -- the rest ----------------------------------------------------------------------------------------------------

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
    "Lists the instructions, skills and commands that hold in a session, and why.",
)
CONTEXT_COMPLETE = Request(
    "deputy/context/complete",
    lambda: p.context.CompleteParams,
    lambda: p.context.CompleteResult,
    "Says how a prompt can go on: commands after `/`, files and folders after `@`.",
)
PROCESS_LIST = Request(
    "deputy/process/list",
    lambda: p.session.SessionParams,
    lambda: p.process.ProcessListResult,
    "Lists the commands that agents run in the background.",
)
PROCESS_STOP = Request(
    "deputy/process/stop",
    lambda: p.process.ProcessStopParams,
    lambda: p.process.ProcessStopResult,
    "Stops a background command with all its children.",
)
METRICS = Request(
    "deputy/metrics",
    lambda: p.base.NoParams,
    lambda: p.metrics.MetricsResult,
    "Gives counters and percentiles of the server.",
)

# -- server to client --------------------------------------------------------------------------------------------

PERMISSION_REQUEST = Request(
    "deputy/permission/request",
    lambda: p.permission.PermissionRequest,
    lambda: p.permission.PermissionResponse,
    "Asks the user whether an agent may do something.",
    _ASK,
)
EDITOR_DIAGNOSTICS = Request(
    "deputy/editor/diagnostics",
    lambda: p.editor.DiagnosticsParams,
    lambda: p.editor.DiagnosticsResult,
    "Asks for the diagnostics that the editor shows; sent to clients that declared `diagnostics`.",
    _ASK,
)
EDITOR_DEFINITION = Request(
    "deputy/editor/definition",
    lambda: p.editor.SpotParams,
    lambda: p.editor.SpotsResult,
    "Asks the editor's language servers where a symbol is defined; sent to clients that declared `navigation`.",
    _ASK,
)
EDITOR_REFERENCES = Request(
    "deputy/editor/references",
    lambda: p.editor.SpotParams,
    lambda: p.editor.SpotsResult,
    "Asks where a symbol is used, its definition included; sent to clients that declared `navigation`.",
    _ASK,
)
EDITOR_HOVER = Request(
    "deputy/editor/hover",
    lambda: p.editor.SpotParams,
    lambda: p.editor.HoverResult,
    "Asks what a symbol is: its type, its documentation; sent to clients that declared `navigation`.",
    _ASK,
)
EDITOR_SYMBOLS = Request(
    "deputy/editor/symbols",
    lambda: p.editor.SymbolsParams,
    lambda: p.editor.SymbolsResult,
    "Asks for the symbols of a file or of the workspace; sent to clients that declared `navigation`.",
    _ASK,
)
EVENT = Notification(
    "deputy/event",
    lambda: p.event.EventParams,
    "Tells what happened in a session.",
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
    PERMISSION_LIST,
    PERMISSION_ANSWER,
    PERMISSION_ANSWER_MANY,
    RULE_LIST,
    RULE_REMOVE,
    DEFINITION_LIST,
    CONTEXT_LIST,
    CONTEXT_COMPLETE,
    PROCESS_LIST,
    PROCESS_STOP,
    METRICS,
    PERMISSION_REQUEST,
    EDITOR_DIAGNOSTICS,
    EDITOR_DEFINITION,
    EDITOR_REFERENCES,
    EDITOR_HOVER,
    EDITOR_SYMBOLS,
    EVENT,
)

REQUESTS: Final = tuple(
    method
    for method in METHODS
    if isinstance(method, Request) and method.direction is Direction.TO_SERVER and not method.planned
)
"""The requests that a server answers."""

# -- commands ----------------------------------------------------------------------------------------------------

PROMPT_COMMAND = Command(
    "deputy.prompt",
    lambda: p.command.PromptArgument,
    lambda: p.session.SessionNewResult,
    "Starts a turn and answers at once; the answer of the agent comes by events, else as a message.",
)
NEW_SESSION_COMMAND = Command(
    "deputy.newSession",
    lambda: p.session.SessionNewParams,
    lambda: p.session.SessionNewResult,
    "Opens a session, as `deputy/session/new` does.",
)
CANCEL_AGENT_COMMAND = Command(
    "deputy.cancelAgent",
    lambda: p.command.AgentArgument,
    lambda: p.agent.CancelledResult,
    "Stops an agent, as `deputy/agent/cancel` does.",
)
CANCEL_SESSION_COMMAND = Command(
    "deputy.cancelSession",
    lambda: p.session.SessionParams,
    lambda: p.agent.CancelledResult,
    "Stops a session, as `deputy/session/cancel` does.",
)
LIST_AGENTS_COMMAND = Command(
    "deputy.listAgents",
    lambda: p.command.ListAgentsArgument,
    lambda: p.agent.AgentListResult,
    "Lists agents, as `deputy/agent/list` does.",
)
ANSWER_PERMISSION_COMMAND = Command(
    "deputy.answerPermission",
    lambda: p.command.AnswerPermissionArgument,
    lambda: p.permission.PermissionAnswerResult,
    "Answers an open question by the id of an option.",
)
OPEN_TRANSCRIPT_COMMAND = Command(
    "deputy.openTranscript",
    lambda: p.command.AgentArgument,
    lambda: p.command.OpenTranscriptResult,
    "Shows the transcript of an agent as a document that is kept up to date.",
)
REVERT_AGENT_COMMAND = Command(
    "deputy.revertAgent",
    lambda: p.command.AgentArgument,
    lambda: p.agent.AgentRevertResult,
    "Takes the edits of an agent back, as `deputy/agent/revert` does.",
)
DISMISS_FINDING_COMMAND = Command(
    "deputy.dismissFinding",
    lambda: p.command.FindingArgument,
    lambda: p.command.DismissFindingResult,
    "Takes back the diagnostic of a finding of a review.",
)

COMMANDS: Final[tuple["Command[BaseModel, BaseModel]", ...]] = (
    PROMPT_COMMAND,
    NEW_SESSION_COMMAND,
    CANCEL_AGENT_COMMAND,
    CANCEL_SESSION_COMMAND,
    LIST_AGENTS_COMMAND,
    ANSWER_PERMISSION_COMMAND,
    OPEN_TRANSCRIPT_COMMAND,
    REVERT_AGENT_COMMAND,
    DISMISS_FINDING_COMMAND,
)
