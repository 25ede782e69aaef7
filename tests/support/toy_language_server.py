"""A language server for Python names, as small as can be: words are symbols, defined where they stand first on a line
with ``=`` or behind ``def``. The word BROKEN is an error."""

import re

from lsprotocol import types
from pygls.lsp.server import LanguageServer

server = LanguageServer("toy", "1")

_DEFINITION = re.compile(r"^(?:def )?(\w+)(?= =|\()", re.MULTILINE)


def _range(line: int, start: int, end: int) -> types.Range:
    return types.Range(types.Position(line, start), types.Position(line, end))


def _word(params: types.TextDocumentPositionParams) -> str:
    return server.workspace.get_text_document(params.text_document.uri).word_at_position(params.position)


def _places(uri: str, word: str, pattern: str) -> list[types.Location]:
    lines = server.workspace.get_text_document(uri).lines
    found = ((n, match) for n, line in enumerate(lines) for match in re.finditer(pattern % re.escape(word), line))
    return [types.Location(uri, _range(n, match.start(1), match.end(1))) for n, match in found]


@server.feature(types.TEXT_DOCUMENT_DEFINITION)
def definition(params: types.DefinitionParams) -> list[types.Location]:
    return _places(params.text_document.uri, _word(params), r"^(?:def )?(%s)(?: =|\(\w*\):)")


@server.feature(types.TEXT_DOCUMENT_REFERENCES)
def references(params: types.ReferenceParams) -> list[types.Location]:
    return _places(params.text_document.uri, _word(params), r"\b(%s)\b")


@server.feature(types.TEXT_DOCUMENT_HOVER)
def hover(params: types.HoverParams) -> types.Hover:
    return types.Hover(types.MarkupContent(types.MarkupKind.Markdown, f"the word **{_word(params)}**"))


@server.feature(types.TEXT_DOCUMENT_DOCUMENT_SYMBOL)
def symbols(params: types.DocumentSymbolParams) -> list[types.DocumentSymbol]:
    source = server.workspace.get_text_document(params.text_document.uri).source
    lines = source.splitlines()
    return [
        types.DocumentSymbol(name, types.SymbolKind.Variable, _range(n, 0, len(line)), _range(n, 0, len(line)))
        for n, line in enumerate(lines)
        for name in _DEFINITION.findall(line)
    ]


@server.feature(types.WORKSPACE_SYMBOL)
def workspace_symbols(params: types.WorkspaceSymbolParams) -> list[types.SymbolInformation]:
    return [
        types.SymbolInformation(types.Location(uri, _range(0, 0, 1)), params.query, types.SymbolKind.Class)
        for uri in server.workspace.text_documents
    ]


@server.feature(types.TEXT_DOCUMENT_DID_OPEN)
@server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
def check(params: types.DidOpenTextDocumentParams | types.DidChangeTextDocumentParams) -> None:
    uri = params.text_document.uri
    found = [
        types.Diagnostic(place.range, "this is broken", types.DiagnosticSeverity.Error, source="toy")
        for place in _places(uri, "BROKEN", r"\b(%s)\b")
    ]
    server.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, found))


if __name__ == "__main__":
    server.start_io()
