"""Handlers of ``deputy/definition/*``."""

from deputy_agents.definition.catalogue import Catalogue
from deputy_agents.session.builder import TOOL_NAMES
from deputy_protocol.base import NoParams
from deputy_protocol.definition import DefinitionListResult
from deputy_server.convert.definition import definition_to_wire
from deputy_server.lsp.connection import Connection


async def list_definitions(connection: Connection, params: NoParams) -> DefinitionListResult:
    """The definitions that a new session in the workspace folders would have."""
    del params
    settings = connection.setup.settings.current
    catalogue = Catalogue(await connection.folders.roots(), trusted=settings.trusted, known_tools=TOOL_NAMES)
    await catalogue.refresh()
    connection.window.report_problems(catalogue.problems)
    definitions = catalogue.definitions.values()
    return DefinitionListResult(
        definitions=tuple(definition_to_wire(definition, sorted(TOOL_NAMES)) for definition in definitions)
    )
