"""The names that clients rely on within version 1, typed by hand: what the code has must hold them all."""

PARAMS_AND_RESULTS = {
    "deputy/session/new": ("cwd? title? model? permissionMode?", "sessionId agentId"),
    "deputy/session/prompt": ("sessionId prompt queue? workDoneToken?", "stopReason usage"),
    "deputy/session/unqueue": ("sessionId promptId", "removed"),
    "deputy/session/cancel": ("sessionId", "cancelled"),
    "deputy/session/list": ("cwd? includeChildren? includeArchived? cursor? limit?", "sessions nextCursor?"),
    "deputy/session/load": ("sessionId", "session agents transcript permissions lastSeq"),
    "deputy/session/unload": ("sessionId", ""),
    "deputy/session/rename": ("sessionId title", ""),
    "deputy/session/archive": ("sessionId archived", ""),
    "deputy/session/delete": ("sessionId", ""),
    "deputy/session/export": ("sessionId format?", "text"),
    "deputy/session/setPermissionMode": ("sessionId permissionMode", ""),
    "deputy/session/setModel": ("sessionId model", ""),
    "deputy/agent/list": ("sessionId", "agents"),
    "deputy/agent/transcript": ("sessionId agentId after? limit?", "entries lastSeq"),
    "deputy/agent/cancel": ("sessionId agentId", "cancelled"),
    "deputy/agent/message": ("sessionId agentId text", "queued"),
    "deputy/agent/revert": ("sessionId agentId includeChildren?", "reverted conflicts"),
    "deputy/permission/list": ("sessionId?", "requests"),
    "deputy/permission/answer": ("requestId outcome", "accepted"),
    "deputy/permission/answerMany": ("requestIds outcome", "accepted"),
    "deputy/rule/list": ("sessionId", "rules"),
    "deputy/rule/remove": ("sessionId ruleId", "rules"),
    "deputy/definition/list": ("", "definitions"),
    "deputy/context/list": ("sessionId", "instructions skills commands problems"),
    "deputy/context/complete": ("sessionId text", "replace items"),
    "deputy/process/list": ("sessionId", "processes"),
    "deputy/process/stop": ("sessionId processId", "stopped"),
    "deputy/metrics": ("", "counters percentiles"),
    "deputy/permission/request": (
        "requestId sessionId batch toolCallId agent title tool kind input locations preview? options reason?",
        "outcome",
    ),
    "deputy/editor/diagnostics": ("uris?", "items"),
}
NOTIFICATIONS = {"deputy/event"}
SENT_BY_SERVER = {"deputy/permission/request", "deputy/editor/diagnostics", "deputy/event"}

COMMANDS = {
    "deputy.prompt": ("text sessionId? uri? range?", "sessionId agentId"),
    "deputy.newSession": ("", "sessionId agentId"),
    "deputy.cancelAgent": ("agentId", "cancelled"),
    "deputy.cancelSession": ("sessionId", "cancelled"),
    "deputy.listAgents": ("sessionId?", "agents"),
    "deputy.answerPermission": ("requestId optionId", "accepted"),
    "deputy.openTranscript": ("agentId", ""),
    "deputy.revertAgent": ("agentId", ""),
}

_DURABLE = "sessionId agentId run time seq agentSeq type "
_LOSSY = "sessionId agentId run time afterSeq type "
_DERIVED = "sessionId time afterSeq type "
EVENTS = {
    "turn_started": _DURABLE + "turnId origin",
    "turn_finished": _DURABLE + "turnId stopReason error?",
    "agent_started": _DURABLE + "agent toolCallId?",
    "agent_status": _DURABLE + "status queuePosition? detail?",
    "agent_activity": _LOSSY + "text toolCallCount",
    "message_delta": _LOSSY + "messageId text",
    "thought_delta": _LOSSY + "messageId text",
    "message": _DURABLE + "messageId role text references?",
    "prompt_queue": _DERIVED + "entries",
    "tool_call": _DURABLE + "toolCallId tool title kind status input locations",
    "tool_call_update": _DURABLE + "toolCallId status content? locations?",
    "permission_requested": _DURABLE
    + "requestId batch toolCallId agent title tool kind input locations preview? options",
    "permission_resolved": _DURABLE + "requestId outcome by",
    "plan": _DURABLE + "entries",
    "tool_output_delta": _LOSSY + "toolCallId text",
    "usage": _DURABLE + "usage",
    "agent_finished": _DURABLE
    + "status failureReason? error? result references? usage toolCallCount iterations truncated",
    "session_status": _DERIVED + "primary pending running awaitingPermission finished",
    "session_changed": _DERIVED,
    "definitions_changed": "time type",
}

TYPES = {
    "AgentNode": "agentId parentAgentId? toolCallId? label definition model access depth run status queuePosition? "
    "startedAt updatedAt endedAt? summary? error? failureReason? usage toolCallCount",
    "AgentRef": "agentId label definition model depth ancestry",
    "Ancestor": "agentId label",
    "SessionInfo": "sessionId parentSessionId? title cwd createdAt updatedAt archived model permissionMode? agentCount",
    "Usage": "inputTokens outputTokens cacheReadTokens cacheWriteTokens cost?",
    "MessageEntry": "seq agentId run time type messageId role text references?",
    "ToolCallEntry": "seq agentId run time type toolCallId tool title kind status input locations content?",
    "AgentEntry": "seq agentId run time type agent",
    "Batch": "id index size",
    "PermissionOption": "optionId name kind",
    "DiffPreview": "type uri oldText newText",
    "CommandPreview": "type command cwd",
    "TextPreview": "type text",
    "SelectedOutcome": "outcome optionId feedback? input?",
    "CancelledOutcome": "outcome",
    "TextBlock": "type text",
    "ResourceLink": "type uri range?",
    "ImageBlock": "type mimeType data",
    "Location": "uri range?",
    "Reference": "uri range",
    "RevertConflict": "uri reason",
    "Rule": "ruleId tool pattern? action source",
    "DefinitionInfo": "name description icon? mode tools maxIterations model? source",
    "PlanEntry": "content status priority?",
    "PromptQueueEntry": "promptId text",
    "ModelInfo": "id name",
    "FileDiagnostics": "uri diagnostics",
    "ModelFailure": "kind retryable action",
    "ClientCapabilities": "protocolVersion? events? permissions? diffPreview? diagnostics?",
    "ServerCapabilities": "protocolVersion methods definitions models",
    "Settings": "model? smallModel? baseUrl? permissionMode? trusted? token? agents? permissions? budgets? limits?",
    "BudgetsSettings": "agent? tree?",
    "BudgetSettings": "tokens? cost? toolCalls? seconds?",
    "AgentSettings": "enabled? maxParallel? maxParallelPerParent? queue? maxDepth? parallelWriters? timeout? "
    "wakeOnTaskEnd?",
    "PermissionSettings": "rules? reconnectGrace?",
}

ENUMS = {
    "PermissionMode": "plan default accept_edits bypass",
    "Access": "read_only default",
    "AgentStatus": "idle pending running completed failed cancelled",
    "EndStatus": "completed failed cancelled",
    "FailureReason": "tool_error approval_denied runtime_error model_error sub_agent_error timed_out budget_exceeded "
    "interrupted_by_restart unknown",
    "StopReason": "end_turn max_tokens max_turn_requests refusal cancelled",
    "ToolKind": "read search edit execute fetch",
    "ToolStatus": "pending in_progress completed failed cancelled",
    "OptionKind": "allow_once allow_always reject_once reject_always",
    "ResolvedBy": "user rule cancelled dismissed unreachable",
    "RuleAction": "allow ask deny",
    "DefinitionMode": "primary subagent all",
    "TurnOrigin": "user task_end command",
    "Role": "user assistant",
}

ERRORS = {
    "INVALID_PARAMS": -32602,
    "INVALID_REQUEST": -32600,
    "NOT_INITIALIZED": -32002,
    "UNKNOWN_SESSION": -32001,
    "UNKNOWN_AGENT": -32008,
    "WRONG_STATE": -32003,
    "NOT_CONFIGURED": -32004,
    "OVERLOADED": -32005,
    "MODEL_FAILURE": -32006,
    "NOT_ALLOWED": -32007,
}
