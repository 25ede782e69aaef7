"""Counters and percentiles of the server process."""

from collections.abc import Mapping

from deputy_protocol.base import Count, Number, Wire


class Percentiles(Wire):
    """A distribution."""

    count: Count
    """How many were measured."""
    p50: Number
    p95: Number
    p99: Number


class MetricsResult(Wire):
    """Since the start of the process."""

    counters: Mapping[str, Count]
    """Events by name, such as `spawns` and `failures.timed_out`."""
    gauges: Mapping[str, Count]
    """Present values by name, such as `queue.depth`."""
    percentiles: Mapping[str, Percentiles]
    """Distributions by name, such as `queue.wait`; times are in seconds."""
