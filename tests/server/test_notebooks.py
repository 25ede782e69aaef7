"""Notebooks, documents that close, and documents that are renamed, as agents see them."""

import json
from pathlib import Path

import pytest
from lsprotocol.types import NotebookCellKind, TextDocumentItem

from deputy_agents.domain.errors import ToolError
from deputy_server.lsp.documents import Document, Documents
from deputy_server.lsp.notebook import Cell, changed
from tests.support.messages_api import Script
from tests.support.model_replies import Json, Play, call, calls, say
from tests.support.rpc import RpcClient
from tests.support.shared_server import Deputies

asynchronous = pytest.mark.asyncio(loop_scope="module")


def doing(*steps: Json) -> Script:
    """A primary that makes one call after another, then reports the last result."""

    def play(body: Json, _: int) -> Play:
        done = (len(body["messages"]) - 1) // 2
        return calls(steps[done]) if done < len(steps) else say(json.dumps(body["messages"][-1]["content"]))

    return play


async def answer(client: RpcClient) -> str:
    client.handlers["deputy/permission/request"] = lambda asked: {
        "outcome": {"outcome": "selected", "optionId": asked["options"][0]["optionId"]}
    }
    session_id, _ = await client.session()
    await client.prompt(session_id, "go")
    return client.events("message")[-1]["text"]


def open_notebook(client: RpcClient, path: Path) -> None:
    cells = [(f"vscode-notebook-cell:{path}#W{n}", kind, text) for n, (kind, text) in enumerate(CELLS)]
    notebook = {
        "uri": path.as_uri(),
        "notebookType": "jupyter-notebook",
        "version": 1,
        "cells": [{"kind": kind, "document": uri} for uri, kind, _ in cells],
    }
    documents = [{"uri": uri, "languageId": "python", "version": 1, "text": text} for uri, _, text in cells]
    client.notify("notebookDocument/didOpen", {"notebookDocument": notebook, "cellTextDocuments": documents})


CELLS = ((1, "# A heading"), (2, "x = 1\nprint(x)\n"))


@asynchronous
async def test_an_open_notebook_is_read_as_a_script_of_its_cells(deputy: Deputies, workspace: Path) -> None:
    path = workspace / "a.ipynb"
    path.write_text('{"cells": []}')
    async with deputy(doing(dict(call("read_file", path="a.ipynb"))), workspace) as (client, _):
        open_notebook(client, path)
        as_text = {"uri": path.as_uri(), "languageId": "json", "version": 1, "text": path.read_text()}
        client.notify("textDocument/didOpen", {"textDocument": as_text})
        text = {"document": {"uri": f"vscode-notebook-cell:{path}#W1", "version": 2}, "changes": [{"text": "x = 2\n"}]}
        changed = {
            "notebookDocument": {"uri": path.as_uri(), "version": 2},
            "change": {"cells": {"textContent": [text]}},
        }
        client.notify("notebookDocument/didChange", changed)
        said = await answer(client)
        assert "# %% [markdown]" in said
        assert "# A heading" in said
        assert "x = 2" in said
        assert "x = 1" not in said
        assert "cells" not in said


@pytest.mark.parametrize("lag", [0, 1], ids=["counted at once", "counted later"])
@asynchronous
async def test_an_edit_of_an_open_notebook_changes_its_cell(deputy: Deputies, workspace: Path, lag: int) -> None:
    path = workspace / "a.ipynb"
    path.write_text('{"cells": []}')
    edits: list[Json] = []

    def apply(params: Json) -> Json:
        """As editors do it: change the cell, then notify the server."""
        edits.append(params["edit"])
        version = 1 + len(edits)
        [change] = params["edit"]["documentChanges"]
        told = [{"range": edit["range"], "text": edit["newText"]} for edit in change["edits"]]
        text = {"document": {"uri": change["textDocument"]["uri"], "version": version}, "changes": told}
        changed = {"version": version - lag, "uri": path.as_uri()}
        cells = {"cells": {"textContent": [text]}}
        client.notify("notebookDocument/didChange", {"notebookDocument": changed, "change": cells})
        return {"applied": True}

    steps = (
        dict(call("read_file", path="a.ipynb")),
        dict(call("edit_file", path="a.ipynb", old_string="x = 1", new_string="x = 12")),
        dict(call("edit_file", path="a.ipynb", old_string="A heading", new_string="The heading")),
        dict(call("read_file", path="a.ipynb")),
    )
    async with deputy(doing(*steps), workspace) as (client, _):
        client.handlers["workspace/applyEdit"] = apply
        open_notebook(client, path)
        said = await answer(client)
        assert "The heading" in said
        assert "x = 12" in said
    first, second = ([(c["textDocument"], c["edits"]) for c in edit["documentChanges"]] for edit in edits)
    code, words = (f"vscode-notebook-cell:{path}#W{n}" for n in (1, 0))
    where = {"start": {"line": 0, "character": 5}, "end": {"line": 0, "character": 5}}
    assert first == [({"uri": code, "version": 1}, [{"range": where, "newText": "2"}])]
    assert second[0][0] == {"uri": words, "version": 1}
    assert path.read_text() == '{"cells": []}'  # only the editor saves


@asynchronous
async def test_an_impossible_edit_of_a_notebook_needs_no_approval(deputy: Deputies, workspace: Path) -> None:
    path = workspace / "a.ipynb"
    path.write_text('{"cells": []}')
    steps = (
        dict(call("read_file", path="a.ipynb")),
        dict(call("edit_file", path="a.ipynb", old_string="x = 1", new_string="x = 2\n\n# %%\ny = 1")),
    )
    async with deputy(doing(*steps), workspace) as (client, _):
        open_notebook(client, path)
        assert "open as a notebook" in await answer(client)
        assert not [m for m in client.received if m.get("method") == "deputy/permission/request"]


def cells(*sources: str) -> list[Cell]:
    documents = Documents((), "utf-16")
    items = [TextDocumentItem(f"vscode-notebook-cell:/a.ipynb#{n}", "python", 1, s) for n, s in enumerate(sources)]
    return [Cell(NotebookCellKind.Code, Document(item, documents)) for item in items]


@pytest.mark.parametrize(
    ("sources", "text", "becomes"),
    [
        (("x = 1\n\n", "y"), "# %%\nx = 2\n\n# %%\ny\n", {0: "x = 2\n\n"}),
        (("", "y\n"), "# %%\nx\n\n# %%\nz\n", {0: "x", 1: "z\n"}),
        (("\n\nx",), "# %%\n\n\nx = 1\n", {0: "\n\nx = 1"}),
        (("x", "y"), "# %%\n\n\n# %%\ny\n", {0: ""}),
        (("a", "b"), "# %%\na\n\n# %%\nb\n", {}),
    ],
)
def test_cells_get_their_text_from_the_script(sources: tuple[str, ...], text: str, becomes: dict[int, str]) -> None:
    notebook = cells(*sources)
    found = {document.uri: source for document, source in changed("a.ipynb", notebook, text)}
    assert found == {notebook[n].document.uri: source for n, source in becomes.items()}


@pytest.mark.parametrize(
    ("sources", "text"),
    [
        (("a", "b"), "# %%\na\n"),
        (("a",), "# %%\na\n\n# %%\nb\n"),
        (("a",), "# %% [markdown]\na\n"),
        (("a",), "import os\n# %%\na\n"),
        (("a",), "# %%\na"),
        (("a\n# %%\nb",), "# %%\na\n# %%\nc\n"),
        (("a\n# %%\nb", "c"), "# %%\na\n\n# %%\nb\n"),
        ((), "# %%\na\n"),
    ],
)
def test_a_script_with_other_cells_is_rejected(sources: tuple[str, ...], text: str) -> None:
    with pytest.raises(ToolError, match=r"a\.ipynb is open as a notebook"):
        changed("a.ipynb", cells(*sources), text)


@asynchronous
async def test_a_closed_or_renamed_document_is_read_from_its_new_location(deputy: Deputies, workspace: Path) -> None:
    """Editors report a rename as one closed and one opened document."""
    (workspace / "old.txt").write_text("old on disk\n")
    (workspace / "new.txt").write_text("new on disk\n")
    steps = (dict(call("read_file", path="old.txt")), dict(call("grep", pattern="on disk|unsaved")))
    async with deputy(doing(*steps), workspace) as (client, api):
        for name, text in (("old.txt", "old unsaved\n"), ("new.txt", "new unsaved\n")):
            item = {"uri": (workspace / name).as_uri(), "languageId": "text", "version": 1, "text": text}
            client.notify("textDocument/didOpen", {"textDocument": item})
            if name == "old.txt":
                client.notify("textDocument/didClose", {"textDocument": {"uri": item["uri"]}})
        found = await answer(client)
        assert "old on disk" in json.dumps(api.bodies[1]["messages"][-1])
        assert "new unsaved" in found
        assert "old unsaved" not in found
