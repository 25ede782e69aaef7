"""Open documents, identical to the editor's.

They extend pygls' documents: lines end where LSP defines it (Python's ``splitlines`` also splits at form feeds and
other characters, which would shift all later edits), positions beyond the end of a line are clamped to its end, and
changes that are not newer than the document are ignored.
"""

import asyncio
import logging
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import unquote

import anyio.to_thread
from lsprotocol import types
from pygls.uris import to_fs_path
from pygls.workspace import TextDocument, Workspace

from deputy_agents.concurrency.signal import Signal
from deputy_server.convert.uris import local_path
from deputy_server.lsp.rope import Rope
from deputy_server.lsp.saved_text import SavedText
from deputy_server.rpc.json import JsonObject

log = logging.getLogger(__name__)

_UNITS = {"utf-8": ("utf-8", 1), "utf-16": ("utf-16-le", 2), "utf-32": ("utf-32-le", 4)}
"""The units of positions: a Python codec and the bytes per unit."""


class Document(TextDocument):
    """An open document."""

    def __init__(self, item: types.TextDocumentItem, workspace: Workspace) -> None:
        super().__init__(item.uri, None, item.version, str(item.language_id))
        self._rope = Rope(item.text)
        self._units = _UNITS[str(workspace.position_encoding)]
        path = to_fs_path(item.uri)
        self.real_path = Path(os.path.normpath(path)) if path else None
        """The path on disk, symlinks resolved after :meth:`resolve`; ``None`` for documents without a file, such as
        untitled ones."""
        self.saved = SavedText()

    async def resolve(self) -> None:
        """Resolve symlinks in the path, in a thread: file systems can be slow."""
        if self.real_path is not None:
            self.real_path = await anyio.to_thread.run_sync(local_path, self.uri)

    @property
    def source(self) -> str:
        return self._rope.text

    async def compare_with_disk(self) -> None:
        """Update what is known about the text on disk."""
        if self.real_path is not None:
            await self.saved.compare(self.real_path, self.source)

    def offset_of(self, position: types.Position) -> int:
        """The index in the text of a position in the client's units."""
        start, line = self._rope.line(position.line)
        return start + self._column(line, position.character)

    def position_of(self, offset: int) -> types.Position:
        """The position, in the client's units, of an index in the text."""
        number, before = self._rope.position(offset)
        codec, size = self._units
        return types.Position(number, len(before) if before.isascii() else len(before.encode(codec)) // size)

    def range_of(self, start: int, end: int) -> JsonObject:
        """The LSP range between two indices in the text."""
        first, last = self.position_of(start), self.position_of(end)
        return {
            "start": {"line": first.line, "character": first.character},
            "end": {"line": last.line, "character": last.character},
        }

    def _column(self, line: str, units: int) -> int:
        """The index in ``line`` after ``units`` units; within a character, the index of that character."""
        begin = line[:units]
        if begin.isascii():
            return len(begin)
        codec, size = self._units
        return len(begin.encode(codec)[: units * size].decode(codec, "ignore"))

    def _apply_full_change(self, change: types.TextDocumentContentChangeEvent) -> None:
        self._rope = Rope(change.text)

    def _apply_incremental_change(self, change: types.TextDocumentContentChangePartial) -> None:
        start, end = self.offset_of(change.range.start), self.offset_of(change.range.end)
        self._rope.replace(start, end, change.text)


class Documents(Workspace):
    """All open documents of one client."""

    def __init__(self, folders: tuple[types.WorkspaceFolder, ...], position_encoding: str) -> None:
        super().__init__(
            folders[0].uri if folders else None, workspace_folders=folders, position_encoding=position_encoding
        )
        self._changed = Signal()
        self._notebook_paths: dict[str, Path] = {}

    async def resolve_notebook(self, uri: str) -> None:
        """Store the path of a notebook, symlinks resolved, in a thread: file systems can be slow."""
        if (path := await anyio.to_thread.run_sync(local_path, uri)) is not None:
            self._notebook_paths[unquote(uri)] = path

    def notebook_at(self, path: Path) -> types.NotebookDocument | None:
        """The open notebook at ``path`` (absolute, symlinks resolved)."""
        uris = (uri for uri, at in self._notebook_paths.items() if at == path)
        return next((found for uri in uris if (found := self._notebook_documents.get(uri)) is not None), None)

    def put_text_document(self, text_document: types.TextDocumentItem, notebook_uri: str | None = None) -> None:
        super().put_text_document(text_document, notebook_uri)
        self._text_documents[unquote(text_document.uri)] = Document(text_document, self)

    def named(self, uri: str) -> Document | None:
        """The open document with that URI, percent-encoded or not."""
        document = self._text_documents.get(unquote(uri))
        return document if isinstance(document, Document) else None

    def at(self, path: Path) -> Document | None:
        """The open document at ``path`` (absolute, symlinks resolved)."""
        return next((document for real_path, document in self.files() if real_path == path), None)

    def files(self) -> Iterator[tuple[Path, Document]]:
        """All open documents with a file, and its path."""
        for document in self._text_documents.values():
            if isinstance(document, Document) and document.real_path is not None:
                yield document.real_path, document

    def change(self, params: types.DidChangeTextDocumentParams) -> Document | None:
        """Apply a change and return the document. Changes that are stale or of unopened documents are ignored."""
        document = self._older_than(params.text_document)
        if document is None:
            log.warning("ignored a change of a document that is not open, or newer than the change")
            return None
        for change in params.content_changes:
            document.apply_change(change)
        document.version = params.text_document.version
        self._changed.notify()
        return document

    def update_notebook_document(self, params: types.DidChangeNotebookDocumentParams) -> None:
        notebook = self._notebook_documents.get(unquote(params.notebook_document.uri))
        # Editors may send the change of a cell before the change of the notebook.
        if notebook is None or params.notebook_document.version < notebook.version:
            log.warning("ignored a change of a notebook that is not open, or newer than the change")
            return
        if cells := params.change.cells:
            cells.text_content = [text for text in cells.text_content or () if self._older_than(text.document)]
        super().update_notebook_document(params)  # pyright: ignore[reportUnknownMemberType]
        self._changed.notify()

    def _older_than(self, change: types.VersionedTextDocumentIdentifier) -> Document | None:
        """The open document that ``change`` is about, if it is older than the change."""
        document = self.named(change.uri)
        is_older = document is not None and (document.version is None or change.version > document.version)
        return document if is_older else None

    async def wait_for_newer(self, versions: Sequence[tuple[Document, int | None]], *, timeout: float) -> bool:
        """Wait until each document has another version than given; ``False`` after ``timeout`` seconds."""
        try:
            async with asyncio.timeout(timeout):
                while any(document.version == version for document, version in versions):
                    await self._changed.wait()
        except TimeoutError:
            return False
        return True
