"""Neovim without the plugin, configured as in docs/any-editor.md."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.editors.nvim.neovim import DEPUTY, Neovim, neovim
from tests.editors.plain.readme import lines_for

CHOOSE = """
vim.ui.select = function(items, options, choose)
  local shown = (options.prompt or '') .. ' ' .. (options.format_item and '' or vim.inspect(items))
  asked = asked or {}
  table.insert(asked, options.prompt)
  for _, answer in ipairs(answers) do
    if options.prompt:find(answer[1], 1, true) or answer[1] == '' then
      for _, item in ipairs(items) do
        local title = options.format_item and options.format_item(item) or item.title or item
        if title:find(answer[2], 1, true) then return choose(item) end
      end
    end
  end
  choose(nil)
end
"""


@pytest.fixture
def nvim(project: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Neovim]:
    monkeypatch.setenv("PATH", str(DEPUTY.parent), prepend=os.pathsep)
    with neovim(project, plugin=False) as editor:
        editor.lua(lines_for("Neovim 0.11, without the plugin", "lua"))
        editor.command("edit first.py")
        editor.until("vim.lsp.get_clients({ name = 'deputy' })[1] and vim.lsp.get_clients()[1].initialized")
        yield editor


def transcript(nvim: Neovim) -> str:
    """The text of the session's transcript, once it is open."""
    number = nvim.until(
        "vim.iter(vim.api.nvim_list_bufs()):find(function(b) "
        "return vim.api.nvim_buf_get_name(b):find('/transcripts/', 1, true) ~= nil end)"
    )
    return "\n".join(nvim.api.buffers[number][:]) if number else ""


@pytest.mark.requirement("P8")
def test_prompt_shows_progress_and_transcript_without_taking_focus(nvim: Neovim) -> None:
    nvim.lua("seen = {}; vim.api.nvim_create_autocmd('LspProgress', { callback = function(event) "
             "table.insert(seen, event.data.params.value.kind) end })")  # fmt: skip
    nvim.command("Deputy hello there")
    nvim.until(lambda: "You said: hello there" in transcript(nvim))
    nvim.until("vim.list_contains(seen, 'begin') and vim.list_contains(seen, 'end')")
    assert nvim.api.current.buffer.name.endswith("first.py")


@pytest.mark.requirement("P8")
def test_one_edit_is_approved_and_another_denied_in_the_messages(nvim: Neovim, project: Path) -> None:
    nvim.lua(
        f"answers = {{ {{ 'write_file(first.txt)', 'Approve' }}, {{ 'write_file(second.txt)', 'Deny' }} }}{CHOOSE}"
    )
    nvim.command("Deputy edit")
    nvim.until(lambda: "All is done" in transcript(nvim))
    assert (project / "first.txt").read_text("utf-8") == "the first text\n"
    assert not (project / "second.txt").exists()
    asked = nvim.lua("return asked")
    assert "[write the first] write_file(first.txt)" in asked[0]
    assert "+the first text" in asked[0]


@pytest.mark.requirement("P8")
def test_a_sub_agent_is_stopped_by_a_code_action_on_its_line(nvim: Neovim) -> None:
    nvim.lua(f"answers = {{ {{ '', 'Stop: look for ever' }} }}{CHOOSE}")
    nvim.command("Deputy look")
    nvim.until(lambda: "✓ completed · [look briefly]" in transcript(nvim))
    nvim.command("wincmd w")
    nvim.until("#vim.lsp.get_clients({ bufnr = 0 }) == 1")
    nvim.command("call search('look for ever')")
    nvim.lua("vim.lsp.buf.code_action()")
    nvim.until(lambda: "⊘ cancelled · [look for ever]" in transcript(nvim))
    nvim.until(lambda: "All is done" in transcript(nvim))


def test_a_selection_is_explained_by_a_code_action(nvim: Neovim) -> None:
    nvim.lua(f"answers = {{ {{ '', 'Deputy: explain this' }} }}{CHOOSE}")
    nvim.lua("vim.lsp.buf.code_action({ range = { start = { 1, 0 }, ['end'] = { 2, 0 } } })")
    nvim.until(lambda: "(about first.py:1-2)" in transcript(nvim))
