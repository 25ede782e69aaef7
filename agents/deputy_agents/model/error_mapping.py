"""Failures of a model service as :class:`ModelError`: their kind, whether and when to retry, and what the user can
do."""

import math
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime

from deputy_agents.domain.errors import ModelError, ModelErrorKind
from deputy_agents.model.error_causes import ADDRESS, BILLING, CHECK_KEY, Cause, cause_of
from deputy_agents.model.error_words import ErrorWords

_CHECK_URL = "Check the network and the setting `baseUrl` (or ANTHROPIC_BASE_URL)."
_CHECK_MODEL = "Check the setting `model` (or DEPUTY_MODEL) and the setting `baseUrl`, which ends before `/v1`."
_CHECK_INVALID = (
    "If the message does not name the cause, start a new session, or check the settings `model` and `baseUrl`."
)
_DETAIL_LENGTH = 500
_LONG_WAIT = 60
"""Seconds. The end of a wait from this length on is shown."""


@dataclass(frozen=True, slots=True)
class _Case:
    sentence: str
    retryable: bool
    action: str = "Try again later."


_CASES = {
    ModelErrorKind.RATE_LIMITED: _Case("The model service limits the request rate", True),
    ModelErrorKind.OVERLOADED: _Case("The model service is overloaded", True),
    ModelErrorKind.SERVER: _Case("The model service failed", True),
    ModelErrorKind.UNREACHABLE: _Case("The model service cannot be reached", True, _CHECK_URL),
    ModelErrorKind.CERTIFICATES: _Case(
        "No secure connection is possible", False, "Correct or unset SSL_CERT_FILE and SSL_CERT_DIR; restart Deputy."
    ),
    ModelErrorKind.CONNECTION: _Case("The connection to the model service broke", True, _CHECK_URL),
    ModelErrorKind.TIMEOUT: _Case("The model service did not respond in time", True, _CHECK_URL),
    ModelErrorKind.CUT_STREAM: _Case("The model's reply was cut off", True),
    ModelErrorKind.AUTHENTICATION: _Case("The model service rejected the key", False, CHECK_KEY),
    ModelErrorKind.PERMISSION: _Case(
        "The key does not allow this request", False, "Check the permissions of your key."
    ),
    ModelErrorKind.NOT_FOUND: _Case("The model service has no such model or address", False, _CHECK_MODEL),
    ModelErrorKind.INVALID_REQUEST: _Case("The model service rejected the request as invalid", False, _CHECK_INVALID),
    ModelErrorKind.CONTEXT_WINDOW: _Case(
        "The conversation is too long for the model", False, "Start a new session, or choose another model."
    ),
    ModelErrorKind.TOO_LARGE: _Case("The request is too large", False, "Start a new session, or attach less."),
    ModelErrorKind.NOT_CONFIGURED: _Case(
        "No key for the model service is set",
        False,
        "Set ANTHROPIC_API_KEY, or set the model to `offline`.",
    ),
    ModelErrorKind.REFUSAL: _Case("The model declined to answer", False, "Rephrase the prompt."),
    ModelErrorKind.MAX_TOKENS: _Case("The reply reached its token limit", False, "Ask for less at a time."),
    ModelErrorKind.UNKNOWN: _Case("The request to the model failed", False, _CHECK_URL),
}

_BY_TYPE = {
    "invalid_request_error": ModelErrorKind.INVALID_REQUEST,
    "authentication_error": ModelErrorKind.AUTHENTICATION,
    "billing_error": ModelErrorKind.PERMISSION,
    "permission_error": ModelErrorKind.PERMISSION,
    "not_found_error": ModelErrorKind.NOT_FOUND,
    "request_too_large": ModelErrorKind.TOO_LARGE,
    "rate_limit_error": ModelErrorKind.RATE_LIMITED,
    "timeout_error": ModelErrorKind.TIMEOUT,
    "api_error": ModelErrorKind.SERVER,
    "overloaded_error": ModelErrorKind.OVERLOADED,
    # OpenAI
    "context_length_exceeded": ModelErrorKind.CONTEXT_WINDOW,
    "rate_limit_exceeded": ModelErrorKind.RATE_LIMITED,
    "server_error": ModelErrorKind.SERVER,
    # Amazon Bedrock
    "internalServerException": ModelErrorKind.SERVER,
    "modelStreamErrorException": ModelErrorKind.SERVER,
    "modelTimeoutException": ModelErrorKind.TIMEOUT,
    "serviceUnavailableException": ModelErrorKind.OVERLOADED,
    "throttlingException": ModelErrorKind.RATE_LIMITED,
    "validationException": ModelErrorKind.INVALID_REQUEST,
}

_BY_STATUS = {
    **dict.fromkeys((301, 302, 303, 307, 308, 405, 410), ModelErrorKind.NOT_FOUND),
    400: ModelErrorKind.INVALID_REQUEST,
    401: ModelErrorKind.AUTHENTICATION,
    402: ModelErrorKind.PERMISSION,
    403: ModelErrorKind.PERMISSION,
    404: ModelErrorKind.NOT_FOUND,
    408: ModelErrorKind.TIMEOUT,
    409: ModelErrorKind.SERVER,
    413: ModelErrorKind.TOO_LARGE,
    422: ModelErrorKind.INVALID_REQUEST,
    429: ModelErrorKind.RATE_LIMITED,
    504: ModelErrorKind.TIMEOUT,
    529: ModelErrorKind.OVERLOADED,
}

# The service has no error code for this; other servers use other wording.
_TOO_LONG = re.compile(r"prompt is too long|context (window|length|limit|size)|maximum context", re.IGNORECASE)
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f]+")


def model_error(kind: ModelErrorKind, detail: str = "", *, retry_after: float | None = None) -> ModelError:
    """The error of ``kind``. ``detail`` comes from the service or the network; it is cleaned and truncated here."""
    return _error(kind, _CASES[kind], detail, retry_after)


def service_error(words: ErrorWords, *, status: int = 200, headers: Mapping[str, str] | None = None) -> ModelError:
    """The error for an error response with ``words``. Its type takes precedence over ``status``, because an error in
    the middle of a stream has status 200."""
    headers = headers or {}
    kind = _kind(words, status if status >= 300 else words.status or status)
    cause = BILLING if status == 402 else cause_of(kind, words)
    error = _error(cause.kind if cause else kind, _case(kind, cause), words.text, retry_after(headers))
    # The service decides: for an exhausted budget it sends a 429 that must not be retried.
    match headers.get("x-should-retry"):
        case "true":
            error.retryable = True
        case "false":
            error.retryable = False
        case _:
            pass
    return error


def wrong_address(detail: str) -> ModelError:
    """The error for a response that no service of the Messages API sends."""
    return _error(ADDRESS.kind, _case(ADDRESS.kind, ADDRESS), detail, None)


def wait_end(seconds: float, now: datetime) -> str:
    """The end of a wait that starts ``now``: ``until 17:30``, or ``in 5 h`` if that is not today."""
    hours = seconds / 3600
    if hours < 48 and (end := now + timedelta(seconds=seconds)).date() == now.date():
        return f"until {end:%H:%M}"
    if hours < 1:
        return f"in {math.ceil(seconds / 60)} min"
    return f"in {hours:.0f} h" if hours < 48 else f"in {hours / 24:.0f} days"


def _error(kind: ModelErrorKind, case: _Case, detail: str, wait: float | None) -> ModelError:
    detail = _UNPRINTABLE.sub(" ", detail).strip()[:_DETAIL_LENGTH]
    sentence, action = case.sentence, case.action
    if case.retryable and wait is not None and wait >= _LONG_WAIT:
        end = wait_end(wait, datetime.now())  # noqa: DTZ005 - shown in local time
        today = end.startswith("until")
        sentence += f" {end}" if today else f", which ends {end}"
        action = f"{'Wait' if today else 'Try again'} {end}, or set another model."
    message = f"{sentence}: {detail}" if detail else sentence
    if not message.endswith((".", "!", "?", "…")):  # the action follows
        message += "."
    return ModelError(message, kind, retryable=case.retryable, retry_after=wait, action=action)


def _case(kind: ModelErrorKind, cause: Cause | None) -> _Case:
    if cause is None:
        return _CASES[kind]
    return _Case(cause.sentence, _CASES[cause.kind].retryable, cause.action)


def _kind(words: ErrorWords, status: int) -> ModelErrorKind:
    fallback = ModelErrorKind.SERVER if status >= 500 else ModelErrorKind.UNKNOWN
    typed = next((_BY_TYPE[type_] for type_ in words.types if type_ in _BY_TYPE), None)
    kind = typed or _BY_STATUS.get(status, fallback)
    # The types sent with 413 and 529 are less specific than the status.
    if status in (413, 529):
        kind = _BY_STATUS[status]
    if kind in (ModelErrorKind.INVALID_REQUEST, ModelErrorKind.TOO_LARGE) and _TOO_LONG.search(words.text):
        return ModelErrorKind.CONTEXT_WINDOW
    return kind


def retry_after(headers: Mapping[str, str]) -> float | None:
    """The requested wait in seconds: from ``retry-after-ms``, or ``retry-after`` as seconds or an HTTP date. ``None``
    without a valid value."""
    if (milliseconds := _number(headers.get("retry-after-ms"))) is not None:
        return milliseconds / 1000
    value = headers.get("retry-after", "")
    if (seconds := _number(value)) is not None:
        return seconds
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None


def _number(value: str | None) -> float | None:
    try:
        number = float(value or "")
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None
