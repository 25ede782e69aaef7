"""The editor's open documents as :class:`~deputy_agents.ports.buffers.Buffers` for agents."""

from collections.abc import Sequence
from functools import partial
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
"""Seconds after an applied edit within which the editor must send the new text."""


RELOAD_GRACE = 3
"""Seconds within which an editor should load a file that has changed on disk by itself."""

REMINDER = 300
"""Seconds until the user is asked again to reload a file."""


class EditorBuffers:
    """Reads open documents and changes them through ``workspace/applyEdit``, so that the editor's undo works."""

    def __init__(self, protocol: RpcProtocol, documents: Documents, client: Client) -> None:
        self._protocol = protocol
        self._documents = documents
        self._client = client
        self._reloading: set[Document] = set()

    async def get(self, path: Path) -> Buffer | None:
        # The notebook has precedence, even if its file is also open as text.
        if (notebook := self._documents.notebook_at(path)) is not None:
            return Buffer(path, script(self._cells(notebook)), notebook.version)
        if (document := self._documents.at(path)) is not None:
            await document.compare_with_disk()
            return _buffer(path, document)
        return None

    def all(self) -> list[Buffer]:
        return [_buffer(path, document) for path, document in self._documents.files()]

    def reload(self, path: Path) -> None:
        document = self._documents.at(path)
        if document is not None and document not in self._reloading:
            self._reloading.add(document)
            self._protocol.background(partial(self._reload, path, document))

    async def _reload(self, path: Path, document: Document) -> None:
        """Wait until the editor has loaded the file again, as most do by themselves. If it does not, ask the user."""
        try:
            is_reloaded = await self._documents.wait_for_newer([(document, document.version)], timeout=RELOAD_GRACE)
            if not is_reloaded and self._documents.at(path) is document:
                message = f"{visible(path.name)} has changed on disk. Reload it in the editor."
                params = {"type": types.MessageType.Info.value, "message": message}
                self._protocol.notify(types.WINDOW_SHOW_MESSAGE, params)
                await self._documents.wait_for_newer([(document, document.version)], timeout=REMINDER)
        finally:
            self._reloading.discard(document)

    async def check(self, path: Path, new_text: str) -> None:
        """Raises ToolError: the editor cannot apply edits, or the file is open as a notebook with other cells."""
        self._texts(path, new_text)

    async def apply(self, path: Path, new_text: str, *, version: int | None, label: str) -> None:
        """Raises ToolError: the document is not at ``version``, or the editor does not apply the edit."""
        opened = self._opened(path)
        if opened is None or opened.version != version:
            raise ToolError(f"{path.name} has changed in the editor. Read it again before editing.")
        edits = [
            (document, edit)
            for document, text in self._texts(path, new_text)
            if (edit := minimal_edit(document, text)) is not None
        ]
        if not edits:
            return
        versions = [(document, document.version) for document, _ in edits]
        await self._request(path, {"label": label, "edit": self._workspace_edit(edits, label)})
        if not await self._documents.wait_for_newer(versions, timeout=SYNC_TIMEOUT):
            raise ToolError(
                f"The editor reported that it applied the edit to {path.name}, but its text has not changed. "
                "Read the file again before editing it."
            )

    async def delete(self, path: Path, *, version: int | None, label: str) -> None:
        """Raises ToolError: the document is not at ``version``, or the editor does not delete files."""
        opened = self._opened(path)
        if opened is None or opened.version != version:
            raise ToolError(f"{path.name} has changed in the editor.")
        if not (self._client.apply_edit and self._client.document_changes and self._client.delete_files):
            raise ToolError(f"{path.name} is open in an editor that cannot delete files. Close it, then try again.")
        deletion = {"kind": "delete", "uri": opened.uri, "options": {"ignoreIfNotExists": True}}
        await self._request(path, {"label": label, "edit": {"documentChanges": [deletion]}})

    def _opened(self, path: Path) -> Document | types.NotebookDocument | None:
        return self._documents.notebook_at(path) or self._documents.at(path)

    def _texts(self, path: Path, new_text: str) -> list[tuple[Document, str]]:
        """The new text of the file's document, or of the cells of its notebook. Raises ToolError, as :meth:`check`."""
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

    async def _request(self, path: Path, params: JsonObject) -> None:
        try:
            answer = await self._protocol.request(types.WORKSPACE_APPLY_EDIT, params, timeout=APPLY_TIMEOUT)
        except TimeoutError:
            raise ToolError(
                f"The editor did not confirm the edit to {path.name} within {APPLY_TIMEOUT} s. "
                "Read the file again before editing it."
            ) from None
        except (ClientError, ConnectionLost):
            raise ToolError(f"The editor could not apply the edit to {path.name}.") from None
        if dig(answer, "applied") is not True or isinstance(dig(answer, "failedChange"), int):
            reason = dig(answer, "failureReason")
            detail = f": {visible(reason[:300])}" if isinstance(reason, str) else "."
            raise ToolError(f"The editor rejected the edit to {path.name}{detail}")

    def _workspace_edit(self, edits: Sequence[tuple[Document, JsonObject]], label: str) -> JsonObject:
        if not self._client.document_changes:
            return {"changes": {document.uri: [edit] for document, edit in edits}}
        annotated = {"annotationId": _ANNOTATION} if self._client.change_annotations else {}
        changes = [
            {"textDocument": {"uri": document.uri, "version": document.version}, "edits": [edit | annotated]}
            for document, edit in edits
        ]
        # The user has already approved the edit: the editor need not ask again.
        annotations: JsonObject = {_ANNOTATION: {"label": label, "needsConfirmation": False}} if annotated else {}
        return {"documentChanges": changes, **({"changeAnnotations": annotations} if annotations else {})}


def _buffer(path: Path, document: Document) -> Buffer:
    return Buffer(path, document.source, document.version, document.saved.common)


def minimal_edit(document: Document, new_text: str) -> JsonObject | None:
    """A single text edit that turns ``document`` into ``new_text``, or ``None`` if they are equal.

    It leaves out the text that both share at the start and the end, so that cursors and folds there are preserved. It
    never begins or ends after the last line feed, which is not a valid position in some editors: lines are added and
    removed before it.
    """
    old_text = document.source
    if old_text == new_text:
        return None
    ends = (ending for ending in ("\r\n", "\n") if old_text.endswith(ending) and new_text.endswith(ending))
    last = len(next(ends, ""))
    longest = min(len(old_text), len(new_text)) - last
    start = _shared_length(old_text, new_text, longest)
    old_rest, new_rest = (text[: len(text) - last] for text in (old_text, new_text))
    end = last + _shared_length(old_rest, new_rest, longest - start, at_end=True)
    # A position between CR and LF is not valid in editors.
    if old_text[:start].endswith("\r") or new_text[:start].endswith("\r"):
        start -= 1
    if end and any(text[: len(text) - end].endswith("\r") for text in (old_text, new_text)):
        end -= 1
    return {
        "range": document.range_of(start, len(old_text) - end),
        "newText": new_text[start : len(new_text) - end],
    }


def _shared_length(one: str, other: str, longest: int, *, at_end: bool = False) -> int:
    """The number of characters that both texts share at the start, or at the end, at most ``longest``."""
    low, high = 0, longest
    while low < high:
        middle = (low + high + 1) // 2
        # The first `low` characters are known to be equal.
        part = slice(-middle, -low or None) if at_end else slice(low, middle)
        low, high = (middle, high) if one[part] == other[part] else (low, middle - 1)
    return low
