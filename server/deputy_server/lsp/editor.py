"""The editor's open documents as the agents' :class:`~deputy_agents.ports.buffers.Buffers`."""

from collections.abc import Sequence
from pathlib import Path

from lsprotocol import types

from deputy_agents.domain.errors import ToolError
from deputy_agents.ports.buffers import Buffer
from deputy_agents.text import visible
from deputy_server.lsp.client import Client
from deputy_server.lsp.documents import Document, Documents
from deputy_server.lsp.notebook import Cell, changed, script
from deputy_server.lsp.protocol import RpcProtocol
from deputy_server.rpc.errors import ClientError, ConnectionLost
from deputy_server.rpc.json import JsonObject, dig

APPLY_TIMEOUT = 30
"""Seconds that an editor may take to apply an edit."""

_ANNOTATION = "deputy"

SYNC_TIMEOUT = 10
"""Seconds after an applied edit within which the editor must tell the new text."""


class EditorBuffers:
    """Reads open documents and changes them through ``workspace/applyEdit``, so that the editor's undo works."""

    def __init__(self, protocol: RpcProtocol, documents: Documents, client: Client) -> None:
        self._protocol = protocol
        self._documents = documents
        self._client = client

    async def get(self, path: Path) -> Buffer | None:
        # A notebook first: that its file is opened as text beside it changes nothing of what was read.
        if (notebook := self._documents.notebook_at(path)) is not None:
            return Buffer(path, script(self._cells(notebook)), notebook.version)
        if (document := self._documents.at(path)) is not None:
            return Buffer(path, document.source, document.version)
        return None

    def all(self) -> list[Buffer]:
        return [Buffer(path, document.source, document.version) for path, document in self._documents.files()]

    async def check(self, path: Path, new_text: str) -> None:
        """Raises ToolError: the editor applies no edits, or the file is open as a notebook of other cells."""
        self._texts(path, new_text)

    async def apply(self, path: Path, new_text: str, *, version: int | None, label: str) -> None:
        """Raises ToolError when the document moved on from ``version`` or the editor does not apply the edit."""
        opened = self._opened(path)
        if opened is None or opened.version != version:
            raise ToolError(f"{path.name} has changed in the editor meanwhile. Read it again before editing.")
        edits = [
            (document, edit)
            for document, text in self._texts(path, new_text)
            if (edit := minimal_edit(document, text)) is not None
        ]
        if not edits:
            return
        versions = [(document, document.version) for document, _ in edits]
        await self._ask(path, {"label": label, "edit": self._workspace_edit(edits, label)})
        if not await self._documents.newer(versions, timeout=SYNC_TIMEOUT):
            raise ToolError(
                f"The editor said that it applied the edit to {path.name}, and its text is as before. "
                "Read the file again before editing it."
            )

    async def delete(self, path: Path, *, version: int | None, label: str) -> None:
        """Raises ToolError when the document moved on from ``version``, or the editor does not delete files."""
        opened = self._opened(path)
        if opened is None or opened.version != version:
            raise ToolError(f"{path.name} has changed in the editor meanwhile.")
        if not (self._client.apply_edit and self._client.document_changes and self._client.delete_files):
            raise ToolError(f"{path.name} is open in an editor that cannot delete files. Close it, then try again.")
        deletion = {"kind": "delete", "uri": opened.uri, "options": {"ignoreIfNotExists": True}}
        await self._ask(path, {"label": label, "edit": {"documentChanges": [deletion]}})

    def _opened(self, path: Path) -> Document | types.NotebookDocument | None:
        return self._documents.notebook_at(path) or self._documents.at(path)

    def _texts(self, path: Path, new_text: str) -> list[tuple[Document, str]]:
        """What the file's document, or the cells of its notebook, must become. Raises ToolError, as :meth:`check`."""
        if not self._client.apply_edit:
            raise ToolError(f"{path.name} is open in an editor that cannot apply edits. Close it, then try again.")
        match self._opened(path):
            case types.NotebookDocument() as notebook:
                return changed(path.name, self._cells(notebook), new_text)
            case Document() as document:
                return [(document, new_text)]
            case None:
                return []

    def _cells(self, notebook: types.NotebookDocument) -> list[Cell]:
        cells = ((cell.kind, self._documents.named(cell.document)) for cell in notebook.cells)
        return [Cell(types.NotebookCellKind(kind), document) for kind, document in cells if document]

    async def _ask(self, path: Path, params: JsonObject) -> None:
        try:
            answer = await self._protocol.request(types.WORKSPACE_APPLY_EDIT, params, timeout=APPLY_TIMEOUT)
        except TimeoutError:
            raise ToolError(
                f"The editor did not say within {APPLY_TIMEOUT} s whether it applied the edit to {path.name}. "
                "Read the file again before editing it."
            ) from None
        except (ClientError, ConnectionLost):
            raise ToolError(f"The editor could not apply the edit to {path.name}.") from None
        if dig(answer, "applied") is not True or isinstance(dig(answer, "failedChange"), int):
            reason = dig(answer, "failureReason")
            detail = f": {visible(reason[:300])}" if isinstance(reason, str) else "."
            raise ToolError(f"The editor refused the edit to {path.name}{detail}")

    def _workspace_edit(self, edits: Sequence[tuple[Document, JsonObject]], label: str) -> JsonObject:
        if not self._client.document_changes:
            return {"changes": {document.uri: [edit] for document, edit in edits}}
        annotated = {"annotationId": _ANNOTATION} if self._client.change_annotations else {}
        changes = [
            {"textDocument": {"uri": document.uri, "version": document.version}, "edits": [edit | annotated]}
            for document, edit in edits
        ]
        # The user has approved the edit by now: the editor need not ask again.
        annotations: JsonObject = {_ANNOTATION: {"label": label, "needsConfirmation": False}} if annotated else {}
        return {"documentChanges": changes, **({"changeAnnotations": annotations} if annotations else {})}


def minimal_edit(document: Document, new_text: str) -> JsonObject | None:
    """The one text edit that turns ``document`` into ``new_text``, without the text that both share at either end:
    cursors and folds there stay as they are. It never begins or ends behind the last line feed, where some editors have
    no place: lines are added and taken away before it. ``None`` when nothing changes."""
    old_text = document.source
    if old_text == new_text:
        return None
    ends = (ending for ending in ("\r\n", "\n") if old_text.endswith(ending) and new_text.endswith(ending))
    last = len(next(ends, ""))
    longest = min(len(old_text), len(new_text)) - last
    start = _shared(old_text, new_text, longest)
    old_rest, new_rest = (text[: len(text) - last] for text in (old_text, new_text))
    end = last + _shared(old_rest, new_rest, longest - start, behind=True)
    # A place between CR and LF is none that an editor knows.
    if old_text[:start].endswith("\r") or new_text[:start].endswith("\r"):
        start -= 1
    if end and any(text[: len(text) - end].endswith("\r") for text in (old_text, new_text)):
        end -= 1
    return {
        "range": document.range_of(start, len(old_text) - end),
        "newText": new_text[start : len(new_text) - end],
    }


def _shared(one: str, other: str, longest: int, *, behind: bool = False) -> int:
    """How many characters both begin with, or end with, at most ``longest``."""
    low, high = 0, longest
    while low < high:
        middle = (low + high + 1) // 2
        # What lies before `low` is known to be the same.
        part = slice(-middle, -low or None) if behind else slice(low, middle)
        low, high = (middle, high) if one[part] == other[part] else (low, middle - 1)
    return low
