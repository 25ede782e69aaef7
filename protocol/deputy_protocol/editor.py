"""What the server asks of editors beyond LSP."""

from pydantic import StrictInt

from deputy_protocol.base import Number, Params, Wire
from deputy_protocol.place import Position, Range


class DiagnosticsParams(Wire):
    """Which files."""

    uris: tuple[str, ...] | None = None
    """All that the editor has diagnostics of when absent."""
    wait: Number | None = None
    """The files have just changed: seconds that the editor waits for diagnostics of their new text. It answers sooner
    when they are there, and at once when no language server looks at the files."""


class Diagnostic(Params):
    """A diagnostic as in LSP; further fields are ignored."""

    range: Range
    message: str
    severity: StrictInt | None = None
    """1 error, 2 warning, 3 information, 4 hint."""
    code: StrictInt | str | None = None
    source: str | None = None


class FileDiagnostics(Params):
    """The diagnostics of a file, from whatever source the editor has."""

    uri: str
    diagnostics: tuple[Diagnostic, ...]


class DiagnosticsResult(Params):
    """The diagnostics of the files."""

    items: tuple[FileDiagnostics, ...]


class SpotParams(Wire):
    """A place in a file. The file need not be open."""

    uri: str
    position: Position


class Spot(Params):
    """A place that a language server has named; in any file, of the workspace or not."""

    uri: str
    range: Range


class SpotsResult(Params):
    """The places, in the order of the language servers."""

    items: tuple[Spot, ...]


class HoverResult(Params):
    """What the language servers say of a symbol."""

    text: str | None = None
    """Markdown; absent when they say nothing."""


class SymbolsParams(Wire):
    """Which symbols: those of a file, or those of the workspace that match a query. One of both is given."""

    uri: str | None = None
    query: str | None = None


class Symbol(Spot):
    """A symbol and where it is defined."""

    name: str
    kind: StrictInt | None = None
    """LSP's `SymbolKind`."""
    container: str | None = None
    """The name of the symbol around it."""


class SymbolsResult(Params):
    """The symbols; those of a file in its order, inner ones behind the one around them."""

    items: tuple[Symbol, ...]
