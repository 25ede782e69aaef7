"""An input request is one JSON-RPC request for a form that the user fills in, or for a URL that the user opens.
Agents make it with the tool `ask_user`, MCP servers by elicitation. The server sends it to every subscribed client that
declared `input`. A form that is one `choice` field is sent to other clients as `window/showMessageRequest`; they cannot
answer any other form.

Only `accepted` with values that fit the fields is an answer. Values that do not fit, an error, `null` or any other
invalid response count as `cancelled`, which dismisses the request for that client. When no client that received the
request remains, the tool gets no answer. The first answer settles the request: the server withdraws it from all other
clients with `$/cancelRequest`. It does the same when the agent ends. A client that loads a session receives its open
input requests again. They never expire.

Any client can also answer with `deputy/input/answer`, without a subscription. There, values that do not fit and an
unknown `requestId` return error -32602, and the request stays open.
"""

from enum import StrEnum

from deputy_protocol.agent import AgentRef
from deputy_protocol.base import Count, Flag, JsonObject, Params, Wire
from deputy_protocol.errors import InvalidParams
from deputy_protocol.validate import parse


class InputFieldType(StrEnum):
    """What the user enters. `choice` is the value of one option, `choices` a list of them."""

    STRING = "string"
    NUMBER = "number"
    BOOLEAN = "boolean"
    CHOICE = "choice"
    CHOICES = "choices"


class InputOption(Wire):
    """A possible value of a field."""

    value: str
    title: str
    """Label for the user."""


class InputField(Wire):
    """A field of a form."""

    name: str
    type: InputFieldType
    title: str | None = None
    """Label for the user. When absent, `name`."""
    description: str | None = None
    required: Flag | None = None
    """Whether it needs a value. When absent, it does not."""
    options: tuple[InputOption, ...] | None = None
    """The possible values of a `choice` or `choices` field."""
    default: bool | float | str | tuple[str, ...] | None = None
    """The value to start with."""
    integer: Flag | None = None
    """Whether a number must be whole."""
    minimum: float | None = None
    maximum: float | None = None
    min_length: Count | None = None
    """Least number of characters, or of chosen options."""
    max_length: Count | None = None
    """Largest number of characters, or of chosen options."""
    format: str | None = None
    """Format of a string: `email`, `uri`, `date` or `date-time`."""


class InputSource(StrEnum):
    """Who asks."""

    AGENT = "agent"
    MCP = "mcp"


class InputRequest(Wire):
    """A request to the user for input."""

    request_id: str
    session_id: str
    tool_call_id: str | None = None
    """The tool call that needs the input."""
    agent: AgentRef
    """The agent that makes the call."""
    title: str
    """`ask_user(question)` or `server(message)`, shortened. For a sub-agent, its label comes first."""
    message: str
    """The whole question."""
    fields: tuple[InputField, ...]
    """Empty when there is a `url`."""
    url: str | None = None
    """A URL to open, only after the user has seen it and agreed. `accepted` means that the user agreed."""
    source: InputSource
    server: str | None = None
    """Name of the MCP server that asks."""


class InputOutcome(StrEnum):
    """What the user did. Only `accepted` is an answer; `cancelled` means that the user closed the request."""

    ACCEPTED = "accepted"
    DECLINED = "declined"
    CANCELLED = "cancelled"


class InputResponse(Wire):
    """A client's result of `deputy/input/request`."""

    outcome: InputOutcome
    values: JsonObject | None = None
    """With `accepted`: the values by name of the field. Optional fields may be absent."""


class InputAnswerParams(Params):
    """An answer to an input request."""

    request_id: str
    outcome: InputOutcome
    values: JsonObject | None = None
    """With `accepted`: the values by name of the field. Optional fields may be absent."""


class InputAnswerResult(Wire):
    """Whether the answer took effect."""

    accepted: Flag
    """False when the request was already settled."""


def read_response(result: object) -> InputResponse | None:
    """The response in a client's result of `deputy/input/request`, or ``None`` for anything else: null, invalid values,
    or an unknown outcome."""
    try:
        return parse(InputResponse, result)
    except InvalidParams:
        return None
