"""What can be done to agents: steering, modes and models, other ways to settle a question, commands of other names."""

import pytest

from tests.editors.nvim.neovim import Neovim
from tests.editors.nvim.test_questions import OPEN, opened, text_of
from tests.editors.nvim.test_session import STATE


def type_in(deputy: Neovim, words: str) -> None:
    """Has every input of a line answered with ``words``."""
    deputy.lua("local words = ...; vim.ui.input = function(how, done) ASKED = how.prompt; done(words) end", words)


def test_a_running_agent_is_told_something_by_its_key_and_hears_it(deputy: Neovim) -> None:
    opened(deputy, "steered")
    type_in(deputy, "mind the rest")
    deputy.lua("NOTICED = {}; vim.notify = function(words) table.insert(NOTICED, words) end")
    deputy.at("▾ ? fix and listen")
    deputy.keys("s")
    assert deputy.lua("return ASKED") == "To [fix and listen]: "
    deputy.until("#NOTICED > 0")
    assert deputy.lua("return NOTICED") == ["Deputy: [fix and listen] reads that once its question is answered."]
    deputy.at("▾ ? fix and listen")
    deputy.keys("<CR>")
    deputy.until_shown("read-only: thread of [fix and listen]")
    deputy.at("edit_file(loop.py)")
    deputy.at("┌ ")
    deputy.keys("a")
    shown = deputy.until_shown("I was told of the rest.")
    assert "Told\nmind the rest" in shown


def test_a_running_agent_is_told_something_by_command(deputy: Neovim) -> None:
    opened(deputy, "steered")
    assert deputy.api.funcs.getcompletion("DeputySteer fix an", "cmdline") == ["and listen"]
    deputy.command("DeputySteer fix and listen mind the rest")
    deputy.command("wincmd t")
    deputy.keys("\\a")
    deputy.until_shown("All is said.")
    deputy.command("DeputyThread fix and listen")
    deputy.until_shown("I was told of the rest.")


def test_an_agent_that_has_ended_cannot_be_told_anything_and_that_is_said(deputy: Neovim) -> None:
    deputy.ask("look around")
    deputy.until_shown("All is said.")
    deputy.lua("NOTICED = {}; vim.notify = function(words) table.insert(NOTICED, words) end")
    deputy.command("DeputySteer read the code faster")
    deputy.until("#NOTICED > 0")
    assert "Deputy: " in deputy.lua("return NOTICED[1]")
    deputy.command("DeputySteer nobody go on")
    assert deputy.lua("return NOTICED[2]") == ('Deputy: no agent is called "nobody go on". <Tab> completes names.')


def test_a_mode_that_allows_it_settles_an_open_permission_request_which_then_goes_away(deputy: Neovim) -> None:
    opened(deputy)
    deputy.command("DeputyMode accept_edits")
    deputy.until(f"{OPEN} == 0")
    deputy.until_shown("All is said.")
    deputy.until_shown("· mode accept_edits")
    assert "~?" not in deputy.everything()
    assert text_of(deputy, "loop.py") == ["# tries", "limit = 3", "rest = 0"]
    deputy.until("vim.tbl_isempty(vim.fn.maparg('\\\\a', 'n', false, true))")


def test_a_mode_is_chosen_from_a_list_where_none_is_named_and_a_wrong_one_is_told(deputy: Neovim) -> None:
    deputy.ask("hello")
    deputy.until_shown("You said: hello")
    deputy.lua("vim.ui.select = function(items, how, done) OFFERED = items; done('plan') end")
    deputy.command("DeputyMode")
    deputy.until_shown("· mode plan")
    assert deputy.lua("return OFFERED") == ["plan", "default", "accept_edits", "bypass"]
    assert deputy.api.funcs.getcompletion("DeputyMode ac", "cmdline") == ["accept_edits"]
    deputy.lua("NOTICED = {}; vim.notify = function(words) table.insert(NOTICED, words) end")
    deputy.command("DeputyMode yolo")
    deputy.until("#NOTICED > 0")
    assert "permissionMode" in deputy.lua("return NOTICED[1]")


def test_another_model_is_named_in_the_window(deputy: Neovim) -> None:
    deputy.ask("hello")
    deputy.until_shown("Deputy · hello · m")
    deputy.command("DeputyModel other-model")
    deputy.until_shown("Deputy · hello · other-model")


def test_a_permission_request_that_another_client_answers_goes_away(deputy: Neovim) -> None:
    opened(deputy)
    # Not by the plugin: as another program that speaks to the same server would.
    deputy.lua(
        """local client = vim.lsp.get_clients({ name = 'deputy' })[1]
           local asked = require('deputy.session').questions()[1]
           client:exec_cmd({ title = '', command = 'deputy.answerPermission',
             arguments = { { requestId = asked.requestId, optionId = asked.options[1].optionId } } })"""
    )
    deputy.until(f"{OPEN} == 0")
    deputy.until_shown("All is said.")
    assert "~?" not in deputy.everything()
    assert text_of(deputy, "loop.py") == ["# tries", "limit = 3", "rest = 0"]


def test_an_agent_at_work_shows_its_icon_its_definition_and_what_it_does(deputy: Neovim) -> None:
    deputy.ask("typed")
    deputy.until_shown("▸ ⟳ where is the limit  ⌕ code_search  running")
    deputy.lua(
        """local state = require('deputy.session').get().state
           for id, node in pairs(state.agents) do
             if node.parentAgentId then state.activities[id] = 'grep limit' end
           end
           require('deputy.panel').redraw()"""
    )
    line = next(line for line in deputy.everything().splitlines() if "where is the limit  ⌕" in line)
    assert "⌕  running  grep limit" in line
    assert line.rstrip().endswith("0 calls")
    deputy.command("DeputyAgents")
    deputy.until_shown("where is the limit  ⌕ code_search  running  grep limit")
    deputy.command("DeputyStop")
    deputy.until(f"{STATE}.turn == nil")


def test_language_server_progress_comes_as_usual(deputy: Neovim) -> None:
    deputy.lua(
        """TITLES = {}
           vim.api.nvim_create_autocmd('LspProgress', { callback = function(event)
             local value = event.data.params.value
             if value.kind == 'begin' then table.insert(TITLES, value.title) end
           end })"""
    )
    deputy.ask("look around")
    deputy.until_shown("All is said.")
    assert {"general: read the code", "general: read the notes"} <= set(deputy.lua("return TITLES"))


@pytest.mark.requirement("X28")
def test_many_permission_requests_make_one_quiet_notice_and_a_later_one_another(deputy: Neovim) -> None:
    deputy.lua("NOTICED = {}; vim.notify = function(words) table.insert(NOTICED, words) end")
    deputy.ask("many")
    deputy.until(f"{OPEN} == 12")
    deputy.until_shown("12 waiting for you")
    assert deputy.lua("return NOTICED") == ["Deputy asks: write_file(new0.txt)"]
    assert not deputy.api.request("nvim_get_mode")["blocking"]
    deputy.command("DeputyStop")
    deputy.until(f"{STATE}.turn == nil")
    deputy.ask("shell please")
    deputy.until(f"{OPEN} == 1")
    deputy.until("#NOTICED == 2")
