"""Failures of a model service as :class:`ModelError`: their kind, whether and when to retry, and what the user can
do."""

import math
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

from deputy_agents.domain.errors import ModelError, ModelErrorKind

_CHECK_KEY = "Check ANTHROPIC_API_KEY."
_CHECK_URL = "Check the network and the setting `baseUrl` (or ANTHROPIC_BASE_URL)."
_CHECK_MODEL = "Check the setting `model` (or DEPUTY_MODEL) and the setting `baseUrl`, which ends before `/v1`."
_DETAIL_LENGTH = 500


@dataclass(frozen=True, slots=True)
class _Case:
    sentence: str
    retryable: bool
    action: str = "Try again later."


_CASES = {
    ModelErrorKind.RATE_LIMITED: _Case("The model service limits the request rate", True),
    ModelErrorKind.OVERLOADED: _Case("The model service is overloaded", True),
    ModelErrorKind.SERVER: _Case("The model service failed", True),
    ModelErrorKind.CONNECTION: _Case("The model service cannot be reached", True, _CHECK_URL),
    ModelErrorKind.TIMEOUT: _Case("The model service did not respond in time", True, _CHECK_URL),
    ModelErrorKind.CUT_STREAM: _Case("The model's reply was cut off", True),
    ModelErrorKind.AUTHENTICATION: _Case("The model service rejected the key", False, _CHECK_KEY),
    ModelErrorKind.PERMISSION: _Case(
        "The key does not allow this request", False, "Check the permissions of your key."
    ),
    ModelErrorKind.NOT_FOUND: _Case("The model service has no such model or address", False, _CHECK_MODEL),
    ModelErrorKind.INVALID_REQUEST: _Case("The model service rejected the request as invalid", False, _CHECK_MODEL),
    ModelErrorKind.CONTEXT_WINDOW: _Case(
        "The conversation is too long for the model", False, "Start a new session, or choose another model."
    ),
    ModelErrorKind.TOO_LARGE: _Case("The request is too large", False, "Start a new session, or attach less."),
    ModelErrorKind.NOT_CONFIGURED: _Case(
        "No key for the model service is set",
        False,
        "Set ANTHROPIC_API_KEY (any value works for a local server), or set the model to `offline`.",
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
}

_BY_STATUS = {
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
    case = _CASES[kind]
    detail = _UNPRINTABLE.sub(" ", detail).strip()[:_DETAIL_LENGTH]
    message = f"{case.sentence}: {detail}" if detail else f"{case.sentence}."
    return ModelError(message, kind, retryable=case.retryable, retry_after=retry_after, action=case.action)


def service_error(
    type_: str | None, detail: str, *, status: int = 200, headers: Mapping[str, str] | None = None
) -> ModelError:
    """The error for an error response. ``type_`` is the service's error type; it takes precedence over ``status``,
    because an error in the middle of a stream has status 200."""
    headers = headers or {}
    error = model_error(_kind(type_, detail, status), detail, retry_after=retry_after(headers))
    # The service decides: for an exhausted budget it sends a 429 that must not be retried.
    match headers.get("x-should-retry"):
        case "true":
            error.retryable = True
        case "false":
            error.retryable = False
        case _:
            pass
    return error


def _kind(type_: str | None, detail: str, status: int) -> ModelErrorKind:
    fallback = ModelErrorKind.SERVER if status >= 500 else ModelErrorKind.UNKNOWN
    kind = _BY_TYPE.get(type_ or "") or _BY_STATUS.get(status, fallback)
    # The types sent with 413 and 529 are less specific than the status.
    if status in (413, 529):
        kind = _BY_STATUS[status]
    if kind in (ModelErrorKind.INVALID_REQUEST, ModelErrorKind.TOO_LARGE) and _TOO_LONG.search(detail):
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
