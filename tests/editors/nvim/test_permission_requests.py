"""Permission requests: at the code, in the session window, in the inbox."""

import itertools

import pytest

from tests.editors.nvim.neovim import Neovim
from tests.editors.nvim.plays import COMPOUND
from tests.support.mcp_workspaces import configure_mcp_servers

OPEN = "#require('deputy.session').requests()"


def opened(deputy: Neovim, prompt: str = "edit it") -> None:
    deputy.command("edit loop.py")
    deputy.command("2mark a")
    deputy.command("3mark b")
    deputy.ask(prompt)
    deputy.until(f"{OPEN} > 0")
    deputy.until_shown("┌ ")
    deputy.command("wincmd t")
    deputy.until_shown("~? [fix")


def text_of(deputy: Neovim, name: str) -> list[str]:
    return list(deputy.lua("return vim.api.nvim_buf_get_lines(vim.fn.bufnr(...), 0, -1, false)", name))


@pytest.mark.requirement("P6")
def test_a_change_is_shown_at_its_place_approved_there_and_undone_as_one_step(deputy: Neovim) -> None:
    opened(deputy)
    shown = deputy.everything()
    assert (
        "~? [fix the limit] edit_file(loop.py)  1 of 1\n~  \\a approve · \\A allow in this session: edit_file(loop.py)"
        in shown
    )
    assert "~limit = 3 " in shown
    assert text_of(deputy, "loop.py") == ["# tries", "limit = 2", "rest = 0"]
    deputy.keys("\\a")
    deputy.until_shown("All is done.")
    assert text_of(deputy, "loop.py") == ["# tries", "limit = 3", "rest = 0"]
    assert "~?" not in deputy.everything().split("==")[1]
    assert deputy.lua('return { vim.fn.line("\'a"), vim.fn.line("\'b") }') == [2, 3]
    deputy.command("undo")
    assert text_of(deputy, "loop.py") == ["# tries", "limit = 2", "rest = 0"]


def test_keys_are_mapped_only_while_a_permission_request_is_open(deputy: Neovim) -> None:
    opened(deputy)
    assert deputy.lua("return vim.fn.maparg('\\\\a', 'n', false, true).buffer") == 1
    deputy.keys("\\d")
    deputy.until(f"{OPEN} == 0")
    deputy.until("vim.tbl_isempty(vim.fn.maparg('\\\\a', 'n', false, true))")


def test_denial_sends_reason_to_agent(deputy: Neovim) -> None:
    opened(deputy)
    deputy.lua("vim.ui.input = function(_, done) done('not today') end")
    deputy.keys("\\D")
    deputy.until_shown("not today")
    assert text_of(deputy, "loop.py") == ["# tries", "limit = 2", "rest = 0"]


def test_aborted_reason_leaves_permission_request_open(deputy: Neovim) -> None:
    opened(deputy)
    deputy.lua("vim.ui.input = function(_, done) done(nil) end")
    deputy.keys("\\D")
    assert deputy.lua(f"return {OPEN}") == 1


@pytest.mark.requirement("X3")
def test_an_edited_proposal_is_what_is_written(deputy: Neovim) -> None:
    opened(deputy)
    deputy.keys("\\e")
    assert list(deputy.api.current.buffer[:]) == ["# tries", "limit = 3", "rest = 0"]
    assert deputy.lua("return vim.api.nvim_get_current_line()") == "limit = 3"
    deputy.api.current.buffer[:] = ["# attempts", "limit = 7", "rest = 0"]
    deputy.command("write")
    deputy.until_shown("All is done.")
    assert text_of(deputy, "loop.py") == ["# attempts", "limit = 7", "rest = 0"]


def test_proposal_without_changes_is_not_approved(deputy: Neovim) -> None:
    opened(deputy)
    deputy.keys("\\e")
    deputy.api.current.buffer[:] = ["# tries", "limit = 2", "rest = 0"]
    deputy.lua("NOTICED = {}; vim.notify = function(words) table.insert(NOTICED, words) end")
    deputy.command("write")
    assert deputy.lua("return NOTICED") == ["Deputy: no proposed change is left; deny it instead."]
    assert deputy.lua(f"return {OPEN}") == 1


TEXTS = ("a\na\na\nb\n", "a\na\nx\na\nb\n", "b\n", "a\na\na\nb", "x", "a\r\na\r\nc\r\n", "\n\na\n\n")


def test_edited_proposal_becomes_one_unique_replacement(deputy: Neovim) -> None:
    for before, proposed, after in itertools.permutations(TEXTS, 3):
        asked = {
            "tool": "edit_file",
            "input": {"old_string": "?", "new_string": "?", "replace_all": True},
            "preview": {"type": "diff", "oldText": before, "newText": proposed},
        }
        plain = after.replace("\r\n", "\n")
        made = deputy.lua("return require('deputy.proposal').input(...)", asked, plain)
        assert made.keys() == {"old_string", "new_string"}
        whole = before.replace("\r\n", "\n")
        assert whole.count(made["old_string"]) == 1
        assert whole.replace(made["old_string"], made["new_string"]) == plain


def test_proposal_opens_once_and_late_text_is_kept(deputy: Neovim) -> None:
    opened(deputy)
    deputy.keys("\\e")
    deputy.api.current.buffer[:] = ["# tries", "limit = 7", "rest = 0"]
    deputy.command("wincmd t")
    deputy.keys("\\e")
    assert list(deputy.api.current.buffer[:]) == ["# tries", "limit = 7", "rest = 0"]
    deputy.command("DeputyStop")
    deputy.until(f"{OPEN} == 0")
    deputy.lua("NOTICED = {}; vim.notify = function(words) table.insert(NOTICED, words) end")
    deputy.command("write")
    deputy.until("#NOTICED > 0")
    assert deputy.lua("return NOTICED") == ["Deputy: that request is already settled."]
    assert list(deputy.api.current.buffer[:]) == ["# tries", "limit = 7", "rest = 0"]


def test_a_proposal_is_found_in_its_tab_page_and_named_after_its_file(deputy: Neovim) -> None:
    opened(deputy)
    deputy.keys("\\e")
    assert deputy.api.current.buffer.name.endswith("/loop.py")
    assert deputy.lua("return vim.bo.filetype") == "python"
    deputy.command("tab split loop.py")
    deputy.keys("\\e")
    assert deputy.api.current.buffer.name.startswith("deputy://proposal/")
    assert deputy.lua("return vim.fn.tabpagenr()") == 1


def test_keys_go_to_permission_requests_in_other_files(deputy: Neovim) -> None:
    opened(deputy, "edits please")
    deputy.until(f"{OPEN} == 2")
    deputy.keys("\\d")
    deputy.until(f"{OPEN} == 1")
    deputy.until("vim.tbl_isempty(vim.fn.maparg('\\\\d', 'n', false, true))")
    deputy.keys("\\n")
    deputy.until(lambda: deputy.api.current.buffer.name.endswith("notes.md"))
    deputy.lua("vim.wait(500)")
    deputy.keys("\\gD")
    deputy.until_shown("All is done.")


def test_approved_call_that_fails_is_reported(deputy: Neovim) -> None:
    opened(deputy)
    deputy.lua("NOTICED = {}; vim.notify = function(words) table.insert(NOTICED, words) end")
    deputy.lua("vim.api.nvim_buf_set_lines(vim.fn.bufnr('loop.py'), 1, 2, false, { 'limit = 9' })")
    deputy.keys("\\a")
    deputy.until("#NOTICED > 0")
    assert deputy.lua("return NOTICED[1]").startswith("Deputy: the approved call failed: ")


def test_stale_text_is_marked_until_the_change_is_undone(deputy: Neovim) -> None:
    changed = "the text has changed since the agent asked"
    opened(deputy)
    assert changed not in deputy.everything()
    deputy.keys("Gomine<Esc>")
    deputy.until_shown(changed)
    deputy.keys("u")
    deputy.until(lambda: changed not in deputy.everything())


def test_consecutive_proposals_of_one_agent_are_not_stale(deputy: Neovim) -> None:
    opened(deputy, "twice")
    deputy.until(f"{OPEN} == 2")
    deputy.until_shown("2 of 2")
    assert "the text has changed" not in deputy.everything()
    deputy.command("2")
    deputy.lua("vim.wait(500)")
    deputy.keys("\\a")
    deputy.until(f"{OPEN} == 1")
    deputy.until(lambda: text_of(deputy, "loop.py")[1] == "limit = 3")
    assert "the text has changed" not in deputy.everything()


def test_edit_of_locked_buffer_fails_with_a_hint(deputy: Neovim) -> None:
    opened(deputy)
    deputy.lua("NOTICED = {}; vim.notify = function(words) table.insert(NOTICED, words) end")
    deputy.command("set nomodifiable")
    deputy.keys("\\a")
    deputy.until("#NOTICED > 0")
    assert "`:set modifiable` unlocks it" in deputy.lua("return NOTICED[1]")
    assert text_of(deputy, "loop.py") == ["# tries", "limit = 2", "rest = 0"]


def test_leaving_windows_and_closing_a_proposal_answers_nothing(deputy: Neovim) -> None:
    opened(deputy)
    deputy.keys("\\e")
    deputy.command("quit!")
    deputy.at("fix the limit")
    deputy.keys("q")
    deputy.command("edit notes.md")
    deputy.lua("vim.wait(100)")
    assert deputy.lua(f"return {OPEN}") == 1
    assert text_of(deputy, "loop.py") == ["# tries", "limit = 2", "rest = 0"]


def test_two_permission_requests_are_stepped_through_and_answered_one_by_one_in_the_session_window(
    deputy: Neovim,
) -> None:
    opened(deputy, "edits please")
    deputy.until(f"{OPEN} == 2")
    deputy.keys("\\n")
    assert deputy.api.current.buffer.name.endswith("notes.md")
    deputy.at("[fix both] edit_file(notes.md)")
    deputy.keys("d")
    deputy.until(f"{OPEN} == 1")
    deputy.at("[fix both] edit_file(loop.py)")
    deputy.keys("a")
    deputy.until_shown("All is done.")
    assert text_of(deputy, "loop.py") == ["# tries", "limit = 3", "rest = 0"]
    assert text_of(deputy, "notes.md") == ["It tries two times."]


def test_inbox_lists_all_permission_requests_and_approves_one_agents_together(deputy: Neovim) -> None:
    opened(deputy, "edits please")
    deputy.until(f"{OPEN} == 2")
    deputy.command("DeputyInbox")
    inbox = deputy.until_shown("Deputy · approvals")
    assert inbox.count("[fix both] edit_file(notes.md)") >= 2
    deputy.lua("vim.fn.confirm = function(question) CONFIRMED = question; return 1 end")
    deputy.keys("ga")
    deputy.until_shown("All is done.")
    assert deputy.lua("return CONFIRMED").startswith("Approve all 2 requests?")
    deputy.until_shown("No open approvals.")
    assert (deputy.workspace / "notes.md").read_text() == "It tries three times.\n"


@pytest.mark.requirement("X28")
def test_withdrawn_permission_request_closes_and_notifies_once(deputy: Neovim) -> None:
    deputy.lua("NOTICED = {}; vim.notify = function(words) table.insert(NOTICED, words) end")
    opened(deputy, "edits please")
    deputy.until(f"{OPEN} == 2")
    deputy.command("DeputyStop")
    deputy.until(f"{OPEN} == 0")
    deputy.until("not require('deputy.session').get().state.turn")
    deputy.lua("vim.wait(100)")
    assert "~?" not in deputy.everything()
    assert len([words for words in deputy.lua("return NOTICED") if "needs approval" in words]) == 1


def test_a_command_is_shown_with_its_folder_and_with_nothing_hidden(deputy: Neovim) -> None:
    deputy.ask("shell please")
    shown = deputy.until_shown("│ $ touch \\u{202e}txt.a")
    assert "│ in " in shown
    assert "a approve" in shown
    deputy.command("DeputyInbox")
    deputy.until_shown("Deputy · approvals")
    deputy.at("│ $ touch")
    deputy.keys("d")
    deputy.until_shown("All is done.")
    assert sorted(path.name for path in deputy.workspace.iterdir()) == ["loop.py", "notes.md"]


def test_the_edits_of_an_agent_are_reverted_with_one_key(deputy: Neovim) -> None:
    opened(deputy)
    deputy.keys("\\a")
    deputy.until_shown("All is done.")
    assert text_of(deputy, "loop.py") == ["# tries", "limit = 3", "rest = 0"]
    deputy.lua("vim.fn.confirm = function(question) CONFIRMED = question; return 1 end")
    deputy.at("fix the limit")
    deputy.keys("R")
    deputy.until(lambda: text_of(deputy, "loop.py") == ["# tries", "limit = 2", "rest = 0"])
    assert deputy.lua("return CONFIRMED") == "Revert all edits of [fix the limit]?"


def test_writing_all_buffers_or_from_another_window_does_not_approve_proposal(deputy: Neovim) -> None:
    opened(deputy)
    deputy.command("set autowriteall hidden")
    deputy.keys("\\e")
    deputy.api.current.buffer[:] = ["# tries", "limit = 7", "rest = 0"]
    deputy.command("silent! wall")
    deputy.command("wincmd t")
    deputy.command("silent! wall!")
    deputy.lua("vim.wait(200)")
    assert deputy.lua(f"return {OPEN}") == 1
    deputy.at("fix the limit")
    deputy.lua("""for _, win in ipairs(vim.api.nvim_list_wins()) do
      if vim.api.nvim_buf_get_name(vim.api.nvim_win_get_buf(win)):find('proposal') then
        vim.api.nvim_set_current_win(win)
      end
    end""")
    deputy.command("edit notes.md")
    deputy.lua("vim.wait(200)")
    assert deputy.lua(f"return {OPEN}") == 1
    assert text_of(deputy, "loop.py") == ["# tries", "limit = 2", "rest = 0"]


def test_user_mapping_is_not_replaced_and_header_lists_working_keys(deputy: Neovim) -> None:
    deputy.lua("MINE = 0; vim.keymap.set('n', '<LocalLeader>a', function() MINE = MINE + 1 end)")
    opened(deputy)
    shown = deputy.everything()
    assert "\\a approve" not in shown
    assert ":DeputyInbox to answer" in shown
    deputy.keys("\\a")
    assert deputy.lua("return MINE") == 1
    assert deputy.lua(f"return {OPEN}") == 1


def test_key_right_after_permission_request_appears_does_not_answer(deputy: Neovim) -> None:
    deputy.lua("require('deputy.grace').MILLISECONDS = 60000")
    opened(deputy)
    deputy.keys("\\a")
    assert "look at it first" in deputy.messages()
    assert deputy.lua(f"return {OPEN}") == 1
    # The user moved the cursor there.
    deputy.at("┌ ")
    deputy.keys("d")
    deputy.until(f"{OPEN} == 0")


def test_key_does_not_answer_permission_request_moved_under_cursor(deputy: Neovim) -> None:
    deputy.lua("require('deputy.grace').MILLISECONDS = 60000")
    deputy.command("DeputyInbox")
    deputy.until_shown("No open approvals.")
    deputy.ask("edit it")
    deputy.until(f"{OPEN} == 1")
    deputy.until_shown("┌ ")
    deputy.lua("vim.api.nvim_set_current_win(vim.fn.bufwinid('deputy://inbox'))")
    deputy.keys("a")
    assert "look at it first" in deputy.messages()
    assert deputy.lua(f"return {OPEN}") == 1


@pytest.mark.parametrize("name", ["日本.py", "a+b@c.py", "[x].py"])
def test_files_of_any_name_show_their_permission_requests(deputy: Neovim, name: str) -> None:
    (deputy.workspace / name).write_text("limit = 2\n", "utf-8")
    deputy.lua("vim.cmd.edit(vim.fn.fnameescape(...))", name)
    deputy.lua(
        """local sessions = require('deputy.session')
        sessions.requests = function()
          local uri = 'file://' .. vim.uri_encode(vim.api.nvim_buf_get_name(0), 'rfc2396')
          uri = uri:gsub('[@+]', { ['@'] = '%40', ['+'] = '%2B' })
          return { {
            requestId = 'q', sessionId = 's', title = 'a request', tool = 'edit_file', options = {}, locations = {},
            agent = { agentId = 'a' }, batch = { index = 0, size = 1 },
            preview = { type = 'diff', uri = uri, oldText = 'limit = 2', newText = 'limit = 3' },
          } }
        end
        sessions.sessions.s = { id = 's', state = require('deputy.reducer').new() }
        require('deputy.inline').refresh(vim.api.nvim_get_current_buf())"""
    )
    assert "~limit = 3 " in deputy.everything()


def test_a_buffer_that_is_deleted_and_opened_again_has_its_keys(deputy: Neovim) -> None:
    opened(deputy)
    deputy.command("bdelete")
    deputy.command("edit loop.py")
    deputy.until_shown("~limit = 3 ")
    deputy.keys("\\a")
    deputy.until_shown("All is done.")


def test_failing_user_autocommand_has_no_effect(deputy: Neovim) -> None:
    deputy.lua("vim.api.nvim_create_autocmd('User', { pattern = 'Deputy*', callback = function() error('mine') end })")
    opened(deputy)
    deputy.keys("\\a")
    deputy.until_shown("All is done.")


def test_mcp_server_approval_shows_command_and_cannot_be_edited(deputy: Neovim) -> None:
    docs = {"command": "bash", "args": ["-c", "run docs"], "env": {"KEY": "${HOME}"}}
    configure_mcp_servers(deputy.workspace, docs=docs)
    deputy.ask("hello")
    deputy.until_shown("┌ mcp(docs)")
    shown = deputy.until_shown("d not this time · D deny with reason")
    box = [line[len("│ ") :] for line in shown.splitlines() if line.startswith("│ ")]
    command = box.index("$ bash -c 'run docs'")
    assert box[command + 1] == "  KEY=${HOME}"
    reason = (
        "MCP server docs, configured in .mcp.json, provides tools to agents. It can read HOME from your environment."
    )
    assert " ".join(box[command + 2 :]).startswith(reason)
    assert "a start it this time" in shown
    assert "edit first" not in shown
    deputy.at("┌ mcp(docs)")
    deputy.keys("e")
    assert "nothing to edit" in deputy.messages()
    assert deputy.lua(f"return {OPEN}") == 1


def answering_confirm(deputy: Neovim, choice: int) -> None:
    """Answers `confirm()` and records its text in `ASKED`, with the option that makes long texts wait for a key."""
    deputy.lua(
        """ASKED, MORE = nil, nil
           local choice = ...
           vim.fn.confirm = function(text) ASKED, MORE = text, vim.o.more; return choice end""",
        choice,
    )


@pytest.mark.parametrize(
    ("key", "verb", "rule"),
    [("A", "Allow in this session", "shell({})"), ("gD", "Deny in this session", "shell({} *)")],
)
def test_lasting_answer_lists_all_rules_and_needs_confirmation(deputy: Neovim, key: str, verb: str, rule: str) -> None:
    deputy.lua("vim.o.more = false")
    deputy.ask("compound")
    deputy.at("┌ ")
    deputy.keys("<Tab>")
    deputy.until_shown(f"{key} {verb.lower()} 31 rules…")
    answering_confirm(deputy, 2)
    deputy.keys(key)
    rules = deputy.lua("return ASKED").splitlines()[1:]
    assert rules == [f"  {rule.format(part)}" for part in COMPOUND]
    assert deputy.lua("return MORE") is True
    assert deputy.lua("return vim.o.more") is False
    assert deputy.lua(f"return {OPEN}") == 1
    answering_confirm(deputy, 1)
    deputy.keys(key)
    deputy.until(f"{OPEN} == 0")


def test_one_short_rule_is_in_the_name_of_its_answer(deputy: Neovim) -> None:
    deputy.ask("compound")
    deputy.until(f"{OPEN} == 1")
    name = """local request = vim.deepcopy(require('deputy.session').requests()[1])
              for _, option in ipairs(request.options) do
                option.rules, option.name = { ... }, 'Always allow: ' .. ...
              end
              return require('deputy.approval').name(request, 'allow_always')"""
    assert deputy.lua(name, "shell(make test)") == "Always allow: shell(make test)"
    hidden = deputy.lua(name, "shell(a\u202e\n\u00a0b)")
    assert hidden == "Always allow: shell(a<U+202E><U+000A><U+00A0>b)"
    assert deputy.lua(name, f"shell({'x' * 60})") == "Always allow 1 rule…"


def test_approving_all_of_an_agent_lists_whole_commands(deputy: Neovim) -> None:
    deputy.ask("compound")
    deputy.at("┌ ")
    answering_confirm(deputy, 2)
    deputy.keys("ga")
    assert " && ".join(COMPOUND) in deputy.lua("return ASKED")
    assert deputy.lua(f"return {OPEN}") == 1


@pytest.mark.parametrize(
    ("old", "new", "shown"),
    [
        ("a b\n", "a\rb\n", ["-a b", "+a<U+000D>b"]),
        ("a\nb\n", "a\rb\n", ["-a", "-b", "+a<U+000D>b"]),
        ("a\n", "a\r\n", ["-a", "+a<U+000D>"]),
        ("a\r\nb\n", "a\r\nc\n", [" a<U+000D>", "-b", "+c"]),
        ("a\r\nb\r\n", "a\r\nc\r\n", [" a", "-b", "+c"]),
        ("a b\n", "a\u00a0b\u202e\u180b\n", ["-a b", "+a<U+00A0>b<U+202E><U+180B>"]),
    ],
)
def test_preview_of_a_change_shows_characters_that_editors_hide(
    deputy: Neovim, old: str, new: str, shown: list[str]
) -> None:
    request = {"preview": {"type": "diff", "uri": "file:///w/a", "oldText": old, "newText": new}}
    lines = deputy.lua("return require('deputy.approval').preview(...)", request)
    assert [line for line, *_ in lines if not line.startswith("@@")] == shown


def test_change_of_a_large_file_is_shown_as_the_hunks_that_came(deputy: Neovim) -> None:
    hunk = {"oldStart": 3, "oldCount": 2, "newStart": 3, "newCount": 2, "lines": [" a", "-b", "+c\u202e"]}
    preview = {"type": "diff", "uri": "file:///w/a", "hunks": [hunk], "truncated": True}
    lines = deputy.lua("return require('deputy.approval').preview(...)", {"preview": preview})
    shown = [line for line, *_ in lines]
    assert shown[:4] == ["@@ -3,2 +3,2 @@", " a", "-b", "+c<U+202E>"]
    assert "too large to be shown completely" in shown[4]
    group = deputy.lua("return require('deputy.box').choices(...)", {"preview": preview, "options": []}, {}, 1)
    assert not any("go to the code" in choice for choice in group)


def test_file_with_mixed_line_endings_counts_as_unchanged(deputy: Neovim) -> None:
    for text in ("a\r\nb\n", "a\rb\n", "a\r\nb\r\n", "a\nb\n"):
        (deputy.workspace / "mixed.txt").write_bytes(text.encode())
        deputy.command("edit! mixed.txt")
        assert deputy.lua("return require('deputy.hunks').holds(vim.api.nvim_get_current_buf(), ...)", text)


@pytest.mark.requirement("Q1")
@pytest.mark.requirement("Q8")
def test_rules_are_listed_with_their_source_and_removed_and_the_mode_changes_by_key(deputy: Neovim) -> None:
    opened(deputy)
    deputy.keys("\\A")
    deputy.until(f"{OPEN} == 0")
    deputy.command("DeputyPermissions")
    deputy.until_shown("allow  edit_file(loop.py)   session")
    deputy.keys("D")
    deputy.keys("dd")
    deputy.until_shown("This session has no permission rules.")
    deputy.keys("q")
    for mode in ("accept_edits", "plan", "default"):
        deputy.lua("require('deputy').next_mode()")
        deputy.until(f"require('deputy.session').get().mode == '{mode}'")
