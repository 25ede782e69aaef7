"""Open documents are identical to the editor's, and edits are minimal."""

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lsprotocol import types

from deputy_agents.domain.errors import ToolError
from deputy_agents.text import lines_with_ends
from deputy_server.lsp.buffers import EditorBuffers, minimal_edit
from deputy_server.lsp.client import Client
from deputy_server.lsp.documents import Documents
from deputy_server.lsp.protocol import RpcProtocol

URI = "file:///w/a.txt"
TEXTS = st.text(alphabet="ab\n\r\f\u2028\x1c\u00e9\U0001f600", max_size=30)
ENCODINGS = st.sampled_from(["utf-8", "utf-16", "utf-32"])


def opened(text: str, encoding: str = "utf-16") -> Documents:
    documents = Documents((), encoding)
    documents.put_text_document(types.TextDocumentItem(URI, "text", 1, text))
    return documents


def changed(documents: Documents, version: int, *changes: types.TextDocumentContentChangeEvent) -> str:
    identifier = types.VersionedTextDocumentIdentifier(version, URI)
    documents.change(types.DidChangeTextDocumentParams(identifier, list(changes)))
    return documents.get_text_document(URI).source


def replaced(start: tuple[int, int], end: tuple[int, int], text: str) -> types.TextDocumentContentChangePartial:
    return types.TextDocumentContentChangePartial(types.Range(types.Position(*start), types.Position(*end)), text)


@given(TEXTS)
def test_lines_end_as_lsp_defines_and_form_the_text(text: str) -> None:
    lines = lines_with_ends(text)
    assert "".join(lines) == text
    assert all(not line or line.rstrip("\r\n").count("\n") == 0 for line in lines)
    assert len(lines) == text.replace("\r\n", "\n").replace("\r", "\n").count("\n") + 1


def test_a_form_feed_or_line_separator_does_not_shift_later_edits() -> None:
    documents = opened("a\fb\u2028c\nsecond\n")
    assert changed(documents, 2, replaced((1, 0), (1, 6), "2nd")) == "a\fb\u2028c\n2nd\n"


@pytest.mark.parametrize(("encoding", "character"), [("utf-8", 5), ("utf-16", 3), ("utf-32", 2)])
def test_columns_use_the_negotiated_units(encoding: str, character: int) -> None:
    documents = opened("x\U0001f600yz\r\n", encoding)
    assert changed(documents, 2, replaced((0, character), (0, character + 1), "")) == "x\U0001f600z\r\n"


def test_positions_beyond_a_line_or_the_text_are_clamped() -> None:
    documents = opened("one\r\ntwo")
    assert changed(documents, 2, replaced((0, 99), (0, 99), "!")) == "one!\r\ntwo"
    assert changed(documents, 3, replaced((1, 99), (1, 99), "!")) == "one!\r\ntwo!"
    assert changed(documents, 4, replaced((9, 0), (9, 9), "end")) == "one!\r\ntwo!end"


def test_changes_of_one_notification_build_on_each_other() -> None:
    documents = opened("")
    assert changed(documents, 2, replaced((0, 0), (0, 0), "ab"), replaced((0, 1), (0, 2), "c")) == "ac"


@pytest.mark.parametrize("version", [0, 1])
def test_a_change_that_is_not_newer_is_ignored(version: int) -> None:
    assert changed(opened("now"), version, types.TextDocumentContentChangeWholeDocument("then")) == "now"


@given(old=TEXTS, new=TEXTS, encoding=ENCODINGS)
def test_the_minimal_edit_produces_the_new_text(old: str, new: str, encoding: str) -> None:
    documents = opened(old, encoding)
    document = documents.get_text_document(URI)
    edit: Any = minimal_edit(document, new)  # type: ignore[arg-type]
    if old == new:
        assert edit is None
        return
    start, end = (types.Position(**edit["range"][key]) for key in ("start", "end"))
    change = types.TextDocumentContentChangePartial(types.Range(start, end), edit["newText"])
    assert changed(documents, 2, change) == new


@pytest.mark.parametrize(
    ("old", "new"), [("a\nb\n", "a\nb\nc\n"), ("a\nb\nc\n", "a\nb\n"), ("a\r\n", "a\r\nb\r\n"), ("a\n", "\n")]
)
def test_no_edit_begins_or_ends_after_the_last_line_feed(old: str, new: str) -> None:
    document = opened(old).get_text_document(URI)
    edit: Any = minimal_edit(document, new)  # type: ignore[arg-type]
    lines = old.count("\n")
    assert edit["range"]["start"]["line"] < lines
    assert edit["range"]["end"]["line"] < lines


def test_the_minimal_edit_excludes_shared_text() -> None:
    edit: Any = minimal_edit(opened("one\r\ntwo\r\nthree\r\n").get_text_document(URI), "one\r\nTWO\r\nthree\r\n")  # type: ignore[arg-type]
    assert edit["newText"] == "TWO"
    assert edit["range"] == {"start": {"line": 1, "character": 0}, "end": {"line": 1, "character": 3}}


@pytest.mark.asyncio
async def test_a_document_is_found_by_the_target_of_its_symlink(tmp_path: Path) -> None:
    (tmp_path / "real.txt").write_text("x")
    (tmp_path / "link.txt").symlink_to("real.txt")
    documents = Documents((), "utf-8")
    documents.put_text_document(types.TextDocumentItem((tmp_path / "link.txt").as_uri(), "text", 1, "unsaved"))
    document: Any = documents.at(tmp_path / "link.txt")
    await document.resolve()
    assert documents.at(tmp_path / "real.txt") is document
    assert documents.at(tmp_path / "link.txt") is None


@pytest.mark.asyncio
async def test_waiting_for_a_new_version_has_a_timeout() -> None:
    documents = opened("one")
    document: Any = documents.get_text_document(URI)
    assert not await documents.wait_for_newer([(document, 1)], timeout=0.01)
    waiting = asyncio.create_task(documents.wait_for_newer([(document, 1)], timeout=10))
    await asyncio.sleep(0)
    changed(documents, 2, types.TextDocumentContentChangeWholeDocument("two"))
    assert await waiting


class Silent:
    """A client that never responds: only the timeout ends the wait."""

    async def request(self, method: str, params: object, *, timeout: float | None) -> object:
        assert timeout is not None
        raise TimeoutError


@pytest.mark.asyncio
async def test_an_edit_without_a_response_from_the_editor_is_an_error() -> None:
    documents = opened("one\n")
    buffers = EditorBuffers(cast(RpcProtocol, Silent()), documents, Client(apply_edit=True))
    with pytest.raises(ToolError, match=r"did not confirm .* Read the file again"):
        await buffers.apply(Path("/w/a.txt"), "two\n", version=1, label="worker")


def test_open_documents_without_a_file_are_not_searched() -> None:
    documents = opened("one\n")
    documents.put_text_document(types.TextDocumentItem("untitled:new", "text", 1, "two\n"))
    buffers = EditorBuffers(cast(RpcProtocol, Silent()), documents, Client())
    assert [(buffer.path, buffer.text) for buffer in buffers.all()] == [(Path("/w/a.txt"), "one\n")]


class Applying(Silent):
    """Confirms every edit and records the requests."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    async def request(self, method: str, params: object, *, timeout: float | None) -> object:
        self.told.append(params)
        return {"applied": True}


@pytest.mark.requirement("X2")
@pytest.mark.parametrize("annotations", [True, False])
@pytest.mark.asyncio
async def test_an_edit_has_its_version_and_label_and_needs_no_second_confirmation(
    monkeypatch: pytest.MonkeyPatch, annotations: bool
) -> None:
    monkeypatch.setattr("deputy_server.lsp.buffers.SYNC_TIMEOUT", 0)
    client = Client(apply_edit=True, document_changes=True, change_annotations=annotations)
    documents, protocol = opened("one\n"), Applying()
    with pytest.raises(ToolError, match=r"its text has not changed\. Read the file again"):  # it only confirms the edit
        await EditorBuffers(cast(RpcProtocol, protocol), documents, client).apply(
            Path("/w/a.txt"), "two\n", version=1, label="worker: edit_file(a.txt)"
        )
    (params,) = protocol.told
    (change,) = params["edit"]["documentChanges"]
    assert change["textDocument"] == {"uri": URI, "version": 1}
    assert params["label"] == "worker: edit_file(a.txt)"
    shown = {"deputy": {"label": "worker: edit_file(a.txt)", "needsConfirmation": False}}
    assert params["edit"].get("changeAnnotations") == (shown if annotations else None)
    assert change["edits"][0].get("annotationId") == ("deputy" if annotations else None)


@pytest.mark.requirement("X2")
@pytest.mark.asyncio
async def test_an_edit_for_an_outdated_version_is_not_sent() -> None:
    protocol = Applying()
    buffers = EditorBuffers(cast(RpcProtocol, protocol), opened("one\n"), Client(apply_edit=True))
    with pytest.raises(ToolError, match=r"changed in the editor\. Read it again"):
        await buffers.apply(Path("/w/a.txt"), "two\n", version=0, label="worker")
    assert protocol.told == []
