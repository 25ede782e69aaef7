"""Notebooks, documents that close, and documents that are renamed, as agents see them."""

import json
from pathlib import Path

import pytest

from tests.support.deputies import Deputies
from tests.support.messages_api import Script
from tests.support.plays import Json, Play, call, calls, say
from tests.support.rpc import RpcClient

pytestmark = pytest.mark.asyncio(loop_scope="module")


def doing(*steps: Json) -> Script:
    """A primary that makes one call after another, and then says the last result."""

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


async def test_an_open_notebook_is_read_as_the_text_of_its_cells(deputy: Deputies, workspace: Path) -> None:
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


async def test_an_open_notebook_is_not_edited_as_text(deputy: Deputies, workspace: Path) -> None:
    path = workspace / "a.ipynb"
    path.write_text('{"cells": []}')
    steps = (
        dict(call("read_file", path="a.ipynb")),
        dict(call("edit_file", path="a.ipynb", old_string="x = 1", new_string="x = 2")),
    )
    async with deputy(doing(*steps), workspace) as (client, _):
        open_notebook(client, path)
        assert "open as a notebook" in await answer(client)
        assert path.read_text() == '{"cells": []}'
        client.notify(
            "notebookDocument/didClose", {"notebookDocument": {"uri": path.as_uri()}, "cellTextDocuments": []}
        )


async def test_a_document_that_was_closed_or_renamed_is_read_where_it_is_now(deputy: Deputies, workspace: Path) -> None:
    """Editors tell of a new name as of one document that closes and another that opens."""
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
