"""Handlers of what belongs to no session: ``deputy/definition/list`` and ``deputy/metrics``."""

from deputy_agents.definition.catalogue import Catalogue
from deputy_agents.session.builder import TOOL_NAMES
from deputy_protocol.base import NoParams
from deputy_protocol.definition import DefinitionListResult
from deputy_protocol.metrics import MetricsResult
from deputy_server.convert.definition import definition_info
from deputy_server.convert.metrics import metrics_result
from deputy_server.lsp.connection import Connection


async def list_definitions(connection: Connection, params: NoParams) -> DefinitionListResult:
    """The definitions of the workspace folders, as a session there would have them now."""
    del params
    settings = connection.app.runtime.settings
    catalogue = Catalogue(await connection.roots(), trusted=settings.trusted, known_tools=TOOL_NAMES)
    await catalogue.refresh()
    connection.tell_problems(catalogue.problems)
    definitions = catalogue.definitions.values()
    return DefinitionListResult(
        definitions=tuple(definition_info(definition, sorted(TOOL_NAMES)) for definition in definitions)
    )


async def metrics(connection: Connection, params: NoParams) -> MetricsResult:
    del params
    runtime = connection.app.runtime
    return metrics_result(runtime.metrics, running=runtime.slots.running, queued=runtime.slots.queued)
