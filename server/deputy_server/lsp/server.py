"""The language server of one connection: ``initialize``, and the notifications that pygls handles."""

import hmac
import os
from collections.abc import Callable, Generator, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any, cast

import anyio
from cattrs import Converter
from lsprotocol import types
from lsprotocol.converters import get_converter
from pygls.lsp.server import LanguageServer
from pygls.protocol import lsp_method
from pygls.server import JsonRPCServer

from deputy_agents.domain.errors import DeputyError
from deputy_protocol import PROTOCOL_VERSION, command_table, methods
from deputy_protocol.errors import InvalidParams
from deputy_protocol.version import VERSION
from deputy_server.lazy_app import LazyApp
from deputy_server.lsp.client import Client, read_client
from deputy_server.lsp.definition_names import definition_names
from deputy_server.lsp.documents import Document, Documents
from deputy_server.lsp.os_process import is_alive
from deputy_server.lsp.protocol import Phase, RpcProtocol, Welcome
from deputy_server.rpc.endpoint import RequestHandler
from deputy_server.rpc.json import JsonObject, dig, is_object
from deputy_server.rpc.lifecycle import CANCEL_GRACE

if TYPE_CHECKING:
    from deputy_agents.session.session import Session
    from deputy_protocol.settings import Settings
    from deputy_server.lsp.connection import Connection

_OFFLINE = "offline"

_MAX_REPORTED = 10
"""Problems of settings that are shown at a time."""
COMPARE_INTERVAL = 0.3
"""Seconds between comparisons of a document that changes with its file."""

LSP_REQUESTS = (
    types.TEXT_DOCUMENT_CODE_ACTION,
    types.TEXT_DOCUMENT_CODE_LENS,
    types.TEXT_DOCUMENT_HOVER,
    types.TEXT_DOCUMENT_DOCUMENT_LINK,
    types.WORKSPACE_EXECUTE_COMMAND,
)
"""The requests of LSP itself that Deputy answers."""


class DeputyProtocol(RpcProtocol):
    """The protocol of one client. It answers ``initialize`` itself, and loads the handlers of other requests right
    after."""

    lazy_app: LazyApp
    documents: Documents
    editor: int | None = None
    """The id of the editor's process, if the client sent that of a running process."""
    connection: "Connection | None" = None
    settings: "Settings | None" = None
    admit: "Callable[[object], None] | None" = None
    """Takes the token that the client sent, and raises if the client must not connect. ``None`` where nobody else can
    connect."""

    def __init__(self, server: JsonRPCServer, converter: Converter) -> None:
        super().__init__(server, converter)
        self._opened = anyio.Event()
        self._raw_settings: object = None
        self._reported: set[str] = set()
        """Problems of settings that the user has seen."""

    def initialize(self, params: object) -> Welcome:
        self._check_token(params)
        client = read_client(params)
        pid = client.process_id
        # The id of a process that does not run here, such as an editor outside this container, is not watched.
        self.editor = pid if pid is not None and is_alive(pid) else None
        if (options := _without_token(client.options)) is not None:
            self.settings = _settings(options, "initializationOptions")
            self._raw_settings = options
        self.trace = client.trace
        self.documents = self._workspace = Documents(client.folders, client.position_encoding)
        served = (*(request.name for request in methods.REQUESTS), *LSP_REQUESTS)
        self.methods = {name: self._when_open(name) for name in served}
        self.tasks.start_soon(self._open, client)
        return lambda: self._initialize_result(client)

    def _check_token(self, params: object) -> None:
        """Raises, and ends the connection, if the client must not connect."""
        if self.admit is None:
            return
        try:
            self.admit(dig(params, "initializationOptions", "token"))
        except DeputyError:
            self.endpoint.exit_code = 1
            raise

    async def _initialize_result(self, client: Client) -> JsonObject:
        trusted = self.settings is None or self.settings.trusted
        definitions = await definition_names([folder.uri for folder in client.folders], trusted=trusted)
        return {
            "capabilities": self._capabilities(client.position_encoding, definitions),
            "serverInfo": {"name": self.server_info.name, "version": self.server_info.version},
        }

    async def _open(self, client: Client) -> None:
        await self.ready.wait()
        app = await self.lazy_app.get()
        from deputy_server.lsp.connection import Connection
        from deputy_server.lsp.routes import bind_all

        self.connection = Connection(app, app.connect(self.settings), self, client, self.documents, self.tasks)
        self.connection.review_marks.set_hints(self._wants_hints)
        self.methods = bind_all(self.connection)
        self._opened.set()
        self._report_unknown(self._raw_settings, "initializationOptions")
        self._report(self.connection.setup.unknown)

    def _when_open(self, method: str) -> RequestHandler:
        async def serve(params: object) -> object:
            await self._opened.wait()
            return await self.methods[method](params)

        return serve

    def configure(self, raw: object) -> None:
        """Apply changed settings. Invalid settings change nothing, and the user is notified."""
        try:
            self.settings = _settings(raw, "deputy")
        except InvalidParams as error:
            text = f"Invalid Deputy settings; the previous settings stay in effect. {error}"
            self.notify(types.WINDOW_SHOW_MESSAGE, {"type": types.MessageType.Warning.value, "message": text})
        else:
            if self.connection is not None:
                self.connection.setup.configure(self.settings)
                self.connection.review_marks.set_hints(self._wants_hints)
                self._report_unknown(raw, "deputy")

    def _report_unknown(self, raw: object, at: str) -> None:
        """Tell the user which names in the settings of the client are no settings."""
        if raw is not None:
            from deputy_server.setting_names import unknown_settings  # imported only when there are settings

            self._report(unknown_settings(raw, at))

    def _report(self, problems: Sequence[str]) -> None:
        for problem in problems[:_MAX_REPORTED]:
            if problem not in self._reported:
                self._reported.add(problem)
                params = {"type": types.MessageType.Warning.value, "message": f"Deputy settings: {problem}"}
                self.notify(types.WINDOW_SHOW_MESSAGE, params)

    @property
    def _wants_hints(self) -> bool:
        return self.settings is not None and self.settings.review.hints

    def _capabilities(self, position_encoding: str, definitions: tuple[str, ...]) -> JsonObject:
        named = self.settings.model if self.settings else None
        models = dict.fromkeys(name for name in (named, os.environ.get("DEPUTY_MODEL"), _OFFLINE) if name)
        deputy = {
            "protocolVersion": PROTOCOL_VERSION,
            "methods": [method.name for method in methods.METHODS],
            "definitions": definitions,
            "models": [{"id": name, "name": name} for name in models],
        }
        return {
            "positionEncoding": position_encoding,
            "notebookDocumentSync": {"notebookSelector": [{"notebook": {"scheme": "file"}}]},
            "textDocumentSync": {
                "openClose": True,
                "change": types.TextDocumentSyncKind.Incremental.value,
                "save": {"includeText": False},
            },
            "codeActionProvider": {"codeActionKinds": ["quickfix", "refactor"]},
            "codeLensProvider": {},
            "hoverProvider": True,
            "documentLinkProvider": {},
            "executeCommandProvider": {"commands": [command.name for command in command_table.COMMANDS]},
            "workspace": {"workspaceFolders": {"supported": True, "changeNotifications": True}},
            "experimental": {"deputy": deputy},
        }

    async def close(self) -> None:
        """Close the connection because the server stops: cancel and answer open requests, which ends their turns."""
        self.phase = Phase.SHUT_DOWN
        await self.endpoint.cancel_open_requests(grace=CANCEL_GRACE)
        if self.connection is not None:
            self.connection.close()
        self.endpoint.disconnect()

    async def client_disconnected(self) -> "Sequence[Session]":
        """Release what belongs to the client. The turns that it started continue. Returns the sessions that it was
        subscribed to."""
        sessions: Sequence[Session] = () if self.connection is None else self.connection.leave()
        self.endpoint.disconnect()
        await self.endpoint.cancel_open_requests(grace=CANCEL_GRACE)
        return sessions

    @lsp_method(types.TEXT_DOCUMENT_DID_CHANGE)
    def lsp_text_document__did_change(
        self, params: types.DidChangeTextDocumentParams
    ) -> Generator[Any, Any, None]:  # pygls' features are generators of further features
        document = self.documents.change(params)
        if document is not None and document.saved.compare_soon():
            self.background(partial(_compare, document))
        if document is not None and self.connection is not None:
            self.connection.text_changed(document)
        yield from ()


class DeputyServer(LanguageServer):
    """A pygls server of one connection."""

    def __init__(self, lazy_app: LazyApp) -> None:
        super().__init__(  # pyright: ignore[reportUnknownMemberType]
            "deputy", VERSION, protocol_cls=DeputyProtocol, converter_factory=_converter
        )
        self.rpc = cast(DeputyProtocol, self.protocol)
        self.rpc.lazy_app = lazy_app
        self.feature(types.WORKSPACE_DID_CHANGE_CONFIGURATION)(_configure)
        self.feature(types.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS)(_move)
        self.feature(types.TEXT_DOCUMENT_DID_OPEN)(_resolve_document)
        self.feature(types.TEXT_DOCUMENT_DID_SAVE)(_saved)
        self.feature(types.TEXT_DOCUMENT_DID_CLOSE)(_closed)
        self.feature(types.NOTEBOOK_DOCUMENT_DID_OPEN)(_resolve_notebook)
        self.feature(types.WINDOW_WORK_DONE_PROGRESS_CANCEL)(_cancel_progress)


async def _compare(document: Document) -> None:
    """Compare a document with the disk after a burst of changes: the editor may have loaded a changed file."""
    await anyio.sleep(COMPARE_INTERVAL)
    document.saved.comparing = False
    await document.compare_with_disk()


def _configure(ls: DeputyServer, params: types.DidChangeConfigurationParams) -> None:
    settings = dig(params.settings, "deputy")
    if settings is not None:
        ls.rpc.configure(settings)


def _move(ls: DeputyServer, _params: types.DidChangeWorkspaceFoldersParams) -> None:
    if ls.rpc.connection is not None:
        ls.rpc.background(ls.rpc.connection.move)


def _resolve_document(ls: DeputyServer, params: types.DidOpenTextDocumentParams) -> None:
    document = ls.rpc.documents.named(params.text_document.uri)
    if document is not None:
        ls.rpc.background(partial(_found, ls, document))


async def _found(ls: DeputyServer, document: Document) -> None:
    await document.resolve()
    await document.compare_with_disk()
    if ls.rpc.connection is not None:
        ls.rpc.connection.text_changed(document)


def _saved(ls: DeputyServer, params: types.DidSaveTextDocumentParams) -> None:
    document = ls.rpc.documents.named(params.text_document.uri)
    if document is not None:
        ls.rpc.background(partial(document.saved.saved, document.source))


def _closed(ls: DeputyServer, _params: types.DidCloseTextDocumentParams) -> None:
    """Unsaved changes are discarded, so findings refer to the text on disk again."""
    if ls.rpc.connection is not None:
        ls.rpc.connection.findings.recheck_soon()


def _resolve_notebook(ls: DeputyServer, params: types.DidOpenNotebookDocumentParams) -> None:
    ls.rpc.background(partial(ls.rpc.documents.resolve_notebook, params.notebook_document.uri))


def _cancel_progress(ls: DeputyServer, params: types.WorkDoneProgressCancelParams) -> None:
    if ls.rpc.connection is not None:
        ls.rpc.connection.subscriptions.tokens.cancel(params.token)


def _without_token(options: object) -> object:
    """Return the settings in ``initializationOptions``, or ``None`` if there are none."""
    if is_object(options):
        return {name: value for name, value in options.items() if name != "token"} or None
    return options


def is_token(given: str, token: str) -> bool:
    """Whether both are equal. The time that the comparison takes reveals nothing."""
    return hmac.compare_digest(given.encode("utf-8", "replace"), token.encode())


def _settings(raw: object, at: str) -> "Settings":
    """Validate settings from a client. Their types are imported only when there are settings."""
    from deputy_protocol.settings import Settings
    from deputy_protocol.validate import parse

    return parse(Settings, raw, at=at)


@cache
def _converter() -> Converter:
    """Create lsprotocol's converter without detailed validation errors: they double the time to the first message, and
    invalid messages are dropped anyway."""
    return get_converter(Converter(detailed_validation=False))
