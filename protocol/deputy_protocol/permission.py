"""A question is one JSON-RPC request about one tool call, sent to every subscribed client that declared `permissions`;
others get `window/showMessageRequest`. It names the agent that asks. Questions of one model response share a batch,
and each preview assumes the earlier ones of its batch.

Consent is only an explicit choice of an allowing option. An error, `null`, `cancelled`, an unknown option and anything
else that does not validate dismiss the question for that client; when no client that was asked remains, the call is
refused. The first answer settles it, and the server withdraws the question from every other client by
`$/cancelRequest`, as it does when the agent ends. A client that loads a session is asked its open questions again.

A question can also be answered by `deputy/permission/answer` from any client, subscribed or not; there `cancelled`
refuses, and an unknown `requestId` or `optionId` is error -32602.
"""

from enum import StrEnum
from typing import Annotated, Literal, TypeAlias

from pydantic import Field, SerializationInfo, SerializerFunctionWrapHandler, model_serializer

from deputy_protocol.agent import AgentRef
from deputy_protocol.base import Count, Flag, JsonObject, Params, Positive, Wire
from deputy_protocol.errors import InvalidParams
from deputy_protocol.place import Location
from deputy_protocol.tool import ToolKind
from deputy_protocol.validate import parse


class OptionKind(StrEnum):
    """What an option does. `always` adds a rule for the session, for all of its agents."""

    ALLOW_ONCE = "allow_once"
    ALLOW_ALWAYS = "allow_always"
    REJECT_ONCE = "reject_once"
    REJECT_ALWAYS = "reject_always"


class ResolvedBy(StrEnum):
    """How a question was settled. `unreachable`: no client was able to ask."""

    USER = "user"
    RULE = "rule"
    CANCELLED = "cancelled"
    DISMISSED = "dismissed"
    UNREACHABLE = "unreachable"


class PermissionOption(Wire):
    """A possible answer."""

    option_id: str
    name: str
    """For the user; that of an `always` option spells out the rule that it adds."""
    kind: OptionKind


class Batch(Wire):
    """The questions of one model response."""

    id: str
    index: Count
    """Counted from 0."""
    size: Positive
    """How many questions the batch has."""


class DiffPreview(Wire):
    """A change of a file, as whole texts."""

    type: Literal["diff"] = "diff"
    uri: str
    old_text: str | None
    """`null` for a new file."""
    new_text: str

    @model_serializer(mode="wrap")
    def _keep_null(self, handler: SerializerFunctionWrapHandler, info: SerializationInfo) -> dict[str, object]:
        # The one null that says something: absent optional fields are left out everywhere else.
        fields: dict[str, object] = handler(self)
        fields["oldText" if info.by_alias else "old_text"] = self.old_text
        return fields


class CommandPreview(Wire):
    """A command to be run."""

    type: Literal["command"] = "command"
    command: str
    cwd: str
    """URI of its folder."""


class TextPreview(Wire):
    """Anything else, in words."""

    type: Literal["text"] = "text"
    text: str


Preview: TypeAlias = Annotated[DiffPreview | CommandPreview | TextPreview, Field(discriminator="type")]


class PermissionRequest(Wire):
    """A question to the user."""

    request_id: str
    session_id: str
    batch: Batch
    tool_call_id: str
    agent: AgentRef
    """Who asks."""
    title: str
    """`tool(target)`; a child's has its label in front: `[research codebase] edit_file(src/lib.rs)`."""
    tool: str
    kind: ToolKind
    input: JsonObject
    locations: tuple[Location, ...]
    preview: Preview | None = None
    options: tuple[PermissionOption, ...]
    reason: str | None = None
    """Why it has to be asked."""


class SelectedOutcome(Wire):
    """The user chose an option."""

    outcome: Literal["selected"] = "selected"
    option_id: str
    feedback: str | None = None
    """Words of the user to the agent: quoted in a refusal, else told after the results of the turn."""
    input: JsonObject | None = None
    """Replaces the proposed input of one question; it is validated and decided again, and the agent is told."""


class CancelledOutcome(Wire):
    """The user chose nothing."""

    outcome: Literal["cancelled"] = "cancelled"


PermissionOutcome: TypeAlias = Annotated[SelectedOutcome | CancelledOutcome, Field(discriminator="outcome")]


class PermissionResponse(Wire):
    """A client's result of `deputy/permission/request`."""

    outcome: PermissionOutcome


class PermissionListParams(Params):
    """Which questions."""

    session_id: str | None = None
    """Those of all sessions when absent."""


class PermissionListResult(Wire):
    """The open questions."""

    requests: tuple[PermissionRequest, ...]


class PermissionAnswerParams(Params):
    """An answer to one question."""

    request_id: str
    outcome: PermissionOutcome


class PermissionAnswerResult(Wire):
    """What became of the answer."""

    accepted: Flag
    """False when the question had been settled before."""


class PermissionAnswerManyParams(Params):
    """One answer to several questions, named one by one so that nothing unseen is approved."""

    request_ids: tuple[str, ...]
    outcome: PermissionOutcome


class PermissionAnswerManyResult(Wire):
    """What became of the answers."""

    accepted: tuple[str, ...]
    """Ids of the questions that it settled."""


def read_choice(result: object) -> SelectedOutcome | None:
    """The explicit choice in a client's result of `deputy/permission/request`; ``None`` for everything else, be it
    null, rubbish or a kind of outcome that is not known here."""
    try:
        outcome = parse(PermissionResponse, result).outcome
    except InvalidParams:
        return None
    return outcome if isinstance(outcome, SelectedOutcome) else None
