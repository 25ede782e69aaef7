"""Handler of ``deputy/metrics``."""

from deputy_protocol.base import NoParams
from deputy_protocol.metrics import MetricsResult
from deputy_server.convert.metrics import metrics_to_wire
from deputy_server.lsp.connection import Connection


async def metrics(connection: Connection, params: NoParams) -> MetricsResult:
    del params
    runtime = connection.app.runtime
    return metrics_to_wire(runtime.metrics, running=runtime.slots.running, queued=runtime.slots.queued)
