"""Actions on agents: messages, modes and models, and other ways to settle a permission request."""

import pytest

from tests.editors.nvim.neovim import Neovim
from tests.editors.nvim.test_permission_requests import OPEN, opened, text_of
from tests.editors.nvim.test_session import STATE


def type_in(deputy: Neovim, text: str) -> None:
    """Answers every input prompt with ``text``."""
    deputy.lua("local text = ...; vim.ui.input = function(how, done) ASKED = how.prompt; done(text) end", text)


def test_key_sends_message_to_running_agent(deputy: Neovim) -> None:
    opened(deputy, "steered")
    type_in(deputy, "check the rest")
    deputy.lua("NOTICED = {}; vim.notify = function(words) table.insert(NOTICED, words) end")
    deputy.at("▾ ? fix and listen")
    deputy.keys("s")
    assert deputy.lua("return ASKED") == "Message to [fix and listen]: "
    deputy.until("#NOTICED > 0")
    assert deputy.lua("return NOTICED") == ["Deputy: [fix and listen] reads the message once its approval is answered."]
    deputy.at("▾ ? fix and listen")
    deputy.keys("<CR>")
    deputy.until_shown("read-only: transcript of [fix and listen]")
    deputy.at("edit_file(loop.py)")
    deputy.at("┌ ")
    deputy.keys("a")
    shown = deputy.until_shown("I got your message.")
    assert "Message\ncheck the rest" in shown


def test_command_sends_message_to_running_agent(deputy: Neovim) -> None:
    opened(deputy, "steered")
    assert deputy.api.funcs.getcompletion("DeputySteer fix an", "cmdline") == ["and listen"]
    deputy.command("DeputySteer fix and listen check the rest")
    deputy.command("wincmd t")
    deputy.keys("\\a")
    deputy.until_shown("All is done.")
    deputy.command("DeputyThread fix and listen")
    deputy.until_shown("I got your message.")


def test_message_to_finished_or_unknown_agent_is_reported_as_error(deputy: Neovim) -> None:
    deputy.ask("look around")
    deputy.until_shown("All is done.")
    deputy.lua("NOTICED = {}; vim.notify = function(words) table.insert(NOTICED, words) end")
    deputy.command("DeputySteer read the code faster")
    deputy.until("#NOTICED > 0")
    assert "Deputy: " in deputy.lua("return NOTICED[1]")
    deputy.command("DeputySteer unknown hello")
    assert deputy.lua("return NOTICED[2]") == ('Deputy: no agent is named "unknown hello". <Tab> completes names.')


def test_mode_that_allows_an_edit_closes_its_permission_request(deputy: Neovim) -> None:
    opened(deputy)
    deputy.command("DeputyMode accept_edits")
    deputy.until(f"{OPEN} == 0")
    deputy.until_shown("All is done.")
    deputy.until_shown("· mode accept_edits")
    assert "~?" not in deputy.everything()
    assert text_of(deputy, "loop.py") == ["# tries", "limit = 3", "rest = 0"]
    deputy.until("vim.tbl_isempty(vim.fn.maparg('\\\\a', 'n', false, true))")


@pytest.mark.requirement("R10")
def test_mode_is_selected_from_list_and_invalid_mode_is_reported(deputy: Neovim) -> None:
    deputy.ask("hello")
    deputy.until_shown("You said: hello")
    deputy.lua(
        """vim.ui.select = function(items, how, done)
             OFFERED, LABELS = items, vim.tbl_map(how.format_item, items)
             done('plan')
           end"""
    )
    deputy.command("DeputyMode")
    deputy.until_shown("· mode plan")
    assert deputy.lua("return OFFERED") == ["plan", "default", "accept_edits", "bypass"]
    assert [label.split(":")[1] for label in deputy.lua("return LABELS")][1:3] == [" ask first", " review after"]
    assert deputy.api.funcs.getcompletion("DeputyMode ac", "cmdline") == ["accept_edits"]
    deputy.lua("NOTICED = {}; vim.notify = function(words) table.insert(NOTICED, words) end")
    deputy.command("DeputyMode yolo")
    deputy.until("#NOTICED > 0")
    assert "permissionMode" in deputy.lua("return NOTICED[1]")


def test_window_shows_changed_model(deputy: Neovim) -> None:
    deputy.ask("hello")
    deputy.until_shown("Deputy · hello · m")
    deputy.command("DeputyModel other-model")
    deputy.until_shown("Deputy · hello · other-model")


def test_permission_request_answered_by_another_client_closes(deputy: Neovim) -> None:
    opened(deputy)
    # Not with the plugin, but as another client of the same server does.
    deputy.lua(
        """local client = vim.lsp.get_clients({ name = 'deputy' })[1]
           local request = require('deputy.session').requests()[1]
           client:exec_cmd({ title = '', command = 'deputy.answerPermission',
             arguments = { { requestId = request.requestId, optionId = request.options[1].optionId } } })"""
    )
    deputy.until(f"{OPEN} == 0")
    deputy.until_shown("All is done.")
    assert "~?" not in deputy.everything()
    assert text_of(deputy, "loop.py") == ["# tries", "limit = 3", "rest = 0"]


def test_running_agent_shows_icon_definition_and_activity(deputy: Neovim) -> None:
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


def test_agents_emit_language_server_progress(deputy: Neovim) -> None:
    deputy.lua(
        """TITLES = {}
           vim.api.nvim_create_autocmd('LspProgress', { callback = function(event)
             local value = event.data.params.value
             if value.kind == 'begin' then table.insert(TITLES, value.title) end
           end })"""
    )
    deputy.ask("look around")
    deputy.until_shown("All is done.")
    assert {"general: read the code", "general: read the notes"} <= set(deputy.lua("return TITLES"))


@pytest.mark.requirement("X28")
def test_many_permission_requests_make_one_notification_and_a_later_one_another(deputy: Neovim) -> None:
    deputy.lua("NOTICED = {}; vim.notify = function(words) table.insert(NOTICED, words) end")
    deputy.ask("many")
    deputy.until(f"{OPEN} == 12")
    deputy.until_shown("12 waiting for you")
    assert deputy.lua("return NOTICED") == ["Deputy needs approval: write_file(new0.txt)"]
    assert not deputy.api.request("nvim_get_mode")["blocking"]
    deputy.command("DeputyStop")
    deputy.until(f"{STATE}.turn == nil")
    deputy.ask("shell please")
    deputy.until(f"{OPEN} == 1")
    deputy.until("#NOTICED == 2")
