"""Handlers of ``deputy/model/*``."""

from deputy_protocol.base import NoParams
from deputy_protocol.model import ModelListResult
from deputy_server.convert.model import model_list_to_wire
from deputy_server.lsp.connection import Connection


async def list_models(connection: Connection, params: NoParams) -> ModelListResult:
    del params
    listing = await connection.setup.list_models()
    return model_list_to_wire(listing, connection.setup.settings.current.model)
