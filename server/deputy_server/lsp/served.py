"""What this server serves, by name: known without loading what serves it (``wire`` does, and must agree)."""

from deputy_protocol import methods

REQUESTS = (
    methods.SESSION_NEW,
    methods.SESSION_PROMPT,
    methods.SESSION_UNQUEUE,
    methods.SESSION_CANCEL,
    methods.SESSION_LIST,
    methods.SESSION_LOAD,
    methods.SESSION_UNLOAD,
    methods.SESSION_RENAME,
    methods.SESSION_ARCHIVE,
    methods.SESSION_DELETE,
    methods.SESSION_EXPORT,
    methods.SESSION_SET_PERMISSION_MODE,
    methods.SESSION_SET_MODEL,
    methods.AGENT_LIST,
    methods.AGENT_TRANSCRIPT,
    methods.AGENT_OUTPUT,
    methods.AGENT_CANCEL,
    methods.AGENT_MESSAGE,
    methods.AGENT_REVERT,
    methods.PERMISSION_LIST,
    methods.PERMISSION_ANSWER,
    methods.PERMISSION_ANSWER_MANY,
    methods.RULE_LIST,
    methods.RULE_REMOVE,
    methods.PROCESS_LIST,
    methods.PROCESS_STOP,
    methods.DEFINITION_LIST,
    methods.CONTEXT_LIST,
    methods.CONTEXT_COMPLETE,
    methods.METRICS,
)

COMMANDS = (
    methods.PROMPT_COMMAND,
    methods.NEW_SESSION_COMMAND,
    methods.CANCEL_AGENT_COMMAND,
    methods.CANCEL_SESSION_COMMAND,
    methods.LIST_AGENTS_COMMAND,
    methods.ANSWER_PERMISSION_COMMAND,
    methods.OPEN_TRANSCRIPT_COMMAND,
    methods.REVERT_AGENT_COMMAND,
    methods.DISMISS_FINDING_COMMAND,
)

TEXT_REQUESTS = ("textDocument/codeAction", "textDocument/codeLens", "textDocument/documentLink")
"""LSP's own, beside commands: what editors show at places of a text."""

SENT = (
    methods.PERMISSION_REQUEST,
    methods.EDITOR_DIAGNOSTICS,
    methods.EDITOR_DEFINITION,
    methods.EDITOR_REFERENCES,
    methods.EDITOR_HOVER,
    methods.EDITOR_SYMBOLS,
    methods.EVENT,
)
