"""Unreviewed changes in files, the list of them, and going back to a checkpoint."""

import pytest

from tests.editors.nvim.neovim import Neovim

pytestmark = pytest.mark.requirement("R5")

HUNKS = "#require('deputy.changes').all()"


def changed(deputy: Neovim, prompt: str = "twice") -> None:
    """Two changes in loop.py that were approved; the cursor is at the start of that file."""
    deputy.command("edit loop.py")
    deputy.ask(prompt)
    deputy.until("#require('deputy.session').requests() > 0")
    deputy.lua("require('deputy').mode('accept_edits')")
    deputy.until_shown("All is done.")
    deputy.until(f"{HUNKS} > 0")
    deputy.command("wincmd t | 1")


def lines(deputy: Neovim) -> list[str]:
    return list(deputy.lua("return vim.api.nvim_buf_get_lines(vim.fn.bufnr('loop.py'), 0, -1, false)"))


def signs(deputy: Neovim) -> list[str]:
    """The rows with signs of the plugin in loop.py, from 0, each with its highlight group."""
    return list(
        deputy.lua(
            """local found = {}
               local ns, buffer = vim.api.nvim_get_namespaces()['deputy.review'], vim.fn.bufnr('loop.py')
               for _, mark in ipairs(vim.api.nvim_buf_get_extmarks(buffer, ns, 0, -1, { details = true })) do
                 if mark[4].sign_text then table.insert(found, mark[2] .. ' ' .. mark[4].sign_hl_group) end
               end
               return found"""
        )
    )


def test_changes_have_signs_old_lines_and_keys_and_are_kept_and_undone_one_by_one(deputy: Neovim) -> None:
    changed(deputy)
    deputy.until(lambda: signs(deputy) == ["1 DeputyChangeSign", "2 DeputyChangeSign"])
    shown = deputy.until_shown("fix twice +2 −2 · \\hk keep · \\hu undo")
    assert "~limit = 2 " in shown
    assert "~rest = 0 " in shown
    deputy.keys("]h")
    assert deputy.lua("return vim.fn.line('.')") == 2
    deputy.keys("\\hu")
    deputy.until(f"{HUNKS} == 0")
    assert lines(deputy) == ["# tries", "limit = 2", "rest = 0"]
    assert (deputy.workspace / "loop.py").read_text() == "# tries\nlimit = 2\nrest = 0\n"
    deputy.until(lambda: signs(deputy) == [])
    deputy.until("vim.tbl_isempty(vim.fn.maparg(']h', 'n', false, true))")


def test_next_change_goes_to_other_files_and_keeping_a_file_removes_its_marks(deputy: Neovim) -> None:
    changed(deputy, "edits please")
    assert deputy.until(f"{HUNKS} == 2")
    deputy.keys("]h")
    assert deputy.lua("return vim.fn.line('.')") == 2
    deputy.keys("]h")
    assert deputy.api.current.buffer.name.endswith("notes.md")
    deputy.keys("\\hK")
    deputy.until(f"{HUNKS} == 1")
    deputy.keys("[h")
    assert deputy.api.current.buffer.name.endswith("loop.py")
    deputy.lua("vim.fn.confirm = function(question) ASKED = question; return 1 end")
    deputy.lua("require('deputy').change('undo_all')")
    deputy.until(f"{HUNKS} == 0")
    assert deputy.lua("return ASKED") == "Undo 1 change of agents in 1 file? Lines that you typed stay."
    assert lines(deputy)[1] == "limit = 2"
    assert (deputy.workspace / "notes.md").read_text() == "It tries three times.\n"


def test_review_lists_all_changes_and_shows_each_file_as_a_diff(deputy: Neovim) -> None:
    changed(deputy, "edits please")
    deputy.command("DeputyReview")
    deputy.until("vim.bo.buftype == '' and #vim.fn.getqflist() == 2")
    listed = deputy.lua("return vim.tbl_map(function(item) return item.text end, vim.fn.getqflist())")
    assert listed == ["modified: fix both +1 −1", "modified: fix both +1 −1"]
    base = "vim.fn.bufnr('deputy://base/' .. vim.fn.fnamemodify(..., ':p'))"
    text = f"table.concat(vim.api.nvim_buf_get_lines({base}, 0, -1, false), '|')"
    deputy.until(f"{base} > 0 and {text} == '# tries|limit = 2|rest = 0'", "loop.py")
    assert deputy.lua("return vim.wo.diff and vim.fn.expand('%:t')") == "loop.py"
    deputy.command("cnext")
    deputy.until(f"{base} > 0 and {text} == 'It tries two times.'", "notes.md")
    deputy.until("vim.wo.diff and vim.fn.expand('%:t') == 'notes.md'")
    deputy.keys("\\hk")
    deputy.until("#vim.fn.getqflist() == 1")


def test_blame_and_hover_name_the_agent_of_a_line(deputy: Neovim) -> None:
    changed(deputy)
    deputy.command("2")
    deputy.keys("\\hb")
    shown = deputy.until_shown("fix twice")
    assert "to review" in deputy.until_shown("to review"), shown
    deputy.command("fclose")
    deputy.lua("vim.lsp.buf.hover()")
    deputy.until_shown("fix twice")


def test_own_keys_and_signs_of_other_plugins_stay(deputy: Neovim) -> None:
    deputy.command("edit loop.py")
    deputy.command("nnoremap <buffer> ]h :let g:own = 1<CR>")
    deputy.lua(
        "vim.api.nvim_buf_set_extmark(0, vim.api.nvim_create_namespace('gitsigns_signs_'), 1, 0, { sign_text = '┃' })"
    )
    changed(deputy)
    deputy.until(lambda: len(signs(deputy)) == 2)
    deputy.keys("]h")
    assert deputy.lua("return vim.g.own") == 1
    other = "vim.api.nvim_get_namespaces()['gitsigns_signs_']"
    assert deputy.lua(f"return #vim.api.nvim_buf_get_extmarks(0, {other}, 0, -1, {{}})") == 1
    deputy.command("nmap <buffer> gk <Plug>(deputy-keep)")
    deputy.command("2")
    deputy.keys("gk")
    deputy.until(f"{HUNKS} == 0")


CHOOSE = """CHOICES, ASKED = ..., {}
vim.ui.select = function(items, options, done)
  table.insert(ASKED, { options.prompt, vim.tbl_map(options.format_item, items) })
  local wanted = table.remove(CHOICES, 1)
  for _, item in ipairs(items) do
    if options.format_item(item):find(wanted, 1, true) then return done(item) end
  end
  done(nil)
end"""


def test_rewind_restores_files_and_the_prompt_can_be_undone_and_a_fork_goes_on(deputy: Neovim) -> None:
    changed(deputy)
    session = deputy.lua("return require('deputy.session').current")
    deputy.lua(CHOOSE, ["twice", "Files and conversation"])
    deputy.command("DeputyRewind")
    deputy.until(lambda: lines(deputy)[1:] == ["limit = 2", "rest = 0"])
    deputy.until("vim.bo.filetype == 'deputy_input' and vim.api.nvim_get_current_line() == 'twice'")
    deputy.until(f"{HUNKS} == 0")
    assert deputy.lua("return ASKED[2][1]") == "loop.py +2 −2\nGo back with"
    deputy.until(
        "#require('deputy.session').get().state.transcripts[require('deputy.session').get().state.primary] == 0"
    )
    deputy.lua(CHOOSE, ["Before going back to: twice", "Files and conversation"])
    deputy.command("DeputyRewind")
    deputy.until(lambda: lines(deputy)[1:] == ["limit = 3", "rest = 1"])
    deputy.until_shown("All is done.")
    deputy.lua(CHOOSE, ["Before going back to"])
    deputy.command("DeputyFork")
    deputy.until("require('deputy.session').current ~= ...", session)
    deputy.until_shown("Fork of twice")


@pytest.mark.requirement("R9")
def test_an_edit_in_the_transcript_shows_its_counts_and_unfolds_to_its_change(deputy: Neovim) -> None:
    deputy.ask("edits please")
    deputy.until_shown("▾ ? fix both")  # its request unfolds it
    deputy.lua("require('deputy').mode('accept_edits')")
    deputy.until_shown("All is done.")
    deputy.until_shown("edit_file(loop.py)  +1 −1")
    deputy.at("edit_file(loop.py)")
    deputy.keys("<Tab>")
    shown = deputy.until_shown("+limit = 3")
    assert "-limit = 2" in shown
    groups = deputy.lua(
        """local found, row = {}, vim.fn.search('-limit = 2') - 1
           for _, mark in ipairs(vim.api.nvim_buf_get_extmarks(0, -1, { row, 0 }, { row, -1 }, { details = true })) do
             table.insert(found, mark[4].hl_group)
           end
           return found"""
    )
    assert "DeputyDelete" in groups


@pytest.mark.requirement("R9")
def test_slash_command_goes_back_and_puts_the_prompt_into_the_input(deputy: Neovim) -> None:
    changed(deputy, "edits please")
    deputy.ask("/rewind 1")
    deputy.until(lambda: lines(deputy)[1] == "limit = 2")
    deputy.until("vim.api.nvim_buf_get_lines(require('deputy.input').buffer(), 0, 1, false)[1] == 'edits please'")
    assert (deputy.workspace / "notes.md").read_text() == "It tries two times.\n"
    deputy.until(lambda: "Went back to before edits please" in deputy.everything().replace("*", ""))
