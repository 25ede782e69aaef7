"""Every client can drive Deputy by `workspace/executeCommand`, and needs no plugin for it. A command takes one
argument, an object; it may be left out where no field is needed.

What a client does not handle itself falls back to plain LSP. Questions come by `window/showMessageRequest`, one at a
time: the message is `[label] tool(target)` with the shortened preview, the actions are named as the options, and
closing it refuses. The answer of a turn comes by `window/showMessage`. Edits come by `workspace/applyEdit` with
`documentChanges`, versions, and a label that names the agent. Code actions that start a prompt about a selection or a
diagnostic, and transcripts as documents that the server keeps up to date, are not in this version.
"""

from deputy_protocol.base import Params, Wire
from deputy_protocol.place import Range


class PromptArgument(Params):
    """What to ask."""

    text: str
    session_id: str | None = None
    """This client's latest session of the folder when absent, else a new one."""
    uri: str | None = None
    """A file that the prompt is about."""
    range: Range | None = None
    """The part of that file."""


class AgentArgument(Params):
    """Which agent."""

    agent_id: str


class ListAgentsArgument(Params):
    """Whose agents."""

    session_id: str | None = None
    """Those of all sessions of this client when absent."""


class AnswerPermissionArgument(Params):
    """An answer to a question."""

    request_id: str
    option_id: str


class OpenTranscriptResult(Wire):
    """The document."""

    uri: str
