"""The client's editor as an :class:`~deputy_agents.ports.editor.Editor` for agents: requests of ``deputy/editor/*``."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from lsprotocol import types
from pydantic import BaseModel
from pygls.uris import to_fs_path
from pygls.workspace import PositionCodec

from deputy_agents.domain.errors import ToolError
from deputy_agents.domain.event import Location
from deputy_agents.ports.editor import Ability, Diagnostic, Severity, Spot, Symbol
from deputy_protocol import editor as wire
from deputy_protocol import methods
from deputy_protocol.base import to_wire
from deputy_protocol.contract import Request
from deputy_protocol.errors import InvalidParams
from deputy_protocol.place import Position
from deputy_protocol.validate import parse
from deputy_server.convert.uris import uri_of
from deputy_server.lsp.client import Client
from deputy_server.lsp.documents import Documents
from deputy_server.lsp.protocol import RpcProtocol
from deputy_server.rpc.errors import ClientError, ConnectionLost
from deputy_server.rpc.json import dig, items

TIMEOUT = 10.0
"""Seconds that the editor's language servers may take."""
DIAGNOSTICS_TIMEOUT = 2.0
"""Seconds that an editor may take to send the diagnostics that it shows."""
MAX_ITEMS = 2000
"""Items of a response that are read; of diagnostics, those of all files together."""
_INVALID = "The editor sent an invalid response."

M = TypeVar("M", bound=BaseModel)
P = TypeVar("P", bound=BaseModel)
R = TypeVar("R", bound=BaseModel)


class ClientEditor:
    """The editor of one client. Invalid items of a response are skipped. A response with only invalid items raises
    ToolError: it does not mean that there are none."""

    def __init__(self, protocol: RpcProtocol, documents: Documents, client: Client) -> None:
        self._protocol = protocol
        self._documents = documents
        self._codec = PositionCodec(types.PositionEncodingKind(client.position_encoding))
        can = {Ability.DIAGNOSTICS: client.diagnostics, Ability.NAVIGATION: client.navigation}
        self._abilities = frozenset(ability for ability, declared in can.items() if declared)

    @property
    def abilities(self) -> frozenset[Ability]:
        return self._abilities

    async def diagnostics(self, paths: Sequence[Path] | None, wait: float = 0) -> Sequence[Diagnostic]:
        uris = None if paths is None else tuple(map(self._uri, paths))
        params = wire.DiagnosticsParams(uris=uris, wait=wait or None)
        response = await self._request(methods.EDITOR_DIAGNOSTICS, params, DIAGNOSTICS_TIMEOUT + wait)
        return list(_diagnostics(response))

    async def definition(self, spot: Spot) -> Sequence[Location]:
        response = await self._request(methods.EDITOR_DEFINITION, self._spot(spot))
        return [place for one in _valid_items(wire.Spot, response) if (place := _location(one))]

    async def references(self, spot: Spot) -> Sequence[Location]:
        response = await self._request(methods.EDITOR_REFERENCES, self._spot(spot))
        return [place for one in _valid_items(wire.Spot, response) if (place := _location(one))]

    async def hover(self, spot: Spot) -> str:
        response = await self._request(methods.EDITOR_HOVER, self._spot(spot))
        text = dig(response, "text")
        if text is not None and not isinstance(text, str):
            raise ToolError(_INVALID)
        return text or ""

    async def symbols(self, path: Path) -> Sequence[Symbol]:
        found = await self._symbols(wire.SymbolsParams(uri=self._uri(path)))
        own = (str(path), to_fs_path(self._uri(path)))
        return [one for one in found if one.location.path in own]

    async def workspace_symbols(self, query: str) -> Sequence[Symbol]:
        return await self._symbols(wire.SymbolsParams(query=query))

    async def _symbols(self, params: wire.SymbolsParams) -> Sequence[Symbol]:
        response = await self._request(methods.EDITOR_SYMBOLS, params)
        return [
            Symbol(one.name, place, _kind(one.kind), one.container or "")
            for one in _valid_items(wire.Symbol, response)
            if (place := _location(one))
        ]

    def _spot(self, spot: Spot) -> wire.SpotParams:
        character = self._codec.client_num_units(spot.before)
        return wire.SpotParams(uri=self._uri(spot.path), position=Position(line=spot.line - 1, character=character))

    def _uri(self, path: Path) -> str:
        """The editor's URI of the file, which may be that of a symlink."""
        document = self._documents.at(path)
        return uri_of(str(path)) if document is None else document.uri

    async def _request(self, request: Request[P, R], params: P, timeout: float = TIMEOUT) -> object:
        try:
            return await self._protocol.request(request.name, to_wire(params), timeout=timeout)
        except TimeoutError:
            raise ToolError(f"The editor did not respond within {timeout:g} s.") from None
        except ConnectionLost:
            raise ToolError("The editor has disconnected.") from None
        except ClientError as error:
            raise ToolError(f"The editor returned an error: {error}") from None


def _items(response: object) -> Sequence[object]:
    if not isinstance(dig(response, "items"), list):
        raise ToolError(_INVALID)
    return items(dig(response, "items"))[:MAX_ITEMS]


def _valid_items(kind: type[M], response: object) -> Sequence[M]:
    """The items of ``response`` that validate as ``kind``."""
    return _valid(kind, _items(response))


def _valid(kind: type[M], found: Sequence[object]) -> Sequence[M]:
    valid: list[M] = []
    for raw in found:
        with suppress(InvalidParams):
            valid.append(parse(kind, raw))
    if found and not valid:
        raise ToolError(_INVALID)
    return valid


def _diagnostics(response: object) -> Iterator[Diagnostic]:
    left = MAX_ITEMS
    given = _items(response)
    files = [file for file in given if isinstance(dig(file, "diagnostics"), list)]
    if given and not files:
        raise ToolError(_INVALID)
    for file in files:
        path = _path(dig(file, "uri"))
        raw = items(dig(file, "diagnostics"))[:left]
        left -= len(raw)
        for one in _valid(wire.Diagnostic, raw):
            if path:
                yield _diagnostic(path, one)


def _diagnostic(path: Path, found: wire.Diagnostic) -> Diagnostic:
    known = found.severity in list(Severity)
    source = " ".join(str(part) for part in (found.source, found.code) if part is not None)
    severity = Severity(found.severity) if known and found.severity else Severity.INFORMATION
    return Diagnostic(path, found.range.start.line + 1, severity, found.message, source)


def _location(spot: wire.Spot) -> Location | None:
    path = _path(spot.uri)
    return Location(str(path), spot.range.start.line + 1, spot.range.end.line + 1) if path else None


def _kind(number: int | None) -> str:
    try:
        return types.SymbolKind(number or 0).name.lower()
    except ValueError:
        return ""


def _path(uri: object) -> Path | None:
    """The path of a ``file:`` URI."""
    path = to_fs_path(uri) if isinstance(uri, str) and uri.startswith("file:") else None
    return Path(path) if path and "\0" not in path and Path(path).is_absolute() else None
