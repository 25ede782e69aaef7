"""Counters and percentiles."""

from deputy_agents.domain.metrics import Metrics
from deputy_protocol import metrics as wire_metrics


def metrics_to_wire(counted: Metrics, *, running: int, queued: int) -> wire_metrics.MetricsResult:
    return wire_metrics.MetricsResult(
        counters=dict(counted.counters),
        gauges={"running": running, "queue.depth": queued},
        percentiles={
            name: wire_metrics.Percentiles(count=found.count, p50=found.p50, p95=found.p95, p99=found.p99)
            for name, found in counted.percentiles().items()
        },
    )
