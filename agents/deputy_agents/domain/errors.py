"""The package's exceptions.

::

    DeputyError                 message for the user: what is wrong and what to do
    ├── InvalidTransition       an input that is illegal in the state it met (a fault of the program)
    ├── NotFound
    │   ├── UnknownSession
    │   └── UnknownAgent
    ├── WrongState              legal elsewhere, not now: a prompt while a turn runs
    ├── InvalidRequest          a value that does not fit, named by ``field``
    ├── NotConfigured           no model, no key
    ├── NotAllowed              trust, token
    ├── Overloaded              a bounded queue is full
    ├── StoreError              the store cannot keep or find something
    ├── ToolError               told to the model as an error result
    │   └── OutsideRoots
    └── ModelError              ``kind``, ``retryable``, ``retry_after``, ``action``
"""

from enum import StrEnum


class DeputyError(Exception):
    """Base of all errors that Deputy raises on purpose; the text is fit for a user."""


class InvalidTransition(DeputyError):
    """An input met a state in which it is illegal. Raised by ``run.transition`` alone."""


class NotFound(DeputyError):
    """Something named by an id does not exist."""


class UnknownSession(NotFound):
    """No such session."""


class UnknownAgent(NotFound):
    """No such agent in the session."""


class WrongState(DeputyError):
    """The request is right but not now, for instance a prompt during a turn."""


class InvalidRequest(DeputyError):
    """A value does not fit; ``field`` names it."""

    def __init__(self, message: str, field: str = "") -> None:
        super().__init__(message)
        self.field = field


MAX_TEXT = 8 * 2**20
"""Characters of a prompt or a message, which no model could read at once."""


def check_length(text: str, field: str, most: int = MAX_TEXT) -> None:
    """Raises InvalidRequest: what a client gave as ``field`` is longer than ``most`` characters."""
    if len(text) > most:
        raise InvalidRequest(
            f"{field}: it has {len(text):,} characters, and may have {most:,}. Long texts belong into files.", field
        )


class NotConfigured(DeputyError):
    """A setting is missing; the message says which and how to set it."""


class NotAllowed(DeputyError):
    """Trust or a token is missing."""


class Overloaded(DeputyError):
    """A bounded queue is full; try again later."""


class StoreError(DeputyError):
    """The store cannot keep or find something."""


class ToolError(DeputyError):
    """A tool cannot do what was asked; the text is the error result that the model reads."""


class OutsideRoots(ToolError):
    """A path leads out of the workspace roots."""


class ModelErrorKind(StrEnum):
    """The closed set of ways in which a model request fails."""

    RATE_LIMITED = "rate_limited"
    OVERLOADED = "overloaded"
    SERVER = "server"
    CONNECTION = "connection"
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

    ``retryable`` says whether the same request may succeed later; ``retry_after`` is the wait that the server
    asked for, in seconds; ``action`` tells the user what to do, for instance ``"Set ANTHROPIC_API_KEY."``.
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
