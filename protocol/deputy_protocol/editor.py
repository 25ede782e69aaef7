"""What the server asks of editors beyond LSP."""

from pydantic import StrictInt

from deputy_protocol.base import Params, Wire
from deputy_protocol.place import Range


class DiagnosticsParams(Wire):
    """Which files."""

    uris: tuple[str, ...] | None = None
    """All that the editor has diagnostics of when absent."""


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
