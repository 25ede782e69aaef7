"""Exceptions as JSON-RPC errors. Error codes are chosen only here.

::

    Exception
    ├── RpcError            an error response to the client, with its code
    ├── ClientError         the client answered a request with an error
    └── ConnectionLost      the client has disconnected
"""

import logging
from collections.abc import Mapping

from deputy_agents.domain import errors
from deputy_protocol.errors import ErrorCode, InvalidParams

log = logging.getLogger(__name__)

_CODES: tuple[tuple[type[Exception], ErrorCode], ...] = (
    (InvalidParams, ErrorCode.INVALID_PARAMS),
    (errors.UnknownSession, ErrorCode.UNKNOWN_SESSION),
    (errors.UnknownAgent, ErrorCode.UNKNOWN_AGENT),
    (errors.WrongState, ErrorCode.WRONG_STATE),
    (errors.InvalidRequest, ErrorCode.INVALID_PARAMS),
    (errors.NotConfigured, ErrorCode.NOT_CONFIGURED),
    (errors.Overloaded, ErrorCode.OVERLOADED),
    (errors.ModelError, ErrorCode.MODEL_FAILURE),
    (errors.NotAllowed, ErrorCode.NOT_ALLOWED),
    (errors.StoreError, ErrorCode.INTERNAL_ERROR),
)


class RpcError(Exception):
    """An error response. ``message`` is shown to users and contains no local paths."""

    def __init__(self, code: ErrorCode, message: str, data: Mapping[str, object] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data

    def to_json(self) -> dict[str, object]:
        body: dict[str, object] = {"code": int(self.code), "message": self.message}
        return body if self.data is None else body | {"data": dict(self.data)}


class ClientError(Exception):
    """The client answered a request with an error of this code."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class ConnectionLost(Exception):
    """The client has disconnected."""


def to_rpc_error(error: Exception) -> RpcError:
    """Map ``error`` to an error response. An unexpected exception is logged, and the response omits its text, which may
    contain paths or private data."""
    if isinstance(error, RpcError):
        return error
    if isinstance(error, errors.ModelError) and error.kind is errors.ModelErrorKind.NOT_CONFIGURED:
        return RpcError(ErrorCode.NOT_CONFIGURED, f"{error} {error.action}".strip(), _data_of(error))
    for kind, code in _CODES:
        if isinstance(error, kind):
            return RpcError(code, str(error), _data_of(error))
    log.error("a request failed unexpectedly", exc_info=error)
    return RpcError(ErrorCode.INTERNAL_ERROR, "Internal error. See the server log for details.")


def _data_of(error: Exception) -> Mapping[str, object] | None:
    match error:
        case InvalidParams():
            return {"field": error.field, "reason": error.reason}
        case errors.InvalidRequest() if error.field:
            return {"field": error.field, "reason": str(error)}
        case errors.ModelError():
            return {"kind": error.kind.value, "retryable": error.retryable, "action": error.action}
        case _:
            return None
