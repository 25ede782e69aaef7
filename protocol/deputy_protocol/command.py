"""Every client can drive Deputy by `workspace/executeCommand`, and needs no plugin for it. A command takes one
argument, an object; it may be left out where no field is needed.

What a client does not handle itself falls back to plain LSP. Questions come by `window/showMessageRequest`, one at a
time: the message is `[label] tool(target)` with the shortened preview, the actions are named as the options, and
closing it refuses. Edits come by `workspace/applyEdit` with `documentChanges`, versions, and a label that names the
agent.

The transcript of an agent is a Markdown file that the server keeps up to date. That of the session is opened by
`window/showDocument` at a prompt; an editor that cannot do that is told the answer, and the file's name, by
`window/showMessage`. In such a file, code lenses and code actions stop an agent, open a sub-agent's file, and answer
what waits for the user; document links lead from `path:12-30` to the place. In other files, code actions start a prompt
about the selection or a diagnostic.

The findings of a `code_review` are published as diagnostics of the files, with code actions to have one fixed and to
dismiss it. A finding goes when its lines change.
"""

from deputy_protocol.base import Flag, Params, Wire
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
    queue: Flag = False
    """During a turn it waits for its end; else it is refused then."""


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


class FindingArgument(Params):
    """A finding of a review, as the data of its diagnostic names it."""

    finding_id: str


class DismissFindingResult(Wire):
    """What came of it."""

    dismissed: Flag
    """False when it had gone before."""


class OpenTranscriptResult(Wire):
    """The document."""

    uri: str
