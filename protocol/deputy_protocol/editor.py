"""Requests to the editor that go beyond LSP. The server sends each only to clients that declared the capability."""

from pydantic import StrictInt

from deputy_protocol.base import Number, Params, Wire
from deputy_protocol.place import Position, Range


class DiagnosticsParams(Wire):
    """Which files to return diagnostics for."""

    uris: tuple[str, ...] | None = None
    """When absent, all files for which the editor has diagnostics."""
    wait: Number | None = None
    """Sent when the files have just changed: how many seconds the editor waits for diagnostics of their new text. It
    returns as soon as these arrive, and immediately when no language server handles the files."""


class Diagnostic(Params):
    """A diagnostic as in LSP. Further fields are ignored."""

    range: Range
    message: str
    severity: StrictInt | None = None
    """1 error, 2 warning, 3 information, 4 hint."""
    code: StrictInt | str | None = None
    source: str | None = None


class FileDiagnostics(Params):
    """The diagnostics of one file, from any source in the editor."""

    uri: str
    diagnostics: tuple[Diagnostic, ...]


class DiagnosticsResult(Params):
    """The diagnostics of the files."""

    items: tuple[FileDiagnostics, ...]


class SpotParams(Wire):
    """A position in a file. The file does not have to be open."""

    uri: str
    position: Position


class Spot(Params):
    """A location that a language server returned. It may be outside the workspace."""

    uri: str
    range: Range


class SpotsResult(Params):
    """Locations, in the order in which the language servers returned them."""

    items: tuple[Spot, ...]


class HoverResult(Params):
    """What the language servers return for a symbol."""

    text: str | None = None
    """Markdown. Absent when there is no information."""


class SymbolsParams(Wire):
    """Which symbols to return: those of a file (`uri`), or those of the workspace that match a query (`query`). Exactly
    one is given."""

    uri: str | None = None
    query: str | None = None


class Symbol(Spot):
    """A symbol and its definition."""

    name: str
    kind: StrictInt | None = None
    """LSP's `SymbolKind`."""
    container: str | None = None
    """Name of the enclosing symbol."""


class SymbolsResult(Params):
    """Symbols. Those of a file are in document order, each followed by the symbols inside it."""

    items: tuple[Symbol, ...]
