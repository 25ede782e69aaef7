"""The wait before a model request is retried, and the status text that announces it."""

from collections.abc import Callable, Mapping

from deputy_agents.domain.errors import ModelErrorKind
from deputy_agents.domain.settings import RetrySettings

_DESCRIPTIONS = {
    ModelErrorKind.SERVER: "service failed",
    ModelErrorKind.UNREACHABLE: "service unreachable",
    ModelErrorKind.CONNECTION: "service unreachable",
    ModelErrorKind.TIMEOUT: "no answer in time",
    ModelErrorKind.CUT_STREAM: "answer cut off",
}
"""Descriptions of the failures whose kind is not readable as it is."""


_MAX_ATTEMPTS: Mapping[str, int] = {ModelErrorKind.UNREACHABLE: 2}
"""Attempts at a request that cannot be sent: the user must act, and each attempt may take the whole limit."""


def max_attempts(kind: str, configured: int) -> int:
    """How often a request is attempted that fails with an error of ``kind``."""
    return min(configured, _MAX_ATTEMPTS.get(kind, configured))


def delay(settings: RetrySettings, attempt: int, retry_after: float | None, random: Callable[[], float]) -> float:
    """Seconds to wait before ``attempt`` (2 is the first retry): ``retry_after`` with a small jitter, else exponential
    back-off with jitter in the upper half. ``random`` returns numbers in [0, 1)."""
    if retry_after is not None:
        return retry_after + random() * settings.base
    ceiling = min(settings.cap, settings.base * 2.0 ** (attempt - 2))
    return ceiling * (0.5 + random() / 2)


def status_detail(kind: ModelErrorKind, seconds: float, attempt: int, attempts: int) -> str:
    """For example ``rate limited, retrying in 4 s (2/8)``."""
    shown = f"{seconds:.0f}" if seconds >= 1 else f"{seconds:.1f}"
    return f"{_DESCRIPTIONS.get(kind, kind.replace('_', ' '))}, retrying in {shown} s ({attempt}/{attempts})"
