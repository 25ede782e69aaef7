"""A permission request is one JSON-RPC request about one tool call. The server sends it to every subscribed client that
declared `permissions`; other clients receive `window/showMessageRequest`. It names the agent that makes the call. The
requests of one model response form a batch, and each preview assumes that the earlier ones in its batch are approved.

Only the explicit choice of an allowing option is consent. An error, `null`, `cancelled`, an unknown option or any other
invalid response dismisses the request for that client. When no client that received the request remains, the call is
denied. The first answer settles the request: the server withdraws it from all other clients with `$/cancelRequest`. It
does the same when the agent ends. A client that loads a session receives its open permission requests again.

Any client can also answer with `deputy/permission/answer`, without a subscription. There, `cancelled` denies the call,
and an unknown `requestId` or `optionId` returns error -32602.
"""

from enum import StrEnum
from typing import Annotated, Literal, TypeAlias

from pydantic import Field, SerializationInfo, SerializerFunctionWrapHandler, model_serializer

from deputy_protocol.agent import AgentRef
from deputy_protocol.base import Count, Flag, JsonObject, Params, Positive, Wire
from deputy_protocol.errors import InvalidParams
from deputy_protocol.place import Location
from deputy_protocol.tool import DiffHunk, ToolKind
from deputy_protocol.user_input import InputRequest
from deputy_protocol.validate import parse


class OptionKind(StrEnum):
    """What an option does. The `always` kinds add rules; the option's `scope` says where."""

    ALLOW_ONCE = "allow_once"
    ALLOW_ALWAYS = "allow_always"
    REJECT_ONCE = "reject_once"
    REJECT_ALWAYS = "reject_always"


class RuleScope(StrEnum):
    """How long an answer lasts: `once` for this call, `session` for all agents of the session, `project` as a rule in
    `.deputy/settings.local.json` of the project, `user` as a rule in the user's own `settings.json`."""

    ONCE = "once"
    SESSION = "session"
    PROJECT = "project"
    USER = "user"


class ResolvedBy(StrEnum):
    """How a request to the user was settled. `unreachable` means that no client could ask the user."""

    USER = "user"
    RULE = "rule"
    CANCELLED = "cancelled"
    DISMISSED = "dismissed"
    UNREACHABLE = "unreachable"


class PermissionOption(Wire):
    """A possible answer. The ids are `allow_once`, `allow_session`, `allow_project`, `allow_user`, `reject_once` and
    `reject_session`; requests about MCP servers have `allow_always` and `reject_always` for the folder."""

    option_id: str
    name: str
    """Label for the user. For an `always` option, it states the rules that are added."""
    kind: OptionKind
    rules: tuple[str, ...] | None = None
    """The rules that the option adds, one by one. Show all of them completely before the user can choose it. When
    absent, the option adds no rules or `name` states them."""
    scope: RuleScope | None = None
    """Where the option adds them. When absent, `once` for the `once` kinds and `session` for the `always` kinds."""


class Batch(Wire):
    """The permission requests of one model response."""

    id: str
    index: Count
    """Position of this request in the batch, counted from 0."""
    size: Positive
    """Number of permission requests in the batch."""


class DiffPreview(Wire):
    """A change of a file: either as complete texts or, when these are large, as hunks. `deputy/permission/preview`
    returns complete texts of any size."""

    type: Literal["diff"] = "diff"
    uri: str
    old_text: str | None
    """`null` for a new file, and when there are `hunks`."""
    new_text: str | None = None
    """Absent when there are `hunks`."""
    hunks: tuple[DiffHunk, ...] | None = None
    """The changed lines of a large file."""
    truncated: Flag | None = None
    """True when `hunks` do not contain all changed lines completely."""

    @model_serializer(mode="wrap")
    def _keep_null(self, handler: SerializerFunctionWrapHandler, info: SerializationInfo) -> dict[str, object]:
        # Here null has a meaning of its own; everywhere else absent optional fields are omitted.
        fields: dict[str, object] = handler(self)
        fields["oldText" if info.by_alias else "old_text"] = self.old_text
        return fields


class CommandPreview(Wire):
    """A command to run."""

    type: Literal["command"] = "command"
    command: str
    cwd: str
    """URI of the folder in which it runs."""


class TextPreview(Wire):
    """Anything else, described as text."""

    type: Literal["text"] = "text"
    text: str


Preview: TypeAlias = Annotated[DiffPreview | CommandPreview | TextPreview, Field(discriminator="type")]


class PermissionRequest(Wire):
    """A request to the user to approve a tool call."""

    request_id: str
    session_id: str
    batch: Batch
    tool_call_id: str
    agent: AgentRef
    """The agent that makes the call."""
    title: str
    """`tool(target)`. For a sub-agent, its label comes first: `[research codebase] edit_file(src/lib.rs)`."""
    tool: str
    """Name of the tool."""
    kind: ToolKind
    input: JsonObject
    """Input of the tool call."""
    locations: tuple[Location, ...]
    """Files that the call is about."""
    preview: Preview | None = None
    """What the call would do."""
    options: tuple[PermissionOption, ...]
    """The possible answers."""
    reason: str | None = None
    """Why approval is needed."""


class SelectedOutcome(Wire):
    """The user chose an option."""

    outcome: Literal["selected"] = "selected"
    option_id: str
    feedback: str | None = None
    """A message from the user to the agent. When the call is denied, the denial quotes it; otherwise the agent receives
    it after the turn's tool results."""
    input: JsonObject | None = None
    """Replaces the proposed input of this request. The new input is validated and goes through the permission check
    again, and the agent is notified of the change."""


class CancelledOutcome(Wire):
    """The user chose nothing."""

    outcome: Literal["cancelled"] = "cancelled"


PermissionOutcome: TypeAlias = Annotated[SelectedOutcome | CancelledOutcome, Field(discriminator="outcome")]


class PermissionResponse(Wire):
    """A client's result of `deputy/permission/request`."""

    outcome: PermissionOutcome


class PermissionListParams(Params):
    """Which open requests to list."""

    session_id: str | None = None
    """When absent, the requests of all sessions."""


class PermissionListResult(Wire):
    """The open requests to the user."""

    requests: tuple[PermissionRequest, ...]
    inputs: tuple[InputRequest, ...]
    """The open input requests."""


class PermissionPreviewParams(Params):
    """Which preview to return."""

    request_id: str


class PermissionPreviewResult(Wire):
    """What a call would do, with complete texts."""

    preview: Preview | None = None
    """Absent when the request has none."""


class PermissionAnswerParams(Params):
    """An answer to one permission request."""

    request_id: str
    outcome: PermissionOutcome


class PermissionAnswerResult(Wire):
    """Whether the answer took effect."""

    accepted: Flag
    """False when the request was already settled."""


class PermissionAnswerManyParams(Params):
    """One answer to several permission requests. Each is listed by id, so that nothing unseen is approved."""

    request_ids: tuple[str, ...]
    outcome: PermissionOutcome


class PermissionApproveEditsParams(Params):
    """An open permission request about an edit."""

    request_id: str


class PermissionAnswerManyResult(Wire):
    """Which answers took effect."""

    accepted: tuple[str, ...]
    """Ids of the requests that this answer settled."""


def read_choice(result: object) -> SelectedOutcome | None:
    """The explicit choice in a client's result of `deputy/permission/request`, or ``None`` for anything else: null,
    invalid values, or an unknown kind of outcome."""
    try:
        outcome = parse(PermissionResponse, result).outcome
    except InvalidParams:
        return None
    return outcome if isinstance(outcome, SelectedOutcome) else None
