"""Open documents, kept exactly as the editor has them.

pygls' documents are the base. What differs: lines end where LSP says that they end (Python's ``splitlines`` also
splits at form feeds and others, which shifts every edit behind one), positions beyond the end of a line clamp to
its end, and a change that is not newer than the text it would change is ignored.
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

from deputy_agents.events.signal import Signal
from deputy_server.convert.uris import local_path
from deputy_server.lsp.rope import Rope
from deputy_server.rpc.json import JsonObject

log = logging.getLogger(__name__)

_UNITS = {"utf-8": ("utf-8", 1), "utf-16": ("utf-16-le", 2), "utf-32": ("utf-32-le", 4)}
"""In what positions are counted: an encoding, and bytes of one of its units."""


class Document(TextDocument):
    """An open document."""

    def __init__(self, item: types.TextDocumentItem, workspace: Workspace) -> None:
        super().__init__(item.uri, None, item.version, str(item.language_id))
        self._rope = Rope(item.text)
        self._units = _UNITS[str(workspace.position_encoding)]
        path = to_fs_path(item.uri)
        self.real_path = Path(os.path.normpath(path)) if path else None
        """Where it is on disk, symlinks resolved once :meth:`find` has run; ``None`` when it is no file (an untitled
        one, for instance)."""

    async def find(self) -> None:
        """Resolves symlinks in the path, in a thread: a file system can be slow."""
        if self.real_path is not None:
            self.real_path = await anyio.to_thread.run_sync(local_path, self.uri)

    @property
    def source(self) -> str:
        return self._rope.text

    def offset_of(self, position: types.Position) -> int:
        """The index in the text of a position in the client's units."""
        start, line = self._rope.line(position.line)
        return start + self._column(line, position.character)

    def position_of(self, offset: int) -> types.Position:
        """The position, in the client's units, of an index in the text."""
        number, before = self._rope.place(offset)
        codec, size = self._units
        return types.Position(number, len(before) if before.isascii() else len(before.encode(codec)) // size)

    def range_of(self, start: int, end: int) -> JsonObject:
        """The range between two indices in the text, as LSP has it."""
        first, last = self.position_of(start), self.position_of(end)
        return {
            "start": {"line": first.line, "character": first.character},
            "end": {"line": last.line, "character": last.character},
        }

    def _column(self, line: str, units: int) -> int:
        """The index in ``line`` of so many units; within a character, that of the character."""
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

    async def find_notebook(self, uri: str) -> None:
        """Remembers where a notebook is on disk, symlinks resolved, in a thread: a file system can be slow."""
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
        """The open document of that address, however it is written: pygls keeps them without percent signs."""
        document = self._text_documents.get(unquote(uri))
        return document if isinstance(document, Document) else None

    def at(self, path: Path) -> Document | None:
        """The open document at ``path`` (absolute, symlinks resolved)."""
        return next((document for real_path, document in self.files() if real_path == path), None)

    def files(self) -> Iterator[tuple[Path, Document]]:
        """Every open document that is a file, with where it is."""
        for document in self._text_documents.values():
            if isinstance(document, Document) and document.real_path is not None:
                yield document.real_path, document

    def change(self, params: types.DidChangeTextDocumentParams) -> Document | None:
        """Takes a change, unless it is stale or of a document that is not open; the document that has changed."""
        document = self._behind(params.text_document)
        if document is None:
            log.warning("a change of a document was ignored: it is not open, or has moved on")
            return None
        for change in params.content_changes:
            document.apply_change(change)
        document.version = params.text_document.version
        self._tell()
        return document

    def update_notebook_document(self, params: types.DidChangeNotebookDocumentParams) -> None:
        notebook = self._notebook_documents.get(unquote(params.notebook_document.uri))
        # An editor may tell a change of a cell before it counts it as one of the notebook.
        if notebook is None or params.notebook_document.version < notebook.version:
            log.warning("a change of a notebook was ignored: it is not open, or has moved on")
            return
        if cells := params.change.cells:
            cells.text_content = [text for text in cells.text_content or () if self._behind(text.document)]
        super().update_notebook_document(params)  # pyright: ignore[reportUnknownMemberType]
        self._tell()

    def _behind(self, told: types.VersionedTextDocumentIdentifier) -> Document | None:
        """The open document that has not come to the version of which a client tells."""
        document = self.named(told.uri)
        is_behind = document is not None and (document.version is None or told.version > document.version)
        return document if is_behind else None

    async def newer(self, versions: Sequence[tuple[Document, int | None]], *, timeout: float) -> bool:
        """Waits until each document has left its version; false when one has not within ``timeout`` seconds."""
        try:
            async with asyncio.timeout(timeout):
                while any(document.version == version for document, version in versions):
                    await self._changed.wait()
        except TimeoutError:
            return False
        return True

    def _tell(self) -> None:
        """Wakes those who wait for a change."""
        self._changed.notify()
