"""Causes of failures that a model service states in its words, for the kinds that a status leaves unclear.

Services use one status for many causes, and each has its own words: an unknown model is a 400, 404 or 422, an account
without credit a 400, 402, 403 or 429.
"""

import re
from dataclasses import dataclass

from deputy_agents.domain.errors import ModelErrorKind
from deputy_agents.model.error_words import ErrorWords

CHECK_KEY = "Check ANTHROPIC_API_KEY."
CHECK_ADDRESS = "Check the setting `baseUrl` (or ANTHROPIC_BASE_URL), which ends before `/v1`."
CHECK_MODEL = "Check the setting `model` (or DEPUTY_MODEL)."

_UNCLEAR = frozenset(
    {
        ModelErrorKind.INVALID_REQUEST,
        ModelErrorKind.NOT_FOUND,
        ModelErrorKind.PERMISSION,
        ModelErrorKind.AUTHENTICATION,
        ModelErrorKind.UNKNOWN,
    }
)
_IN_CONTENT = re.compile(r"\b(messages|tools)[.\[]\d")
"""An error about one message or tool, which may quote anything."""
_QUOTE = re.compile(r"[\"'`‘’“”]")


@dataclass(frozen=True, slots=True)
class Cause:
    """A cause that ``words`` or ``types`` show. It replaces the kind, the sentence and the action of the status."""

    kind: ModelErrorKind
    sentence: str
    action: str
    words: re.Pattern[str]
    types: frozenset[str] = frozenset()


def _words(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.IGNORECASE)


_NEVER = re.compile(r"(?!)")

BILLING = Cause(
    ModelErrorKind.PERMISSION,
    "The account of your key cannot pay for this request",
    "Check the billing and the spending limits of your account.",
    _words(
        r"\bcredit balance\b",
        r"\bout of credits?\b",
        r"\b(insufficient|not enough|no)[ _](remaining )?(credits?|balance|quota|funds)\b",
        r"\bbilling\b",
        r"\bpayment (is )?required\b",
        r"\bapi usage limits\b",
        r"\bspend(ing)? limit\b",
    ),
    frozenset({"billing_error", "insufficient_quota", "insufficient_credits"}),
)
_MODEL = Cause(
    ModelErrorKind.NOT_FOUND,
    "The model service does not have this model",
    CHECK_MODEL,
    _words(
        r"\bmodel\b[^.;]{0,120}?\b(not (be )?(found|recognized|available|loaded)|not exist|no longer available)\b",
        r"\bmodel\b[^.;]{0,120}?\b(is|are) (invalid|unknown|unsupported|not supported|not a valid)\b",
        r"\b(unknown|invalid|unsupported|unrecognized|no such|nonexistent|not a valid) model\b",
        r"\bmodel[ _]not[ _]found\b",
        r"^model: ?\S+$",
    ),
    frozenset({"model_not_found", "model_not_available"}),
)
_KEY = Cause(
    ModelErrorKind.AUTHENTICATION,
    "The model service rejected the key",
    CHECK_KEY,
    _words(
        r"\b(invalid|incorrect|missing|expired|revoked|no|wrong) (x-)?api[ _-]?key\b",
        r"\bapi[ _-]?key (is )?(not valid|invalid|missing|expired|required)\b",
    ),
    frozenset({"invalid_api_key"}),
)
_CLOUD = Cause(
    ModelErrorKind.AUTHENTICATION,
    "The credentials have expired or are not valid",
    "Log in to your cloud provider again, for example with `aws sso login` or `gcloud auth application-default login`.",
    _words(
        r"\bsecurity token\b[^.;]{0,60}\b(expired|invalid)\b",
        r"\bexpired ?token",
        r"\btoken has expired\b",
        r"\binvalid authentication credentials\b",
    ),
    frozenset({"ExpiredTokenException", "UnrecognizedClientException"}),
)
_REPLY_LENGTH = Cause(
    ModelErrorKind.INVALID_REQUEST,
    "The model service rejected the limit of the reply",
    "Lower the setting `maxTokens`.",
    _words(r"\bmax_?(completion_|output_)?tokens\b"),
)
ADDRESS = Cause(ModelErrorKind.NOT_FOUND, "The model service does not have this address", CHECK_ADDRESS, _NEVER)
_PAGE = Cause(
    ModelErrorKind.NOT_FOUND,
    "A web page came instead of a reply of the model",
    f"{CHECK_ADDRESS} A proxy or firewall may have sent the page.",
    _NEVER,
)
_RATE = Cause(
    ModelErrorKind.RATE_LIMITED,
    "The model service limits the request rate",
    "Try again later.",
    _words(r"\brate.?limit", r"\btoo many requests\b"),
)
_LOAD = Cause(
    ModelErrorKind.OVERLOADED, "The model service is overloaded", "Try again later.", _words(r"\boverloaded\b")
)

_STATED = (BILLING, _MODEL, _KEY, _CLOUD, _REPLY_LENGTH)
_PASSING = (_RATE, _LOAD)


def cause_of(kind: ModelErrorKind, words: ErrorWords) -> Cause | None:
    """What the words of the service, or what is missing there, show about an error of ``kind``."""
    for cause in _STATED:
        if not cause.types.isdisjoint(words.types):
            return cause
    if kind not in _UNCLEAR or _IN_CONTENT.search(words.text):
        return None
    if words.is_page:
        return None if kind is ModelErrorKind.AUTHENTICATION else _PAGE
    text = _QUOTE.sub("", words.text)
    unknown = kind is ModelErrorKind.UNKNOWN
    stated = next((cause for cause in (*_STATED, *(_PASSING if unknown else ())) if cause.words.search(text)), None)
    # A service of the Messages API answers with a type of its own.
    return stated or (ADDRESS if kind is ModelErrorKind.NOT_FOUND and not words.types else None)
