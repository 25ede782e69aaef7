"""What a client's editor knows of the code, as the agents' :class:`~deputy_agents.ports.editor.Editor`."""

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
"""Seconds that language servers may take to find something."""
DIAGNOSTICS_TIMEOUT = 2.0
"""Seconds that an editor may take to tell what it knows already."""
MAX_ITEMS = 2000
"""Items of one answer that are looked at; of diagnostics, those of all files together."""
_UNFIT = "The editor gave an answer that is none; what it knows is not known here."

M = TypeVar("M", bound=BaseModel)
P = TypeVar("P", bound=BaseModel)
R = TypeVar("R", bound=BaseModel)


class ClientEditor:
    """Asks one client. What it answers is taken item by item: one that does not fit costs no other. An answer in which
    nothing fits is none: that there is nothing is another thing than not to know."""

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
        answer = await self._ask(methods.EDITOR_DIAGNOSTICS, params, DIAGNOSTICS_TIMEOUT + wait)
        return list(_diagnostics(answer))

    async def definition(self, spot: Spot) -> Sequence[Location]:
        answer = await self._ask(methods.EDITOR_DEFINITION, self._spot(spot))
        return [place for one in _each(wire.Spot, answer) if (place := _location(one))]

    async def references(self, spot: Spot) -> Sequence[Location]:
        answer = await self._ask(methods.EDITOR_REFERENCES, self._spot(spot))
        return [place for one in _each(wire.Spot, answer) if (place := _location(one))]

    async def hover(self, spot: Spot) -> str:
        answer = await self._ask(methods.EDITOR_HOVER, self._spot(spot))
        text = dig(answer, "text")
        if text is not None and not isinstance(text, str):
            raise ToolError(_UNFIT)
        return text or ""

    async def symbols(self, path: Path) -> Sequence[Symbol]:
        found = await self._symbols(wire.SymbolsParams(uri=self._uri(path)))
        own = (str(path), to_fs_path(self._uri(path)))
        return [one for one in found if one.location.path in own]

    async def workspace_symbols(self, query: str) -> Sequence[Symbol]:
        return await self._symbols(wire.SymbolsParams(query=query))

    async def _symbols(self, params: wire.SymbolsParams) -> Sequence[Symbol]:
        answer = await self._ask(methods.EDITOR_SYMBOLS, params)
        return [
            Symbol(one.name, place, _kind(one.kind), one.container or "")
            for one in _each(wire.Symbol, answer)
            if (place := _location(one))
        ]

    def _spot(self, spot: Spot) -> wire.SpotParams:
        character = self._codec.client_num_units(spot.before)
        return wire.SpotParams(uri=self._uri(spot.path), position=Position(line=spot.line - 1, character=character))

    def _uri(self, path: Path) -> str:
        """What the editor calls the file, which it may know by a link."""
        document = self._documents.at(path)
        return uri_of(str(path)) if document is None else document.uri

    async def _ask(self, request: Request[P, R], params: P, timeout: float = TIMEOUT) -> object:
        try:
            return await self._protocol.request(request.name, to_wire(params), timeout=timeout)
        except TimeoutError:
            raise ToolError(f"The editor gave no answer within {timeout:g} s.") from None
        except ConnectionLost:
            raise ToolError("The editor is gone.") from None
        except ClientError as error:
            raise ToolError(f"The editor could not tell: {error}") from None


def _items(answer: object) -> Sequence[object]:
    if not isinstance(dig(answer, "items"), list):
        raise ToolError(_UNFIT)
    return items(dig(answer, "items"))[:MAX_ITEMS]


def _each(kind: type[M], answer: object) -> Sequence[M]:
    """The items of ``answer`` that are of ``kind``."""
    return _fitting(kind, _items(answer))


def _fitting(kind: type[M], found: Sequence[object]) -> Sequence[M]:
    fitting: list[M] = []
    for raw in found:
        with suppress(InvalidParams):
            fitting.append(parse(kind, raw))
    if found and not fitting:
        raise ToolError(_UNFIT)
    return fitting


def _diagnostics(answer: object) -> Iterator[Diagnostic]:
    left = MAX_ITEMS
    given = _items(answer)
    files = [file for file in given if isinstance(dig(file, "diagnostics"), list)]
    if given and not files:
        raise ToolError(_UNFIT)
    for file in files:
        path = _path(dig(file, "uri"))
        raw = items(dig(file, "diagnostics"))[:left]
        left -= len(raw)
        for one in _fitting(wire.Diagnostic, raw):
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
