"""Counters of a process, for people who run it."""

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

KEPT = 1024
"""The latest measurements of each distribution; older ones are dropped."""


@dataclass(frozen=True, slots=True)
class Percentiles:
    count: int
    p50: float
    p95: float
    p99: float


@dataclass(slots=True)
class Metrics:
    """``counters`` since the start: ``spawns``, ``completed``, ``cancelled``, ``failures``, ``failures.<reason>``,
    ``reconciliations``."""

    counters: Counter[str] = field(default_factory=Counter[str])
    _measured: dict[str, deque[float]] = field(default_factory=dict[str, deque[float]])

    def measure(self, name: str, value: float) -> None:
        self._measured.setdefault(name, deque(maxlen=KEPT)).append(value)

    def percentiles(self) -> Mapping[str, Percentiles]:
        """Of the latest measurements; times are in seconds."""
        return {name: _percentiles(sorted(values)) for name, values in self._measured.items()}


def _percentiles(values: Sequence[float]) -> Percentiles:
    def at(share: float) -> float:
        return values[min(len(values) - 1, int(share * len(values)))]

    return Percentiles(len(values), at(0.50), at(0.95), at(0.99))
