"""Parameters of LSP's own requests about text documents, limited to the fields that Deputy uses."""

from deputy_protocol.base import Params
from deputy_protocol.place import Position, Range


class TextDocument(Params):
    uri: str


class DocumentParams(Params):
    """Parameters of code lenses and document links."""

    text_document: TextDocument


class HoverParams(DocumentParams):
    position: Position


class Diagnostic(Params):
    range: Range
    message: str
    source: str | None = None
    code: str | int | None = None


class CodeActionContext(Params):
    diagnostics: tuple[Diagnostic, ...] = ()
    only: tuple[str, ...] | None = None
    trigger_kind: int | None = None


class CodeActionParams(Params):
    text_document: TextDocument
    range: Range
    context: CodeActionContext = CodeActionContext()
