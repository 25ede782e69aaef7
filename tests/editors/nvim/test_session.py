"""The session window, with the real server and a scripted model."""

import pytest

from tests.editors.nvim.neovim import Neovim

STATE = "require('deputy.session').get().state"
WRITTEN = "table.concat(vim.api.nvim_buf_get_lines(require('deputy.input').buffer(), 0, -1, false), '\\n')"


def test_the_offline_model_answers_from_a_plain_runtimepath(nvim: Neovim) -> None:
    (nvim.workspace / "a.py").write_text("retries = 3\n")
    nvim.setup(settings={"model": "offline"})
    nvim.ask("where is retries set?")
    nvim.until_shown("3 finished")
    nvim.until_shown("Start with `a.py:1`.")


@pytest.mark.requirement("P6")
def test_two_children_run_in_parallel_folded_and_unfold_to_their_calls(deputy: Neovim) -> None:
    deputy.ask("look around")
    deputy.until_shown("All is done.")
    shown = deputy.everything()
    assert "▸ ✓ read the code  general  completed" in shown
    assert "▸ ✓ read the notes  general  completed" in shown
    assert "1 call" in shown
    assert "read_file(loop.py)" not in shown
    deputy.at("read the code")
    deputy.keys("<Tab>")
    unfolded = deputy.until_shown("▾ ✓ read the code")
    assert "✓ read_file(loop.py)" in unfolded
    assert "I have read the code" in unfolded
    deputy.keys("<Tab>")
    assert "read_file(loop.py)" not in deputy.until_shown("▸ ✓ read the code")


def test_an_answer_streams_and_the_cursor_stays_where_the_user_put_it(deputy: Neovim) -> None:
    deputy.ask("hello")
    deputy.at("You said: hello")
    before = deputy.api.current.window.cursor
    deputy.command("wincmd p")
    deputy.ask("stream please")
    deputy.until(f"next({STATE}.streaming) ~= nil")
    deputy.until(f"{STATE}.turn == nil")
    deputy.until_shown("A long answer. A long answer.")
    assert deputy.lua("return vim.fn.win_findbuf(vim.fn.bufnr('deputy://session/*/primary'))")
    deputy.at("You said: hello")
    assert deputy.api.current.window.cursor == before


@pytest.mark.requirement("E13", "P6")
def test_sub_agent_opens_as_read_only_transcript_with_keys_to_siblings_and_parent(deputy: Neovim) -> None:
    deputy.ask("look around")
    deputy.until_shown("All is done.")
    deputy.at("read the code")
    deputy.keys("<CR>")
    thread = deputy.until_shown("read-only: transcript of [read the code] · parent: session · completed")
    assert "I have read the code" in thread
    assert not deputy.api.current.buffer.options["modifiable"]
    assert "sends" not in thread
    deputy.keys("]t")
    deputy.until_shown("read-only: transcript of [read the notes]")
    deputy.keys("-")
    deputy.until_shown("▸ ✓ read the code")
    assert "read-only" not in deputy.everything()


@pytest.mark.requirement("P6")
def test_one_of_three_is_stopped_by_its_key_another_by_command_then_all(deputy: Neovim) -> None:
    deputy.ask("three of them")
    deputy.until_shown("3 running")
    deputy.at("never ends, two")
    deputy.keys("x")
    deputy.until_shown("⊘ never ends, two  general  cancelled")
    deputy.until_shown("2 running, 1 finished")
    assert deputy.api.funcs.getcompletion("DeputyCancel never ends, t", "cmdline") == ["three"]
    deputy.command("DeputyCancel never ends, one")
    deputy.until_shown("1 running, 2 finished")
    deputy.command("DeputyStop")
    deputy.until_shown("0 running, 3 finished")


def test_stopping_from_a_line_that_names_no_agent_needs_a_confirmation(deputy: Neovim) -> None:
    deputy.lua("ASKED = {}; ANSWER = 2; vim.fn.confirm = function(text) table.insert(ASKED, text) return ANSWER end")
    deputy.ask("three of them")
    deputy.until_shown("3 running")
    deputy.at("three of them")
    deputy.keys("x")
    deputy.at("never ends, two")
    deputy.keys("<CR>")
    deputy.until_shown("read-only: transcript of [never ends, two]")
    deputy.keys("ggx-")
    deputy.until_shown("3 running")
    assert deputy.lua("return ASKED") == ["Stop all agents?", "Stop [never ends, two]?"]
    deputy.lua("ANSWER = 1")
    deputy.at("three of them")
    deputy.keys("x")
    deputy.until_shown("0 running, 3 finished")


def test_only_messages_are_markdown(nvim: Neovim) -> None:
    item = "{ lines = { 'Deputy', 'a **b** c', '```', 'd **e**' }, marks = {}, markdown = 1 }"
    command = "{ lines = { 'Ran a **b** c', '# d' }, marks = {} }"
    nvim.lua(f"local pane = require('deputy.pane').open('x', 'deputy'); pane:show({{ {command}, {item}, {command} }})")
    nvim.command("buffer deputy://x")
    nvim.lua("vim.treesitter.get_parser():parse(true)")
    found = nvim.lua("""return vim.tbl_map(function(row)
      return vim.iter(vim.treesitter.get_captures_at_pos(0, row, row == 3 and 3 or 6)):any(function(found)
        return vim.startswith(found.capture, 'markup')
      end)
    end, { 0, 1, 3, 5, 6, 7 })""")
    assert found == [False, False, True, True, False, False]


@pytest.mark.parametrize(
    ("reason", "word"),
    [("timed_out", "timed out"), ("approval_denied", "denied by you"), ("sub_agent_error", "gave up"), ("?", "failed")],
)
def test_the_cause_of_a_failure_is_in_plain_words(nvim: Neovim, reason: str, word: str) -> None:
    state, node = "{ requests = {}, inputs = {}, details = {} }", f"{{ status = 'failed', failureReason = '{reason}' }}"
    assert nvim.lua(f"return require('deputy.labels').word_of({state}, {node})") == word


@pytest.mark.requirement("E13", "P6")
def test_the_tree_lists_agents_and_the_status_line_counts_them(deputy: Neovim) -> None:
    assert deputy.lua("return require('deputy').statusline()") == ""
    deputy.ask("look around")
    deputy.until_shown("All is done.")
    deputy.command("DeputyAgents")
    tree = deputy.until_shown("Deputy · agents")
    assert "· primary  idle" in tree
    assert "  ✓ read the code  general  completed" in tree
    assert deputy.lua("return require('deputy').statusline()") == "Agents: 1 primary, 0 running, 2 finished"


@pytest.mark.requirement("M7")
def test_the_use_of_the_context_window_is_shown(deputy: Neovim) -> None:
    deputy.ask("look around")
    deputy.until_shown("All is done.")
    deputy.until(f"{STATE}.turn == nil")
    deputy.command("DeputyContext")
    deputy.until_shown("tokens used")
    deputy.lua(f"local state = {STATE}; state.agents[state.primary].context = {{ used = 84, window = 200 }}")
    assert deputy.lua("return require('deputy').statusline()").endswith(" · context 42 %")
    deputy.lua(f"for _, node in pairs({STATE}.agents) do node.usage.cost = 0.2425 end")
    count = deputy.lua(f"return vim.tbl_count({STATE}.agents)")
    shown = deputy.lua("return require('deputy').statusline()")
    assert shown.endswith(f" · context 42 % · ${0.2425 * count:.2f}")
    deputy.lua(f"for _, node in pairs({STATE}.agents) do node.usage.cost = 0.0001 end")
    assert deputy.lua("return require('deputy').statusline()").endswith(" · <$0.01")


def test_a_plan_is_shown_and_a_queued_prompt_can_be_withdrawn(deputy: Neovim) -> None:
    deputy.ask("plan it")
    deputy.until_shown("☑ look")
    deputy.until_shown("▸ act")
    deputy.until(f"{STATE}.turn == nil")
    deputy.ask("wait for it")
    deputy.until(f"{STATE}.turn ~= nil")
    deputy.ask("later")
    deputy.at("… queued  later")
    deputy.keys("U")
    deputy.until(f"#{STATE}.promptQueue == 0")
    deputy.until(f"{WRITTEN} == 'later'")
    deputy.command("DeputyStop")
    deputy.until(f"{STATE}.turn == nil")


def test_queued_prompts_move_into_input_area_when_all_agents_are_stopped(deputy: Neovim) -> None:
    deputy.ask("wait for it")
    deputy.until("require('deputy.session').get() ~= nil")
    deputy.until(f"{STATE}.turn ~= nil")
    for words in ("first", "second"):
        deputy.ask(words)
    deputy.until(f"#{STATE}.promptQueue == 2")
    deputy.lua("vim.api.nvim_buf_set_lines(require('deputy.input').buffer(), 0, -1, false, { 'third' })")
    deputy.command("DeputyStop")
    deputy.until(f"{STATE}.turn == nil")
    assert deputy.lua(f"return {WRITTEN}") == "first\n\nsecond\n\nthird"
    assert deputy.lua(f"return #{STATE}.promptQueue") == 0


def test_the_input_area_sends_and_is_emptied(deputy: Neovim) -> None:
    deputy.command("Deputy")
    assert deputy.api.current.buffer.options["filetype"] == "deputy_input"
    deputy.api.current.buffer[:] = ["first line", "second line"]
    deputy.keys("<CR>")
    deputy.until_shown("You said: first line\nsecond line")
    assert deputy.lua("return vim.api.nvim_buf_get_lines(0, 0, -1, false)") == [""]


def test_a_prompt_with_a_range_is_about_the_selection(deputy: Neovim) -> None:
    deputy.command("edit loop.py")
    deputy.command("2,3Deputy what is this?")
    deputy.until_shown("loop.py:2-3")


def test_invisible_characters_are_spelled_out(nvim: Neovim) -> None:
    shown = nvim.lua("return require('deputy.text').lines(...)", "a\x1b[31mb\u202ec\u200bd\u00e4\te\r\nf")
    assert shown == ["a<U+001B>[31mb<U+202E>c<U+200B>dä    e", "f"]


def test_text_is_cut_and_folded_by_cells_without_loss(nvim: Neovim) -> None:
    wide = "二回試します、limit を"
    cut = nvim.lua("local text = require('deputy.text'); return { text.cut(...), text.width(text.cut(...)) }", wide, 10)
    assert cut == ["二回試し…", 9]
    parts = nvim.lua("return require('deputy.text').folded(...)", wide, 7)
    assert parts == ["二回試", "します", "、limit", " を"]
    # What a window does with long lines changes nothing.
    nvim.command("set linebreak breakindent showbreak=>>> | vsplit | vertical resize 20")
    assert nvim.lua("return require('deputy.text').folded(...)", "x " * 30, 50) == ["x " * 25, "x " * 5]


def test_only_changed_lines_are_rewritten(deputy: Neovim) -> None:
    deputy.ask("look around")
    deputy.at("All is done.")
    written = deputy.lua(
        """local sessions, count = require('deputy.session'), 0
           vim.api.nvim_buf_attach(0, false, { on_lines = function(_, _, _, first, _, last)
             count = count + last - first
           end })
           local session = sessions.get()
           local drawn = false
           sessions.watch(function() drawn = true end)
           require('deputy.client').on_event({ sessionId = session.id, agentId = session.state.primary, run = 1,
             time = '2026-01-01T00:00:00.000Z', afterSeq = session.state.lastSeq, type = 'message_delta',
             messageId = 'later', text = 'more' })
           vim.wait(5000, function() return drawn end)
           return count"""
    )
    deputy.until_shown("more")
    assert written == 3


def test_a_thousand_events_are_drawn_a_few_times(deputy: Neovim) -> None:
    deputy.ask("hello")
    deputy.until_shown("You said: hello")
    draws = deputy.lua(
        """local sessions, pane = require('deputy.session'), require('deputy.pane')
           local session, draws = sessions.get(), 0
           sessions.watch(function() draws = draws + 1 end)
           for n = 1, 1000 do
             require('deputy.client').on_event({ sessionId = session.id, agentId = session.state.primary, run = 1,
               time = '2026-01-01T00:00:00.000Z', afterSeq = session.state.lastSeq, type = 'message_delta',
               messageId = 'burst', text = 'word ' .. n .. '\\n' })
           end
           vim.wait(5000, function() return draws > 0 end)
           return draws"""
    )
    assert draws == 1
    deputy.until_shown("word 1000")


def test_the_bar_names_the_key_that_sends_in_each_mode(deputy: Neovim) -> None:
    deputy.command("Deputy")
    deputy.until_shown("<C-S> sends")
    deputy.api.input("xylophone<C-s>")  # the first letters are text, and no commands
    deputy.until_shown("You said: xylophone")
    deputy.api.input("<Esc>")
    deputy.until_shown("<CR> sends")


def test_session_window_shrinks_on_narrow_screen(deputy: Neovim) -> None:
    deputy.command("Deputy")
    width = "vim.api.nvim_win_get_width(require('deputy.window').transcript())"
    beside = deputy.lua(f"return {width}")
    deputy.command("set columns=150 | doautocmd VimResized")
    assert deputy.lua(f"return {width}") == beside
    deputy.command("set columns=80 | doautocmd VimResized")
    assert deputy.lua(f"return {width}") < 40


def test_a_long_session_shows_its_end_first_and_earlier_messages_by_key(deputy: Neovim) -> None:
    for text in ("alpha", "beta", "gamma"):
        deputy.ask(text)
        deputy.until_shown(f"You said: {text}")
        deputy.until(f"{STATE}.turn == nil")
    deputy.lua("local sessions = require('deputy.session'); sessions.PAGE = 2; sessions.load(sessions.current)")
    shown = deputy.until_shown("▴ Earlier messages")
    assert ("You said: gamma" in shown, "You said: beta" in shown) == (True, False)
    deputy.ask("delta")
    assert "▴ Earlier messages" in deputy.until_shown("You said: delta")
    deputy.at("Earlier messages")
    deputy.keys("<CR>")
    assert "You said: alpha" not in deputy.until_shown("You said: beta")
    deputy.at("Earlier messages")
    deputy.keys("<CR>")
    deputy.until_shown("You said: alpha")
    shown = deputy.everything()
    assert "Earlier messages" not in shown
    assert [shown.count(f"You said: {text}") for text in ("alpha", "beta", "gamma", "delta")] == [1, 1, 1, 1]
