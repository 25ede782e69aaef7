"""The language server: what pygls keeps of a client, and Deputy's own connection beside it."""

import hmac
import os
from collections.abc import Generator
from functools import cache, partial
from typing import TYPE_CHECKING, Any, cast

import anyio
from cattrs import Converter
from lsprotocol import types
from lsprotocol.converters import get_converter
from pygls.lsp.server import LanguageServer
from pygls.protocol import lsp_method
from pygls.server import JsonRPCServer

from deputy_agents.domain.errors import NotAllowed
from deputy_protocol import PROTOCOL_VERSION, methods
from deputy_protocol.errors import InvalidParams
from deputy_server.lazy_app import Host
from deputy_server.lsp.client import Client, read_client
from deputy_server.lsp.definition_names import definition_names
from deputy_server.lsp.documents import Document, Documents
from deputy_server.lsp.os_process import is_alive
from deputy_server.lsp.protocol import Greeting, RequestHandler, RpcProtocol
from deputy_server.rpc.json import JsonObject, dig, is_object
from deputy_server.version import VERSION

if TYPE_CHECKING:
    from deputy_protocol.settings import Settings
    from deputy_server.lsp.connection import Connection

_OFFLINE = "offline"

LSP_REQUESTS = (
    types.TEXT_DOCUMENT_CODE_ACTION,
    types.TEXT_DOCUMENT_CODE_LENS,
    types.TEXT_DOCUMENT_DOCUMENT_LINK,
    types.WORKSPACE_EXECUTE_COMMAND,
)
"""The requests of LSP itself that Deputy answers."""


class DeputyProtocol(RpcProtocol):
    """The protocol of one client, from ``initialize`` on. It answers that by itself; what serves the other requests
    is loaded right after."""

    host: Host
    documents: Documents
    editor: int | None = None
    """The editor's process, when it told one that is there."""
    connection: "Connection | None" = None
    settings: "Settings | None" = None
    token: str | None = None
    """What the client must know, where anyone on this machine can connect."""

    def __init__(self, server: JsonRPCServer, converter: Converter) -> None:
        super().__init__(server, converter)
        self._opened = anyio.Event()

    def initialize(self, params: object) -> Greeting:
        self._check_token(params)
        client = read_client(params)
        pid = client.process_id
        # A number that means nothing here, as the editor's does inside a container, is not watched.
        self.editor = pid if pid is not None and is_alive(pid) else None
        if (options := _without_token(client.options)) is not None:
            self.settings = _settings(options, "initializationOptions")
        self.trace = client.trace
        self.documents = self._workspace = Documents(client.folders, client.position_encoding)
        served = (*(request.name for request in methods.REQUESTS), *LSP_REQUESTS)
        self.methods = {name: self._when_open(name) for name in served}
        self.tasks.start_soon(self._open, client)
        return lambda: self._welcome(client)

    def _check_token(self, params: object) -> None:
        """Raises NotAllowed: the client does not know the token; its connection ends then."""
        given = dig(params, "initializationOptions", "token")
        if self.token is not None and not (isinstance(given, str) and is_token(given, self.token)):
            self.exit_code = 1
            raise NotAllowed(
                "This server wants its token in initializationOptions.token: that it was given, or else printed."
            )

    async def _welcome(self, client: Client) -> JsonObject:
        trusted = self.settings is None or self.settings.trusted
        definitions = await definition_names([folder.uri for folder in client.folders], trusted=trusted)
        return {
            "capabilities": self._capabilities(client.position_encoding, definitions),
            "serverInfo": {"name": self.server_info.name, "version": self.server_info.version},
        }

    async def _open(self, client: Client) -> None:
        await self.ready.wait()
        app = await self.host.app()
        from deputy_protocol.settings import Settings
        from deputy_server.lsp.connection import Connection
        from deputy_server.lsp.routes import bind_all

        # A client that says nothing takes the server as it is.
        if self.settings is not None or not app.configured:
            app.configure(self.settings or Settings())
        self.connection = Connection(app, self, client, self.documents, self.tasks)
        self.methods = bind_all(self.connection)
        self._opened.set()

    def _when_open(self, method: str) -> RequestHandler:
        async def serve(params: object) -> object:
            await self._opened.wait()
            return await self.methods[method](params)

        return serve

    def configure(self, raw: object) -> None:
        """Takes changed settings; those that do not validate change nothing, and the user is told."""
        try:
            self.settings = _settings(raw, "deputy")
        except InvalidParams as error:
            text = f"Deputy keeps its settings as they were: {error}"
            self.notify(types.WINDOW_SHOW_MESSAGE, {"type": types.MessageType.Warning.value, "message": text})
        else:
            if self.connection is not None:
                self.connection.app.configure(self.settings)

    def _capabilities(self, position_encoding: str, definitions: tuple[str, ...]) -> JsonObject:
        named = self.settings.model if self.settings else None
        models = dict.fromkeys(name for name in (named, os.environ.get("DEPUTY_MODEL"), _OFFLINE) if name)
        deputy = {
            "protocolVersion": PROTOCOL_VERSION,
            "methods": [method.name for method in methods.METHODS if not method.planned],
            "definitions": definitions,
            "models": [{"id": name, "name": name} for name in models],
        }
        return {
            "positionEncoding": position_encoding,
            "notebookDocumentSync": {"notebookSelector": [{"notebook": {"scheme": "file"}}]},
            "textDocumentSync": {"openClose": True, "change": types.TextDocumentSyncKind.Incremental.value},
            "codeActionProvider": {"codeActionKinds": ["quickfix", "refactor"]},
            "codeLensProvider": {},
            "documentLinkProvider": {},
            "executeCommandProvider": {
                "commands": [command.name for command in methods.COMMANDS if not command.planned]
            },
            "workspace": {"workspaceFolders": {"supported": True, "changeNotifications": True}},
            "experimental": {"deputy": deputy},
        }

    @lsp_method(types.TEXT_DOCUMENT_DID_CHANGE)
    def lsp_text_document__did_change(
        self, params: types.DidChangeTextDocumentParams
    ) -> Generator[Any, Any, None]:  # pygls' features are generators of further ones; here there are none
        document = self.documents.change(params)
        if document is not None and self.connection is not None:
            self.connection.text_changed(document)
        yield from ()


class DeputyServer(LanguageServer):
    """A pygls server of one connection."""

    def __init__(self, host: Host) -> None:
        super().__init__(  # pyright: ignore[reportUnknownMemberType]
            "deputy", VERSION, protocol_cls=DeputyProtocol, converter_factory=_converter
        )
        self.rpc = cast(DeputyProtocol, self.protocol)
        self.rpc.host = host
        self.feature(types.WORKSPACE_DID_CHANGE_CONFIGURATION)(_configure)
        self.feature(types.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS)(_move)
        self.feature(types.TEXT_DOCUMENT_DID_OPEN)(_find_document)
        self.feature(types.TEXT_DOCUMENT_DID_CLOSE)(_closed)
        self.feature(types.NOTEBOOK_DOCUMENT_DID_OPEN)(_find_notebook)
        self.feature(types.WINDOW_WORK_DONE_PROGRESS_CANCEL)(_cancel_progress)


def _configure(ls: DeputyServer, params: types.DidChangeConfigurationParams) -> None:
    settings = dig(params.settings, "deputy")
    if settings is not None:
        ls.rpc.configure(settings)


def _move(ls: DeputyServer, _params: types.DidChangeWorkspaceFoldersParams) -> None:
    if ls.rpc.connection is not None:
        ls.rpc.background(ls.rpc.connection.move)


def _find_document(ls: DeputyServer, params: types.DidOpenTextDocumentParams) -> None:
    document = ls.rpc.documents.named(params.text_document.uri)
    if document is not None:
        ls.rpc.background(partial(_found, ls, document))


async def _found(ls: DeputyServer, document: Document) -> None:
    await document.find()
    if ls.rpc.connection is not None:
        ls.rpc.connection.text_changed(document)


def _closed(ls: DeputyServer, _params: types.DidCloseTextDocumentParams) -> None:
    """What was not saved is gone: findings are about the text on disk again."""
    if ls.rpc.connection is not None:
        ls.rpc.connection.findings.look_again_soon(ls.rpc.tasks)


def _find_notebook(ls: DeputyServer, params: types.DidOpenNotebookDocumentParams) -> None:
    ls.rpc.background(partial(ls.rpc.documents.find_notebook, params.notebook_document.uri))


def _cancel_progress(ls: DeputyServer, params: types.WorkDoneProgressCancelParams) -> None:
    if ls.rpc.connection is not None:
        ls.rpc.connection.tokens.cancelled(params.token)


def _without_token(options: object) -> object:
    """The settings in ``initializationOptions``; ``None`` where there are none."""
    if is_object(options):
        return {name: value for name, value in options.items() if name != "token"} or None
    return options


def is_token(given: str, token: str) -> bool:
    """Whether they are the same; how long it takes tells nothing."""
    return hmac.compare_digest(given.encode("utf-8", "replace"), token.encode())


def _settings(raw: object, at: str) -> "Settings":
    """Settings as a client sent them, validated. Their types are loaded when there are some."""
    from deputy_protocol.settings import Settings
    from deputy_protocol.validate import parse

    return parse(Settings, raw, at=at)


@cache
def _converter() -> Converter:
    """lsprotocol's converter without its detailed reports of what does not fit: they double the time to the first
    message, and such messages are dropped whatever the detail."""
    return get_converter(Converter(detailed_validation=False))
