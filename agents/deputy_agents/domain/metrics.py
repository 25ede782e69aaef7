"""Counters and measurements of one server process, for its operators."""

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

_MAX_MEASUREMENTS = 1024
"""Per name; older measurements are dropped."""


@dataclass(frozen=True, slots=True)
class Percentiles:
    count: int
    p50: float
    p95: float
    p99: float


@dataclass(slots=True)
class Metrics:
    """``counters`` count since the start of the process: ``spawns``, ``completed``, ``cancelled``, ``failures``,
    ``failures.<reason>``, ``reconciliations``."""

    counters: Counter[str] = field(default_factory=Counter[str])
    _measured: dict[str, deque[float]] = field(default_factory=dict[str, deque[float]])

    def measure(self, name: str, value: float) -> None:
        self._measured.setdefault(name, deque(maxlen=_MAX_MEASUREMENTS)).append(value)

    def percentiles(self) -> Mapping[str, Percentiles]:
        """The percentiles of the latest measurements, by name. Times are in seconds."""
        return {name: _percentiles(sorted(values)) for name, values in self._measured.items()}


def _percentiles(values: Sequence[float]) -> Percentiles:
    def at(share: float) -> float:
        return values[min(len(values) - 1, int(share * len(values)))]

    return Percentiles(len(values), at(0.50), at(0.95), at(0.99))
