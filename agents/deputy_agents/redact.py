"""Redacts secrets from text that leaves the process: stored events, recordings, transcripts.

Large texts are redacted in threads, and no other thread can run while a regular expression or a search is at work. So
each call of one of them looks at a part of the text, and secrets have a greatest length.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple, TypeAlias, cast

MASK = "[removed]"

_SECRET_NAME = re.compile(
    r"(?:key|token|secret|passw|passwd|password|passphrase|credential|auth)s?(?:[_\d]|$)", re.IGNORECASE
)
_MIN_VALUE = 8
"""Characters of the shortest environment value that is redacted. Shorter ones match ordinary text."""


class KeyFormat(NamedTuple):
    """The format of one provider's keys: the literal ``prefix``, then the regular expression ``rest``."""

    provider: str
    prefix: str
    rest: str


def _at_word_start(prefix: str, word: str = "A-Za-z0-9") -> str:
    r"""Requires that no character of ``word`` precedes ``prefix``. The ``\n`` of a JSON string may precede it."""
    literal = re.escape(prefix)
    return rf"(?:(?<![{word}]{literal})|(?<=\\[nrt]{literal}))"


_PEM_LABEL = r"[A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
_MAX_PEM = 2**18
"""Characters of the longest private key. If none ends within them, as in output that is cut, all of them may be one."""

KEY_FORMATS = (
    KeyFormat(
        "private key",
        "-----BEGIN ",
        rf"{_PEM_LABEL}(?:.{{0,{_MAX_PEM}}}?-----END {_PEM_LABEL}|.{{0,{_MAX_PEM}}})",
    ),
    KeyFormat("model service", "sk-", _at_word_start("sk-", r"\w-") + r"(?=[\w-]{0,200}\d)[\w-]{16,}"),
    KeyFormat("1Password", "ops_eyJ", r"[\w+/=]{200,}"),
    KeyFormat("Adobe", "p8e-", _at_word_start("p8e-") + r"[a-z0-9]{32}"),
    KeyFormat("age", "AGE-SECRET-KEY-1", r"[A-Z0-9]{58}"),
    KeyFormat("Alibaba Cloud", "LTAI", _at_word_start("LTAI") + r"[A-Za-z0-9]{20}"),
    KeyFormat("Artifactory", "AKCp", _at_word_start("AKCp") + r"[A-Za-z0-9]{69}"),
    KeyFormat("Atlassian", "ATATT3", _at_word_start("ATATT3") + r"[\w=-]{100,}"),
    KeyFormat("AWS", "AKIA", r"[0-9A-Z]{16}"),
    KeyFormat("AWS, temporary", "ASIA", _at_word_start("ASIA") + r"(?=[A-Z]{0,15}\d)[0-9A-Z]{16}(?![0-9A-Za-z])"),
    KeyFormat("Azure Storage", "AccountKey=", r"[A-Za-z0-9+/]{86}=="),
    KeyFormat("Brevo", "xkeysib-", r"[a-f0-9]{64}-[A-Za-z0-9]{16}"),
    KeyFormat("Cerebras", "csk-", _at_word_start("csk-", r"\w-") + r"[a-z0-9]{40,}"),
    KeyFormat("Clojars", "CLOJARS_", r"[a-z0-9]{60}"),
    KeyFormat("Cloudflare", "v1.0-", r"[a-f0-9]{24}-[a-f0-9]{146}"),
    KeyFormat("Contentful", "CFPAT-", r"[\w-]{43}"),
    KeyFormat("Databricks", "dapi", _at_word_start("dapi") + r"[a-f0-9]{32}"),
    KeyFormat("DigitalOcean", "do", r"[opr]_v1_[a-f0-9]{64}"),
    KeyFormat("Discord", "/api/webhooks/", r"\d{10,20}/[\w-]{60,}"),
    KeyFormat("Docker", "dckr_", r"[op]at_[\w-]{27,}"),
    KeyFormat(
        "Doppler", "dp.", _at_word_start("dp.") + r"(?:audit|ct|pt|sa|scim|st(?:\.[\w-]{2,35})?)\.[A-Za-z0-9]{40,}"
    ),
    KeyFormat("Dynatrace", "dt0", r"[a-z]\d\d\.[A-Z0-9]{24}\.[A-Z0-9]{64}"),
    KeyFormat("Figma", "figd_", r"[\w-]{40,}"),
    KeyFormat("Fly.io", "fo1_", _at_word_start("fo1_") + r"[\w-]{43}"),
    KeyFormat("Fly.io, macaroon", "fm", r"(?:1[ar]|2)_[A-Za-z0-9+/]{100,}={0,3}"),
    KeyFormat("GitHub", "gh", r"[oprsu]_\w{20,}"),
    KeyFormat("GitHub, fine-grained", "github_pat_", r"\w{20,}"),
    KeyFormat("GitLab", "glpat-", r"[\w-]{16,}"),
    KeyFormat("GitLab, other tokens", "gl", r"(?:agent|cbt|dt|ffct|ft|imt|oas|ptt|rt|soat)-[\w-]{20,}"),
    KeyFormat("Google API", "AIza", _at_word_start("AIza") + r"[\w-]{35}"),
    KeyFormat("Google OAuth", "GOCSPX-", r"[\w-]{28}"),
    KeyFormat("Google access token", "ya29.", _at_word_start("ya29.") + r"[\w-]{30,}"),
    KeyFormat("Grafana", "glsa_", r"[A-Za-z0-9]{32}_[A-Fa-f0-9]{8}"),
    KeyFormat("Grafana Cloud", "glc_", _at_word_start("glc_") + r"[A-Za-z0-9+/]{32,}={0,3}"),
    KeyFormat("Groq", "gsk_", _at_word_start("gsk_") + r"[A-Za-z0-9]{40,}"),
    KeyFormat("Heroku", "HRKU-AA", r"[\w-]{58}"),
    KeyFormat("Hugging Face", "hf_", _at_word_start("hf_") + r"[A-Za-z0-9]{30,}"),
    KeyFormat("Hugging Face, organization", "api_org_", r"[A-Za-z0-9]{30,}"),
    KeyFormat("LangSmith", "lsv2_", r"[a-z]{2}_[a-f0-9]{32}_[a-f0-9]{10}"),
    KeyFormat("Linear", "lin_", _at_word_start("lin_") + r"(?:api|oauth)_[A-Za-z0-9]{40,}"),
    KeyFormat("Mapbox", "sk.eyJ", r"[\w-]{40,}\.[\w-]{20,}"),
    KeyFormat("Netlify", "nfp_", _at_word_start("nfp_") + r"[A-Za-z0-9]{36}"),
    KeyFormat("New Relic", "NRAK-", r"[A-Z0-9]{27}"),
    KeyFormat("Notion", "ntn_", _at_word_start("ntn_") + r"[A-Za-z0-9]{43,}"),
    KeyFormat("npm", "npm_", r"[A-Za-z0-9]{36}"),
    KeyFormat("NVIDIA", "nvapi-", r"[\w-]{60,}"),
    KeyFormat("OpenShift", "sha256~", r"[\w-]{43}"),
    KeyFormat("Perplexity", "pplx-", r"[A-Za-z0-9]{40,}"),
    KeyFormat("PlanetScale", "pscale_", r"(?:oauth|pw|tkn)_[\w.=-]{32,}"),
    KeyFormat("Postman", "PMAK-", r"[a-f0-9]{24}-[a-f0-9]{34}"),
    KeyFormat("Prefect", "pnu_", _at_word_start("pnu_") + r"[A-Za-z0-9]{36}"),
    KeyFormat("Pulumi", "pul-", r"[a-f0-9]{40}"),
    KeyFormat("PyPI", "pypi-AgE", r"[\w-]{50,}"),
    KeyFormat("ReadMe", "rdme_", r"[a-z0-9]{70}"),
    KeyFormat("Replicate", "r8_", _at_word_start("r8_") + r"[A-Za-z0-9]{37}"),
    KeyFormat("RubyGems", "rubygems_", r"[a-f0-9]{48}"),
    KeyFormat("SendGrid", "SG.", _at_word_start("SG.") + r"[\w-]{22}\.[\w-]{43}"),
    KeyFormat("Sentry", "sntry", r"[su]_[\w+/=]{60,}"),
    KeyFormat("Shippo", "shippo_", r"(?:live|test)_[A-Fa-f0-9]{40}"),
    KeyFormat("Shopify", "shp", r"(?:at|ca|pa|ss)_[A-Fa-f0-9]{32}"),
    KeyFormat("Slack", "xox", r"[abeoprs]-[\w-]{10,}"),
    KeyFormat("Slack, app", "xapp-", r"\d-[\w-]{20,}"),
    KeyFormat("Slack, webhook", "hooks.slack.com/", r"(?:services|triggers|workflows)/[\w/+]{40,}"),
    KeyFormat("Sourcegraph", "sgp_", r"(?:[A-Fa-f0-9]{16}_|local_)?[A-Fa-f0-9]{40}"),
    KeyFormat("Square", "sq0", r"(?:atp|csp)-[\w-]{22,}"),
    KeyFormat("Stripe, restricted", "rk_", _at_word_start("rk_") + r"(?:live|prod|test)_[A-Za-z0-9]{20,}"),
    KeyFormat("Stripe, secret", "sk_", _at_word_start("sk_") + r"(?:live|prod|test)_[A-Za-z0-9]{20,}"),
    KeyFormat("Stripe, webhook", "whsec_", r"[A-Za-z0-9+/]{32,}={0,2}"),
    KeyFormat("Supabase", "sbp_", r"[a-f0-9]{40}"),
    KeyFormat("Tailscale", "tskey-", r"[a-z]{3,10}-[A-Za-z0-9]{8,}-[A-Za-z0-9]{20,}"),
    KeyFormat("Tavily", "tvly-", r"[\w-]{20,}"),
    KeyFormat("Typeform", "tfp_", _at_word_start("tfp_") + r"[\w.=-]{59}"),
    KeyFormat("Vault", "hv", _at_word_start("hv") + r"[bs]\.(?=[\w-]{0,200}\d)[\w-]{24,}"),
    KeyFormat("xAI", "xai-", _at_word_start("xai-") + r"[A-Za-z0-9]{60,}"),
)
"""Formats with a distinctive prefix only: text in which a secret is found is not stored, so a false match has a cost.

Each expression takes linear time on any text: quantified classes are bounded, or followed by nothing they can match.
"""

_MIN_KEY = 15
"""Characters of the shortest key."""

_PART = 2**17
"""Characters of the part of a text that one call of a search looks at."""
_MAX_QUOTED = 2**13
_MAX_TOKEN_PART = 2**14
_REACH = 2**16
"""Characters that a search also looks at beyond its part, for a secret that begins in it. More than any expression
needs to recognize one."""

_WEB_TOKEN = re.compile(
    rf"(?<![\w-])(?=[\w-]{{1,{_MAX_TOKEN_PART}}}+\.[\w-]{{8,{_MAX_TOKEN_PART}}}+\.[\w-]{{8}})"
    r"([\w-]*?)eyJ[\w-]{8,}+\.[\w-]{8,}+\.[\w-]{8,}+"
)
"""A JSON web token, after the beginning of its word. Three long parts are looked for first, once for each word."""
_URL_LOGIN = re.compile(r"(://)[^/\s:@]+:[^/\s@]+(?=@)")
"""The user and the password in a URL."""
_ASSIGNED = re.compile(
    rf"""([PpSsAa]  # one set first: the regex engine skips to its characters
          (?: (?<=[Pp])(?i:assw(?:or)?d) | (?<=[Ss])(?i:ecret) | (?<=[Aa])(?i:(?:pi|ccess)[_-]?key|uth[_-]?token) )
          [\w-]{{0,64}}["']?\s{{0,16}}[:=]\s{{0,16}})
        (?:"[^"\n]{{6,{_MAX_QUOTED}}}"|'[^'\n]{{6,{_MAX_QUOTED}}}'|[^\s"',;]{{6,}})""",
    re.VERBOSE,
)
"""A value that is assigned to a name such as ``db_password``."""


def _is_path(value: str) -> bool:
    """Whether ``value`` is an existing path, as ``SSH_AUTH_SOCK`` holds: a path is not a secret."""
    try:
        return value.startswith(("/", "~")) and Path(value).expanduser().exists()
    except (OSError, RuntimeError, ValueError):
        return False


_Span: TypeAlias = tuple[int, int]


class Redactor:
    """Redacts the values of ``environ`` whose names suggest a secret, and text in a known key format."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        values = {
            value.strip()
            for name, value in environ.items()
            if _SECRET_NAME.search(name) and len(value.strip()) >= _MIN_VALUE and not _is_path(value.strip())
        }
        self._values = sorted(values)

    def text(self, text: str) -> str:
        """Replace each secret in ``text`` with :data:`MASK`."""
        spans = sorted(self._secrets(text))
        if not spans:
            return text
        pieces: list[str] = []
        done = 0
        for start, end in spans:
            if start >= done:
                pieces += (text[done:start], MASK)
            done = max(done, end)
        return "".join([*pieces, text[done:]])

    def _secrets(self, text: str) -> Iterator[_Span]:
        """Where secrets are in ``text``. They may overlap."""
        for value in self._values:
            for start in _occurrences(value, text):
                yield start, start + len(value)
        if len(text) >= _MIN_KEY:
            for key_format in KEY_FORMATS:
                yield from _matches(_pattern(key_format), text, key_format.prefix)
            yield from _matches(_URL_LOGIN, text, "://")
            if "eyJ" in text:
                yield from _matches(_WEB_TOKEN, text)
        yield from _matches(_ASSIGNED, text)

    def json(self, value: object) -> object:
        """Redact every string in a JSON value, except field names."""
        match value:
            case str():
                return self.text(value)
            case dict():
                fields = cast("dict[str, object]", value)
                return {name: self.json(field) for name, field in fields.items()}
            case list():
                return [self.json(item) for item in cast("list[object]", value)]
            case _:
                return value


@cache
def _pattern(key_format: KeyFormat) -> re.Pattern[str]:
    """Compile on first use: compiling all formats takes longer than most imports."""
    return re.compile(re.escape(key_format.prefix) + key_format.rest, re.DOTALL)


def _occurrences(literal: str, text: str) -> Iterator[int]:
    """Where ``literal`` begins in ``text``."""
    at = 0
    while (found := _find(literal, text, at)) < len(text):
        yield found
        at = found + 1


def _find(literal: str, text: str, at: int) -> int:
    """Where ``literal`` begins in ``text``, not before ``at``; the end of the text if it does not."""
    while at < len(text):
        limit = at + 8 * _PART
        found = text.find(literal, at, limit + len(literal) - 1)
        if found >= 0:
            return found
        at = limit
    return len(text)


def _matches(pattern: re.Pattern[str], text: str, prefix: str = "") -> Iterator[_Span]:
    """Where ``pattern`` matches, which begins with ``prefix``. Searching for a literal is much faster than trying a
    regular expression, and most texts contain no prefix of a key."""
    at = 0
    while at < len(text):
        if prefix and (at := _find(prefix, text, at)) == len(text):
            return
        limit = at + _PART
        end = limit + _REACH
        found = pattern.search(text, at, end)
        if found is None or found.start() >= limit:
            at = limit
            continue
        if found.end() == end:  # it may be longer
            found = pattern.match(text, found.start()) or found
        yield _secret(found)
        at = found.end()


def _secret(found: re.Match[str]) -> _Span:
    """The part of a match that is secret: what follows its first group, if it has one."""
    return found.end(1) if found.re.groups else found.start(), found.end()
