"""The language server: what pygls keeps of a client, and Deputy's own connection beside it."""

from cattrs import Converter
from lsprotocol import types
from lsprotocol.converters import get_converter
from pygls.lsp.server import LanguageServer
from pygls.protocol import lsp_method

from deputy_protocol import PROTOCOL_VERSION
from deputy_protocol.base import to_wire
from deputy_protocol.capabilities import ModelInfo, ServerCapabilities
from deputy_protocol.validate import InvalidParams
from deputy_server.app import App
from deputy_server.lsp.client import read_client
from deputy_server.lsp.connection import Connection
from deputy_server.lsp.documents import Documents
from deputy_server.lsp.json import JsonObject, dig
from deputy_server.lsp.rpc import RpcProtocol
from deputy_server.lsp.wire import COMMANDS, REQUESTS, SENT, bind_all
from deputy_server.version import VERSION

_WARNING = 2


class DeputyProtocol(RpcProtocol):
    """The protocol of one client, from ``initialize`` on."""

    app: App
    connection: Connection | None = None

    def initialize(self, params: object) -> JsonObject:
        client = read_client(params)
        self.app.configure(client.options, at="initializationOptions")
        documents = self._workspace = Documents(client.folders, client.position_encoding)
        self.connection = Connection(self.app, self, client, documents, self.tasks)
        self.methods = bind_all(self.connection)
        return {
            "capabilities": self._capabilities(client.position_encoding),
            "serverInfo": {"name": self.server_info.name, "version": self.server_info.version},
        }

    def _capabilities(self, position_encoding: str) -> JsonObject:
        deputy = ServerCapabilities(
            protocol_version=PROTOCOL_VERSION,
            methods=(*REQUESTS, *SENT),
            definitions=self.app.definitions,
            models=tuple(ModelInfo(id=name, name=name) for name in self.app.model_names),
        )
        return {
            "positionEncoding": position_encoding,
            "textDocumentSync": {"openClose": True, "change": types.TextDocumentSyncKind.Incremental.value},
            "executeCommandProvider": {"commands": list(COMMANDS)},
            "workspace": {"workspaceFolders": {"supported": True, "changeNotifications": True}},
            "experimental": {"deputy": to_wire(deputy)},
        }

    @lsp_method(types.TEXT_DOCUMENT_DID_CHANGE)
    def lsp_text_document__did_change(self, params: types.DidChangeTextDocumentParams) -> None:
        if self.connection is not None:
            self.connection.documents.change(params)


class DeputyServer(LanguageServer):
    """A pygls server of one connection."""

    protocol: DeputyProtocol

    def __init__(self, app: App) -> None:
        super().__init__("deputy", VERSION, protocol_cls=DeputyProtocol, converter_factory=_converter)
        self.protocol.app = app
        self.feature(types.WORKSPACE_DID_CHANGE_CONFIGURATION)(self._configure)
        self.feature(types.WINDOW_WORK_DONE_PROGRESS_CANCEL)(self._cancel_progress)

    def _configure(self, params: types.DidChangeConfigurationParams) -> None:
        connection = self.protocol.connection
        settings = dig(params.settings, "deputy")
        if connection is None or settings is None:
            return
        try:
            connection.app.configure(settings, at="deputy")
        except InvalidParams as error:
            connection.show(f"Deputy keeps its settings as they were: {error}", _WARNING)

    def _cancel_progress(self, params: types.WorkDoneProgressCancelParams) -> None:
        if self.protocol.connection is not None:
            self.protocol.connection.tokens.cancelled(params.token)


def _converter() -> Converter:
    """lsprotocol's converter without its detailed reports of what does not fit: they double the time to the first
    message, and such messages are dropped whatever the detail."""
    return get_converter(Converter(detailed_validation=False))
