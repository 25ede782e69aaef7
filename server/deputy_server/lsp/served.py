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
    methods.AGENT_LIST,
    methods.AGENT_TRANSCRIPT,
    methods.AGENT_CANCEL,
    methods.PERMISSION_LIST,
    methods.PERMISSION_ANSWER,
)

COMMANDS = (
    methods.PROMPT_COMMAND,
    methods.NEW_SESSION_COMMAND,
    methods.CANCEL_AGENT_COMMAND,
    methods.CANCEL_SESSION_COMMAND,
    methods.LIST_AGENTS_COMMAND,
    methods.ANSWER_PERMISSION_COMMAND,
)

SENT = (methods.PERMISSION_REQUEST, methods.EVENT)
