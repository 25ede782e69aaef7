"""The package's exceptions.

::

    DeputyError                 the message is for the user: what is wrong and what to do
    ├── InvalidTransition       an input that is illegal in the current state (a bug)
    ├── NotFound
    │   ├── UnknownSession
    │   └── UnknownAgent
    ├── WrongState              valid at another time: a prompt while a turn runs
    ├── InvalidRequest          an invalid value, named by ``field``
    ├── NotConfigured           no model, no key
    ├── NotAllowed              no trust, no valid token
    ├── Overloaded              a bounded queue is full
    ├── StoreError              the session store failed
    ├── ToolError               becomes the error result of a tool call
    │   └── OutsideRoots
    └── ModelError              ``kind``, ``retryable``, ``retry_after``, ``action``
"""

from enum import StrEnum


class DeputyError(Exception):
    """Base of all errors that Deputy raises on purpose. The message is written for the user."""


class InvalidTransition(DeputyError):
    """An input is illegal in the current state. Raised only by ``run.transition``."""


class NotFound(DeputyError):
    """No object has the given id."""


class UnknownSession(NotFound):
    """No such session."""


class UnknownAgent(NotFound):
    """No such agent in the session."""


class WrongState(DeputyError):
    """The request is valid, but not in the current state: for example a prompt during a turn."""


class InvalidRequest(DeputyError):
    """A value is invalid; ``field`` names it."""

    def __init__(self, message: str, field: str = "") -> None:
        super().__init__(message)
        self.field = field


MAX_TEXT = 8 * 2**20
"""The most characters of a prompt or message. No context window is larger."""


def check_length(text: str, field: str, limit: int = MAX_TEXT) -> None:
    """Validates the length of a text from a client.

    Raises:
        InvalidRequest: ``text`` has more than ``limit`` characters.
    """
    if len(text) > limit:
        raise InvalidRequest(
            f"{field}: {len(text):,} characters exceed the limit of {limit:,}. Put long texts into files.", field
        )


class NotConfigured(DeputyError):
    """A setting is missing. The message names it and describes how to set it."""


class NotAllowed(DeputyError):
    """The workspace is not trusted, or the token is missing or invalid."""


class Overloaded(DeputyError):
    """A bounded queue is full. The request may succeed later."""


class StoreError(DeputyError):
    """The session store failed to read or write."""


class ToolError(DeputyError):
    """A tool call failed. The message is the error result for the model."""


class OutsideRoots(ToolError):
    """A path is outside the workspace roots."""


class ModelErrorKind(StrEnum):
    """All the ways in which a model request can fail."""

    RATE_LIMITED = "rate_limited"
    OVERLOADED = "overloaded"
    SERVER = "server"
    UNREACHABLE = "unreachable"
    """No connection could be established."""
    CERTIFICATES = "certificates"
    """The certificates to trust cannot be read."""
    CONNECTION = "connection"
    """A connection broke."""
    TIMEOUT = "timeout"
    CUT_STREAM = "cut_stream"
    AUTHENTICATION = "authentication"
    PERMISSION = "permission"
    NOT_FOUND = "not_found"
    INVALID_REQUEST = "invalid_request"
    CONTEXT_WINDOW = "context_window"
    TOO_LARGE = "too_large"
    NOT_CONFIGURED = "not_configured"
    REFUSAL = "refusal"
    MAX_TOKENS = "max_tokens"
    UNKNOWN = "unknown"


class ModelError(DeputyError):
    """A model request failed.

    ``retryable``: the same request may succeed later. ``retry_after`` is the wait that the service asked for, in
    seconds. ``action`` is what the user can do, for example ``"Set ANTHROPIC_API_KEY."``.
    """

    def __init__(
        self,
        message: str,
        kind: ModelErrorKind = ModelErrorKind.UNKNOWN,
        *,
        retryable: bool = False,
        retry_after: float | None = None,
        action: str = "",
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.retryable = retryable
        self.retry_after = retry_after
        self.action = action
