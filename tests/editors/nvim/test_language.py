"""Agents query the language servers of a real Neovim, and get the diagnostics that their edits cause."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.editors.nvim.neovim import HERE, ROOT, Neovim, scripted

TEXT = "# größe 😀 limit\nlimit = 2\nrest = limit\n"


@pytest.fixture(scope="module")
def model() -> Iterator[str]:
    with scripted(HERE / "language_plays.py") as url:
        yield url


@pytest.fixture
def editor(nvim: Neovim, model: str) -> Neovim:
    """Neovim with an open file and a running language server."""
    (nvim.workspace / "loop.py").write_text(TEXT, "utf-8")
    (nvim.workspace / "closed.py").write_text(TEXT, "utf-8")
    nvim.command("edit loop.py")
    nvim.lua(
        "vim.lsp.start({ name = 'toy', cmd = ..., filetypes = { 'python' }, root_dir = vim.fn.getcwd() })",
        [sys.executable, str(ROOT / "tests/support/toy_language_server.py")],
    )
    nvim.until("#vim.lsp.get_clients({ name = 'toy' }) > 0")
    nvim.setup_scripted(model, settings={"permissionMode": "accept_edits"})
    return nvim


def result(editor: Neovim, tool: str, **input: object) -> str:
    editor.ask(f"{tool} {json.dumps(input)}")
    return editor.until_shown("result: ").partition("result: ")[2]


@pytest.mark.requirement("X25")
@pytest.mark.parametrize(
    ("input", "expected"),
    [
        ({"find": "definition", "path": "loop.py", "line": 3, "symbol": "limit"}, "loop.py:2: limit = 2"),
        ({"find": "references", "path": "loop.py", "symbol": "limit"}, "loop.py:3: rest = limit"),
        ({"find": "references", "path": "closed.py", "symbol": "limit"}, "closed.py:3: rest = limit"),
        ({"find": "hover", "path": "loop.py", "line": 1, "symbol": "limit"}, "the word **limit**"),
        ({"find": "symbols", "path": "loop.py"}, "3: variable rest"),
        ({"find": "symbols", "symbol": "Retry"}, "loop.py:1: class Retry"),
    ],
    ids=str,
)
def test_agents_query_language_server(editor: Neovim, input: dict[str, object], expected: str) -> None:
    assert expected in result(editor, "lookup", **input)


@pytest.mark.requirement("X25")
def test_edit_result_includes_new_diagnostics(editor: Neovim) -> None:
    content = result(editor, "edit_file", path="loop.py", old_string="limit = 2", new_string="limit = BROKEN")
    assert "Changed loop.py: line 2." in content
    assert "line 2: error: this is broken [toy]" in content


@pytest.mark.requirement("X25")
def test_agents_see_diagnostics_of_the_editor(editor: Neovim) -> None:
    editor.lua("vim.api.nvim_buf_set_lines(0, 0, 1, false, { 'BROKEN' })")
    editor.until("#vim.diagnostic.get(0) > 0")
    assert "loop.py:1: error: this is broken [toy]" in result(editor, "diagnostics")


def test_query_without_language_server_returns_immediately_with_reason(editor: Neovim, workspace: Path) -> None:
    (workspace / "notes.md").write_text("limit\n", "utf-8")
    assert "The editor found none." in result(editor, "lookup", find="definition", path="notes.md", symbol="limit")
