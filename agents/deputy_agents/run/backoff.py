"""How long to wait before a model request is repeated, and how that is said."""

from collections.abc import Callable

from deputy_agents.domain.errors import ModelErrorKind
from deputy_agents.domain.settings import RetrySettings

_WORDS = {
    ModelErrorKind.SERVER: "service failed",
    ModelErrorKind.CONNECTION: "service not reached",
    ModelErrorKind.TIMEOUT: "no answer in time",
    ModelErrorKind.CUT_STREAM: "answer cut off",
}
"""What went wrong, where the name of the kind does not say it."""


def delay(settings: RetrySettings, attempt: int, retry_after: float | None, random: Callable[[], float]) -> float:
    """Seconds before ``attempt`` (2 is the first repeat): what the server asked for, else exponential with full
    jitter in its upper half. ``random`` gives numbers in [0, 1)."""
    if retry_after is not None:
        return retry_after + random() * settings.base
    ceiling = min(settings.cap, settings.base * 2.0 ** (attempt - 2))
    return ceiling * (0.5 + random() / 2)


def announcement(kind: ModelErrorKind, seconds: float, attempt: int, attempts: int) -> str:
    """``rate limited, retrying in 4 s (2/8)``."""
    shown = f"{seconds:.0f}" if seconds >= 1 else f"{seconds:.1f}"
    return f"{_WORDS.get(kind, kind.replace('_', ' '))}, retrying in {shown} s ({attempt}/{attempts})"
