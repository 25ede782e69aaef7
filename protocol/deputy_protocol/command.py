"""Every client can use Deputy through `workspace/executeCommand`, without a plugin. A command takes one argument, an
object. The argument may be omitted when no field is required.

For features that a client does not support, Deputy falls back to plain LSP. Permission requests use
`window/showMessageRequest`, one at a time: the message is `[label] tool(target)` with a shortened preview, the actions
are the names of the options, and closing the message denies the call. Edits use `workspace/applyEdit` with
`documentChanges`, document versions, and a label that names the agent.

The transcript of an agent is a Markdown file that the server updates live. After a prompt, the server opens the
session's transcript with `window/showDocument`; if the editor does not support that, the server sends the answer and
the name of the file with `window/showMessage`. In a transcript, code lenses and code actions stop an agent, open the
transcript of a sub-agent, and answer permission requests. Document links lead from `path:12-30` to that place. In other
files, code actions start a prompt about the selection or about a diagnostic.

The findings of `code_review` are published as diagnostics, with code actions that fix or dismiss a finding. A finding
disappears when its lines change.
"""

from typing import Annotated

from pydantic import Field

from deputy_protocol.base import Count, Flag, Params, Wire
from deputy_protocol.place import Range


class PromptArgument(Params):
    """A prompt, and what it is about."""

    text: str
    session_id: str | None = None
    """Default: this client's latest session in the folder, or a new session if there is none."""
    uri: str | None = None
    """A file that the prompt is about."""
    range: Range | None = None
    """The part of that file that the prompt is about."""
    queue: Flag = False
    """Queue the prompt if a turn is running. Otherwise the prompt is rejected in that case."""


class AgentArgument(Params):
    """An agent."""

    agent_id: str


class ListAgentsArgument(Params):
    """Which agents to list."""

    session_id: str | None = None
    """When absent, the agents of all sessions of this client."""


class AnswerPermissionArgument(Params):
    """An answer to a permission request."""

    request_id: str
    option_id: str
    """One of the options of the request."""


class FindingArgument(Params):
    """A finding of a review."""

    finding_id: str
    """The id in the `data` of the diagnostic."""


class DismissFindingResult(Wire):
    """Whether the finding was dismissed."""

    dismissed: Flag
    """False when the finding no longer existed."""


class ReviewPlaceArgument(Params):
    """A line of a file, from which to look for an unreviewed hunk."""

    uri: str | None = None
    """When absent, the first file with unreviewed hunks."""
    line: Count = 0
    """Counted from 0."""


class ReviewPlaceResult(Wire):
    """The hunk that was found, which the editor now shows. Empty if there is none."""

    session_id: str | None = None
    hunk_id: str | None = None
    uri: str | None = None
    range: Range | None = None


class ReviewHunksArgument(Params):
    """Hunks of a session."""

    session_id: str
    hunk_ids: Annotated[tuple[str, ...], Field(min_length=1, max_length=10_000)]


class ReviewAllArgument(Params):
    """All hunks of a session, or those of one file, agent or turn: at most one of the fields beside `sessionId`."""

    session_id: str
    uri: str | None = None
    agent_id: str | None = None
    turn_id: str | None = None


class ReviewSessionArgument(Params):
    """Whose hunks to list."""

    session_id: str | None = None
    """Default: this client's latest session with unreviewed hunks."""


class OpenTranscriptResult(Wire):
    """The document that was opened."""

    uri: str
