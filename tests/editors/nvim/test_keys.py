"""Keys: every `<Plug>` map, the user's own mappings, and the undo steps and marks that edits leave."""

import re

import pytest

from tests.editors.nvim.neovim import PLUGIN, Neovim
from tests.editors.nvim.test_permission_requests import OPEN, opened, text_of
from tests.editors.nvim.test_session import STATE

MANUAL = (PLUGIN / "doc/deputy.txt").read_text("utf-8")


def plugs(deputy: Neovim, which: str) -> set[str]:
    """The ``<Plug>`` maps in a list of maps, without the prefix."""
    names = deputy.lua(f"return vim.tbl_map(function(map) return map.lhs end, {which})")
    return {name[len("<Plug>(deputy-") : -1] for name in names if name.startswith("<Plug>(deputy-")}


def test_every_plug_map_is_there_and_in_the_manual(deputy: Neovim) -> None:
    everywhere = plugs(deputy, "vim.api.nvim_get_keymap('n')")
    named = set(re.findall(r"<Plug>\(deputy-([a-z-]+)\)", MANUAL))
    assert everywhere == {name for name in named if not name.startswith("session-")}
    deputy.ask("hello")
    deputy.until_shown("You said: hello")
    deputy.at("You said: hello")
    actions = set(deputy.lua("return vim.tbl_keys(require('deputy.config').defaults.keys.session)"))
    here = plugs(deputy, "vim.api.nvim_buf_get_keymap(0, 'n')")
    assert here == {"session-" + action.replace("_", "-") for action in actions}


def test_all_can_be_done_by_plug_maps_alone(deputy: Neovim, model: str) -> None:
    deputy.setup_scripted(model, keys=False)
    deputy.command("edit loop.py")
    deputy.keys("<Plug>(deputy-toggle)")
    deputy.until("require('deputy.session').get()")
    deputy.command("wincmd t")
    deputy.ask("edits please")
    deputy.until(f"{OPEN} == 2")
    deputy.until_shown("~? [fix both] edit_file(loop.py)")
    assert deputy.lua("return vim.fn.maparg('\\\\a', 'n')") == ""
    deputy.keys("<Plug>(deputy-next-question)")
    assert deputy.api.current.buffer.name.endswith("notes.md")
    deputy.keys("<Plug>(deputy-prev-question)")
    assert deputy.api.current.buffer.name.endswith("loop.py")
    deputy.keys("<Plug>(deputy-approve)")
    deputy.until(f"{OPEN} == 1")
    deputy.keys("<Plug>(deputy-inbox)")
    deputy.until_shown("Deputy · approvals")
    deputy.keys("<Plug>(deputy-session-deny)")
    deputy.until(f"{STATE}.turn == nil")
    deputy.keys("<Plug>(deputy-session-close)")
    deputy.keys("<Plug>(deputy-agents)")
    deputy.at("fix both  general  completed")
    deputy.keys("<Plug>(deputy-session-open)")
    deputy.until_shown("read-only: transcript of [fix both]")
    deputy.keys("<Plug>(deputy-session-parent)")
    deputy.until_shown("All is done.")
    deputy.keys("<Plug>(deputy-session-close)")
    assert "All is done." not in deputy.everything()
    deputy.keys("<Plug>(deputy-toggle)")
    deputy.until_shown("All is done.")


def test_user_keys_replace_default_keys(deputy: Neovim, model: str) -> None:
    deputy.setup_scripted(model, keys={"session": {"toggle": "za", "stop": False}, "inline": {"approve": "<leader>y"}})
    opened(deputy)
    assert "~  \\y approve" in deputy.everything()
    deputy.at("fix the limit")
    assert deputy.lua("return { vim.fn.maparg('x', 'n'), vim.fn.maparg('<Tab>', 'n') }") == ["", ""]
    deputy.keys("za")
    deputy.until_shown("▸ ? fix the limit")
    deputy.command("wincmd t")
    deputy.keys("\\y")
    deputy.until_shown("All is done.")
    assert text_of(deputy, "loop.py") == ["# tries", "limit = 3", "rest = 0"]


def test_user_mapping_in_a_file_is_not_replaced(deputy: Neovim) -> None:
    deputy.command("edit loop.py")
    deputy.command("nnoremap <buffer> \\a :let g:mine = 1<CR>")
    opened(deputy)
    deputy.keys("\\a")
    assert deputy.lua("return vim.g.mine") == 1
    deputy.keys("\\d")
    deputy.until(f"{OPEN} == 0")
    assert deputy.lua("return vim.fn.maparg('\\\\a', 'n')").startswith(":let")


def test_two_edits_of_one_file_are_two_undo_steps_and_marks_stay(deputy: Neovim) -> None:
    opened(deputy, "twice")
    deputy.until(f"{OPEN} == 2")
    deputy.lua("vim.fn.confirm = function() return 1 end")
    deputy.keys("\\ga")
    deputy.until_shown("All is done.")
    assert text_of(deputy, "loop.py") == ["# tries", "limit = 3", "rest = 1"]
    assert deputy.lua('return { vim.fn.line("\'a"), vim.fn.line("\'b") }') == [2, 3]
    deputy.command("undo")
    assert text_of(deputy, "loop.py") == ["# tries", "limit = 3", "rest = 0"]
    deputy.command("undo")
    assert text_of(deputy, "loop.py") == ["# tries", "limit = 2", "rest = 0"]
    deputy.command("redo")
    assert text_of(deputy, "loop.py") == ["# tries", "limit = 3", "rest = 0"]


def test_file_without_unsaved_changes_is_saved_after_edit_and_others_are_not(deputy: Neovim) -> None:
    deputy.command("edit notes.md")
    deputy.keys("Gomine<Esc>")
    opened(deputy, "edits please")
    deputy.until(f"{OPEN} == 2")
    deputy.lua("vim.fn.confirm = function() return 1 end")
    deputy.keys("\\ga")
    deputy.until_shown("All is done.")
    assert (deputy.workspace / "loop.py").read_text() == "# tries\nlimit = 3\nrest = 0\n"
    assert text_of(deputy, "notes.md") == ["It tries three times.", "mine"]
    assert (deputy.workspace / "notes.md").read_text() == "It tries two times.\n"


def test_typed_text_is_a_separate_undo_step(deputy: Neovim) -> None:
    deputy.command("edit loop.py")
    deputy.keys("Gorest = 9<Esc>")
    deputy.ask("edit it")
    deputy.until_shown("~? [fix the limit]")
    deputy.keys("\\a")
    deputy.until_shown("All is done.")
    assert text_of(deputy, "loop.py") == ["# tries", "limit = 3", "rest = 0", "rest = 9"]
    deputy.command("undo")
    assert text_of(deputy, "loop.py") == ["# tries", "limit = 2", "rest = 0", "rest = 9"]


@pytest.mark.requirement("X5")
def test_all_permission_requests_of_one_agent_are_approved_at_the_code(deputy: Neovim) -> None:
    opened(deputy, "edits please")
    deputy.until(f"{OPEN} == 2")
    deputy.until_shown("\\ga approve all 2 of this agent")
    deputy.lua("vim.fn.confirm = function(question) CONFIRMED = question; return 2 end")
    deputy.keys("\\ga")
    shown = deputy.lua("return CONFIRMED").splitlines()[1:]
    assert [line for line in shown if line.startswith("  [")] == [
        "  [fix both] edit_file(loop.py)",
        "  [fix both] edit_file(notes.md)",
    ]
    assert "    +limit = 3" in shown, "the combined change is shown"
    assert "    +It tries three times." in shown
    assert deputy.lua(f"return {OPEN}") == 2
    deputy.lua("vim.fn.confirm = function() return 1 end")
    deputy.keys("\\ga")
    deputy.until_shown("All is done.")
    assert text_of(deputy, "loop.py") == ["# tries", "limit = 3", "rest = 0"]
    assert (deputy.workspace / "notes.md").read_text() == "It tries three times.\n"


def test_lasting_approval_prevents_further_requests(deputy: Neovim) -> None:
    opened(deputy)
    deputy.keys("\\A")
    deputy.until_shown("All is done.")
    deputy.command("undo")
    deputy.command("write")
    deputy.ask("edit it again")
    deputy.until(lambda: deputy.everything().count("All is done.") == 2)
    assert text_of(deputy, "loop.py") == ["# tries", "limit = 3", "rest = 0"]


def test_change_of_first_line_is_visible_with_its_header(deputy: Neovim) -> None:
    opened(deputy, "top")
    lines = deputy.everything().splitlines()
    at = lines.index("# tries")
    assert lines[at + 1] == "~? [fix the top] edit_file(loop.py)  1 of 1"
    assert any(line.startswith("~# all tries") for line in lines[at + 2 : at + 6])


def test_a_change_stays_at_its_place_while_the_user_types_above_it(deputy: Neovim) -> None:
    opened(deputy)
    deputy.keys("ggOone<CR>two<Esc>")
    shown = deputy.until_shown("~? [fix the limit]").splitlines()
    assert shown[shown.index("limit = 2") + 1].startswith("~limit = 3 ")


def test_the_keys_of_the_session_lead_to_help_lists_input_and_files(deputy: Neovim) -> None:
    deputy.ask("look around")
    deputy.at("All is done.")
    deputy.keys("g?")
    assert deputy.api.current.buffer.options["filetype"] == "help"
    deputy.command("quit")
    deputy.at("All is done.")
    deputy.keys("gA")
    deputy.until_shown("Deputy · agents")
    deputy.keys("gi")
    deputy.until_shown("No open approvals.")
    deputy.keys("q")
    deputy.at("All is done.")
    deputy.keys("i")
    assert deputy.api.current.buffer.options["filetype"] == "deputy_input"
    deputy.command("stopinsert")
    deputy.command("quit")
    deputy.at("All is done.")
    deputy.keys("i")
    assert deputy.api.current.buffer.options["filetype"] == "deputy_input"
    deputy.command("stopinsert")
    deputy.at("read the code")
    deputy.keys("<Tab>")
    deputy.at("✓ read_file(loop.py)")
    deputy.keys("<Tab>")
    deputy.until_shown("limit = 2")
    deputy.at("✓ read_file(loop.py)")
    deputy.keys("<CR>")
    assert deputy.api.current.buffer.name.endswith("loop.py")


def test_edit_of_an_outdated_version_is_rejected(deputy: Neovim) -> None:
    opened(deputy)
    uri = (deputy.workspace / "loop.py").as_uri()
    answer = deputy.lua(
        """local uri = ...
           local client = vim.lsp.get_clients({ name = 'deputy' })[1]
           local buf = vim.uri_to_bufnr(uri)
           local version = vim.lsp.util.buf_versions[buf]
           vim.api.nvim_buf_set_lines(buf, 0, 0, false, { 'typed' })
           local place = { line = 0, character = 0 }
           local edits = { { range = { start = place, ['end'] = place }, newText = 'x' } }
           local change = { textDocument = { uri = uri, version = version }, edits = edits }
           local params = { edit = { documentChanges = { change } } }
           return client.handlers['workspace/applyEdit'](nil, params, { client_id = client.id })""",
        uri,
    )
    assert answer == {"applied": False, "failureReason": "the text has changed since"}
    assert text_of(deputy, "loop.py") == ["typed", "# tries", "limit = 2", "rest = 0"]
