"""Every request gets exactly one answer. An error's message says what is wrong and what to do; its `data`, where it has
one, is described with its code. Messages hold nothing secret and no local path of the server.
"""

from enum import IntEnum
from typing import Self

from deputy_protocol.base import Flag, Wire


class ErrorCode(IntEnum):
    """Error codes, with what they mean."""

    meaning: str

    def __new__(cls, code: int, meaning: str) -> Self:
        member = int.__new__(cls, code)
        member._value_ = code
        member.meaning = meaning
        return member

    PARSE_ERROR = -32700, "The message is no JSON."
    INVALID_REQUEST = -32600, "The message is no request, or a second `initialize`."
    METHOD_NOT_FOUND = -32601, "There is no such method or command."
    INVALID_PARAMS = -32602, "The parameters do not validate; `data.field` names the first that does not."
    INTERNAL_ERROR = -32603, "A fault of the server; its log says more."
    NOT_INITIALIZED = -32002, "A request came before `initialize`."
    REQUEST_CANCELLED = -32800, "The client cancelled the request. A prompt answers `cancelled` instead."
    UNKNOWN_SESSION = -32001, "There is no such session."
    WRONG_STATE = -32003, "Right, but not now: a prompt during a turn, words to an agent that has ended."
    NOT_CONFIGURED = -32004, "No model or key; the message says what to set."
    OVERLOADED = -32005, "A queue is full; try again later."
    MODEL_FAILURE = -32006, "The model failed, and the turn with it; `data` says what the user can do."
    NOT_ALLOWED = -32007, "Trust or a token is missing."
    UNKNOWN_AGENT = -32008, "There is no such agent."


class InvalidParamsData(Wire):
    """`data` of error -32602."""

    field: str
    """JSON path of the first field that does not validate, such as `prompt[0].uri`; empty for the whole."""
    reason: str


class ModelFailure(Wire):
    """`data` of error -32006."""

    kind: str
    """Such as `rate_limited`, `authentication` or `connection`."""
    retryable: Flag
    """Whether the same prompt may succeed later."""
    action: str
    """What the user can do."""
