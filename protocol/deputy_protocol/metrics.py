"""Counters and percentiles of the server process."""

from collections.abc import Mapping

from deputy_protocol.base import Count, Number, Wire


class Percentiles(Wire):
    """A distribution."""

    count: Count
    """Number of measurements."""
    p50: Number
    p95: Number
    p99: Number


class MetricsResult(Wire):
    """Everything since the process started."""

    counters: Mapping[str, Count]
    """Number of occurrences by name, such as `spawns` and `failures.timed_out`."""
    gauges: Mapping[str, Count]
    """Current values by name, such as `queue.depth`."""
    percentiles: Mapping[str, Percentiles]
    """Distributions by name, such as `queue.wait`. Times are in seconds."""
