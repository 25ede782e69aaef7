"""A message has at most 64 MiB and 300,000 values; a prompt at most 8 Mi characters and 1,000 blocks. Half of a
surrogate pair, which JSON can carry but no file, counts as U+FFFD.

Every request gets exactly one answer. An error's message says what is wrong and what to do; its `data`, where it has
one, is described with its code. Messages hold nothing secret and no local path of the server.
"""

from collections.abc import Sequence
from enum import IntEnum
from typing import Self

_SHOWN = 3


class ErrorCode(IntEnum):
    """Error codes, with what they mean."""

    meaning: str

    def __new__(cls, code: int, meaning: str) -> Self:
        member = int.__new__(cls, code)
        member._value_ = code
        member.meaning = meaning
        return member

    PARSE_ERROR = -32700, "The message is no JSON, or holds too many values."
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


class InvalidParams(ValueError):
    """Parameters that do not validate. The text names the fields; ``field`` and ``reason`` are of the first one."""

    code = ErrorCode.INVALID_PARAMS

    def __init__(self, problems: Sequence[tuple[str, str]]) -> None:
        shown = [f"{field}: {reason}" if field else reason for field, reason in problems[:_SHOWN]]
        super().__init__("; ".join(shown) + ("; …" if len(problems) > _SHOWN else ""))
        self.field, self.reason = problems[0]
