"""A message may have at most 64 MiB and 300,000 values; a prompt may have at most 8 Mi characters and 1,000 blocks. An
unpaired surrogate, which JSON can represent but a file cannot, is read as U+FFFD.

Every request gets exactly one response. The message of an error states what is wrong and what to do. Some errors also
have `data`, described below. Error messages contain no secrets and no local paths of the server.
"""

from collections.abc import Sequence
from enum import IntEnum
from typing import Self

_SHOWN = 3


class ErrorCode(IntEnum):
    """Error codes and their meaning."""

    meaning: str

    def __new__(cls, code: int, meaning: str) -> Self:
        member = int.__new__(cls, code)
        member._value_ = code
        member.meaning = meaning
        return member

    PARSE_ERROR = -32700, "The message is not valid JSON, or it has too many values."
    INVALID_REQUEST = -32600, "The message is not a valid request, or it is a second `initialize`."
    METHOD_NOT_FOUND = -32601, "The method or command does not exist."
    INVALID_PARAMS = -32602, "The parameters are invalid. `data.field` names the first invalid one."
    INTERNAL_ERROR = -32603, "An internal error. Details are in the server's log."
    NOT_INITIALIZED = -32002, "The request arrived before `initialize`."
    REQUEST_CANCELLED = -32800, "The client cancelled the request. A cancelled prompt returns `cancelled` instead."
    UNKNOWN_SESSION = -32001, "The session does not exist."
    WRONG_STATE = -32003, "Not possible now, such as a prompt during a turn or a message to an ended agent."
    NOT_CONFIGURED = -32004, "No model or no key is configured. The message states what to set."
    OVERLOADED = -32005, "A queue is full. Try again later."
    MODEL_FAILURE = -32006, "The model failed, which ended the turn. `data` states what the user can do."
    NOT_ALLOWED = -32007, "The workspace is not trusted, or the token is missing or wrong."
    UNKNOWN_AGENT = -32008, "The agent does not exist."


class InvalidParams(ValueError):
    """Invalid parameters. The text names the fields; ``field`` and ``reason`` describe the first one."""

    code = ErrorCode.INVALID_PARAMS

    def __init__(self, problems: Sequence[tuple[str, str]]) -> None:
        shown = [f"{field}: {reason}" if field else reason for field, reason in problems[:_SHOWN]]
        super().__init__("; ".join(shown) + ("; …" if len(problems) > _SHOWN else ""))
        self.field, self.reason = problems[0]
