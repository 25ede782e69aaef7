"""Options, health, and a server that is missing, crashes or restarts."""

import os
import re
import signal
from pathlib import Path

import pytest

from tests.editors.nvim.neovim import DEPUTY, PLUGIN, ROOT, Neovim, neovim

SESSION = "require('deputy.session').get()"


def health(nvim: Neovim) -> str:
    nvim.command("checkhealth deputy")
    return "\n".join(nvim.lines())


def test_the_health_check_names_the_server_that_was_found(nvim: Neovim) -> None:
    nvim.setup(server=[str(DEPUTY), "serve", "--stdio"])
    report = health(nvim)
    assert f"deputy 0.1.0, from option `server`: {DEPUTY}" in report
    assert "the options are valid" in report
    assert "ERROR" not in report


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"windw": {}}, "`windw` is not an option"),
        ({"window": {"position": "middle"}}, "`window.position` must be auto, right, left, bottom or tab"),
        ({"keys": {"session": {"approve": 3}}}, "`keys.session.approve` must be a string, not 3"),
        ({"server": "deputy serve"}, '`server` must be a table, not "deputy serve"'),
        ({"server": []}, "`server` must be a list of strings"),
        ({"root_markers": [3]}, "`root_markers` must be a list of strings"),
        ({"notify": "yes"}, '`notify` must be a boolean, not "yes"'),
    ],
)
def test_invalid_options_are_reported_by_name_and_defaults_are_used(
    nvim: Neovim, options: dict[str, object], problem: str
) -> None:
    nvim.lua("NOTICED = {}; vim.notify = function(words) table.insert(NOTICED, words) end")
    nvim.setup(**options)
    assert problem in nvim.lua("return NOTICED[1]")
    assert nvim.lua("return require('deputy.config').options.window.position") == "auto"
    assert f"setup(): {problem}" in health(nvim)


def test_missing_server_is_reported_with_what_to_do(nvim: Neovim) -> None:
    nvim.lua("NOTICED = {}; vim.notify = function(words) table.insert(NOTICED, words) end")
    nvim.setup(server=["/nowhere/deputy"])
    nvim.ask("hello")
    nvim.until("#NOTICED > 0")
    assert nvim.lua("return NOTICED") == [
        "Deputy: the server `/nowhere/deputy` cannot be run. Run `:checkhealth deputy`."
    ]
    assert "correct the option `server`" in health(nvim)
    written = "table.concat(vim.api.nvim_buf_get_lines(require('deputy.input').buffer(), 0, -1, false), '\\n')"
    nvim.until(f"{written} == 'hello'")  # it can be sent again


def reported_once_and_restarted(nvim: Neovim) -> None:
    """Checks that no server is left, that this was reported once, and that a restart with valid options works."""
    nvim.until("#vim.lsp.get_clients({ name = 'deputy' }) == 0")
    assert len(noticed := nvim.lua("return NOTICED")) == 1, noticed
    nvim.setup(settings={"model": "offline"})
    nvim.command("DeputyRestart")
    nvim.ask("hello")
    nvim.until_shown("offline model")


def test_server_that_hangs_at_start_is_stopped_and_restart_uses_another_one(nvim: Neovim) -> None:
    nvim.lua("NOTICED = {}; vim.notify = function(words) table.insert(NOTICED, words) end")
    nvim.setup(server=["sleep", "600"], start_timeout=1)
    nvim.ask("hello")
    nvim.until_shown("No session: the server did not answer within 1 s. `:DeputyRestart` tries again")
    reported_once_and_restarted(nvim)


def test_rejected_settings_are_named_and_restart_uses_valid_ones(nvim: Neovim) -> None:
    nvim.lua("NOTICED = {}; vim.notify = function(words) table.insert(NOTICED, words) end")
    nvim.setup(settings={"permissionMode": "yolo", "model": "offline"})
    nvim.ask("hello")
    shown = nvim.until_shown("No session: the server does not start: settings.permissionMode: must be")
    assert "Correct it in setup(), then `:DeputyRestart`." in shown
    reported_once_and_restarted(nvim)


def test_the_server_is_found_beside_the_plugin_in_path_and_in_a_virtual_environment(nvim: Neovim) -> None:
    nvim.lua("vim.env.VIRTUAL_ENV, vim.env.PATH = nil, '/usr/bin:/bin'")
    assert nvim.lua("return { require('deputy.server').find() }") == [
        [str(ROOT / ".venv/bin/deputy"), "serve", "--stdio"],
        "the folder of this plugin",
    ]
    nvim.lua("vim.env.PATH = ... .. ':' .. vim.env.PATH", str(DEPUTY.parent))
    assert nvim.lua("return require('deputy.server').find()")[0] == str(DEPUTY)
    assert nvim.lua("return select(2, require('deputy.server').find())") == "PATH"
    nvim.lua("vim.env.VIRTUAL_ENV = ...", str(DEPUTY.parents[1]))
    assert nvim.lua("return select(2, require('deputy.server').find())") == "VIRTUAL_ENV"


def test_session_is_reloaded_after_crash_and_continues(deputy: Neovim) -> None:
    deputy.ask("look around")
    deputy.until_shown("All is done.")
    deputy.ask("three of them")
    deputy.until_shown("3 running")
    deputy.lua("NOTICED = {}; vim.notify = function(words) table.insert(NOTICED, words) end")
    os.kill(server_pid(deputy), signal.SIGKILL)
    deputy.until("#NOTICED > 0")
    assert "interrupted by a restart" in deputy.until_shown("✗ never ends, one")
    deputy.until_shown("0 running, 5 finished")
    assert "`:DeputyRestart` restarts it" in deputy.lua("return NOTICED[1]")
    deputy.until_shown("the server has ended")
    assert "✗ The last turn was interrupted: the server ended.\n  C resumes it." in deputy.everything()
    deputy.command("DeputyRestart")
    deputy.until(f"not {SESSION}.stale and {SESSION}.state.lastSeq > 0")
    shown = deputy.until_shown("▸ ✓ read the code")
    assert "You\nlook around" in shown
    deputy.until(lambda: "the server has ended" not in deputy.everything())
    assert "✗ The last turn was interrupted" in deputy.everything()
    deputy.at("read the code")
    deputy.keys("<Tab>")
    deputy.until_shown("✓ read_file(loop.py)")
    deputy.ask("hello")
    deputy.until_shown("You said: hello")


@pytest.mark.requirement("P6")
def test_a_neovim_that_is_started_later_loads_what_a_killed_server_left(workspace: Path, model: str) -> None:
    with neovim(workspace) as first:
        first.setup_scripted(model)
        first.ask("plan it")
        first.until_shown("▸ act")
        first.until(f"{SESSION}.state.turn == nil")
        first.ask("three of them")
        first.until_shown("3 running")
        session = first.lua(f"return {SESSION}.id")
        os.kill(server_pid(first), signal.SIGKILL)
        first.until_shown("the server has ended")
    with neovim(workspace) as second:
        second.setup_scripted(model)
        choose(second, session, "load")
        shown = second.until_shown("✗ never ends, two  general  interrupted by a restart")
        assert "You\nthree of them" in shown
        assert "▸ act" in shown
        assert "0 running, 3 finished" in shown
        second.at("never ends, two")
        second.keys("<CR>")
        second.until_shown("read-only: transcript of [never ends, two]")
        second.until_shown("Task\nnever ends, two")
        second.keys("-")
        second.at("The last turn was interrupted")
        second.keys("C")
        second.until_shown("You said: Continue where you were interrupted.")
        assert "was interrupted: the server" not in second.everything()
        second.keys("C")
        assert "no turn was interrupted here" in second.messages()


def test_session_open_in_another_neovim_is_shown_as_snapshot(workspace: Path, model: str) -> None:
    with neovim(workspace) as first:
        first.setup_scripted(model)
        first.ask("three of them")
        first.until_shown("3 running")
        session = first.lua(f"return {SESSION}.id")
        with neovim(workspace) as second:
            second.setup_scripted(model)
            choose(second, session, "load")
            shown = second.until_shown("Open in another Deputy process: this is its state at")
            assert ":DeputySessions reloads it." in shown
            assert "3 running" in shown
            first.command("DeputyStop")
            first.until_shown("0 running, 3 finished")
            choose(second, session, "load")
            second.until_shown("0 running, 3 finished")


def server_pid(deputy: Neovim) -> int:
    children = deputy.lua("return vim.api.nvim_get_proc_children(vim.fn.getpid())")
    assert len(children) == 1
    return children[0]


def test_sessions_can_be_listed_and_loaded(deputy: Neovim) -> None:
    deputy.ask("hello")
    deputy.until_shown("You said: hello")
    first = deputy.lua(f"return {SESSION}.id")
    deputy.command("DeputyNew")
    deputy.until(f"{SESSION}.id ~= ... and not {SESSION}.loading", first)
    deputy.lua(
        """local wanted = ...
           OFFERED = {}
           vim.ui.select = function(items, how, done)
             table.insert(OFFERED, vim.tbl_map(how.format_item or tostring, items))
             for _, item in ipairs(items) do
               if item[1] == 'load' or item.sessionId == wanted then return done(item) end
             end
           end""",
        first,
    )
    deputy.command("DeputySessions")
    deputy.until(f"{SESSION}.id == ... and not {SESSION}.loading", first)
    deputy.until_shown("You said: hello")
    offered = deputy.lua("return OFFERED")
    assert any("hello" in line for line in offered[0])
    assert offered[1] == ["load", "rename", "export as Markdown", "archive", "delete"]


def choose(deputy: Neovim, session: str, action: str, command: str = "DeputySessions") -> None:
    """Picks a session in the list of sessions, and an action on it."""
    deputy.lua(
        """local session, action = ...
           CHOSEN = false
           vim.ui.select = function(items, _, done)
             for _, item in ipairs(items) do
               if item[1] == action or item.sessionId == session then
                 done(item)
                 CHOSEN = CHOSEN or item[1] == action
                 return
               end
             end
           end""",
        session,
        action,
    )
    deputy.command(command)
    deputy.until("CHOSEN")


def test_a_session_can_be_renamed_exported_and_deleted(deputy: Neovim) -> None:
    deputy.ask("hello")
    deputy.until_shown("You said: hello")
    session = deputy.lua(f"return {SESSION}.id")
    deputy.lua("vim.ui.input = function(_, done) done('my own title') end")
    choose(deputy, session, "rename")
    deputy.until_shown("Deputy · my own title")
    choose(deputy, session, "export as Markdown")
    deputy.until("vim.bo.filetype == 'markdown'")
    assert any("You said: hello" in line for line in deputy.lines())
    deputy.lua("vim.fn.confirm = function() return 1 end")
    choose(deputy, session, "delete")
    deputy.until(f"{SESSION} == nil")
    deputy.until_shown("This session has been deleted.")
    deputy.lua("vim.api.nvim_set_current_win(require('deputy.window').transcript())")
    deputy.keys("q")
    deputy.until("require('deputy.window').transcript() == nil")
    deputy.ask("again")
    deputy.until_shown("You said: again")


def test_archived_session_is_listed_only_with_bang(deputy: Neovim) -> None:
    deputy.ask("hello")
    deputy.until_shown("You said: hello")
    session = deputy.lua(f"return {SESSION}.id")
    choose(deputy, session, "archive")
    deputy.until(lambda: "no session" in listed(deputy))
    choose(deputy, session, "unarchive", "DeputySessions!")
    deputy.until(lambda: listed(deputy) == session)


def listed(deputy: Neovim) -> str:
    """The sessions in the list, or the notification in its place."""
    deputy.lua(
        """LISTED = nil
           vim.ui.select = function(items)
             LISTED = table.concat(vim.tbl_map(function(item) return item.sessionId end, items), ' ')
           end
           vim.notify = function(words) LISTED = words end"""
    )
    deputy.command("DeputySessions")
    return deputy.until("LISTED")


def test_the_plugin_works_from_a_pack_folder_without_setup(workspace: Path, tmp_path: Path) -> None:
    pack = tmp_path / "site/pack/any/start"
    pack.mkdir(parents=True)
    (pack / "deputy").symlink_to(PLUGIN)
    bare = ("--cmd", f"set rtp-={PLUGIN} packpath^={tmp_path / 'site'}")
    with neovim(workspace, *bare) as nvim:
        nvim.lua("vim.env.PATH, vim.env.VIRTUAL_ENV = ... .. ':' .. vim.env.PATH, nil", str(DEPUTY.parent))
        assert nvim.lua("return vim.api.nvim_get_runtime_file('plugin/deputy.lua', true)") == [
            str(pack / "deputy/plugin/deputy.lua")
        ]
        nvim.ask("hello")
        nvim.until_shown("offline model")


def test_method_missing_in_older_server_is_reported(deputy: Neovim) -> None:
    deputy.ask("hello")
    deputy.until_shown("You said: hello")
    deputy.lua("NOTICED = {}; vim.notify = function(words) table.insert(NOTICED, words) end")
    deputy.lua("require('deputy.client').request('deputy/of/tomorrow', {})")
    assert deputy.lua("return NOTICED") == ["Deputy: this version of the server has no `deputy/of/tomorrow`."]


def test_diagnostics_request_returns_diagnostics_of_the_editor(deputy: Neovim) -> None:
    deputy.command("edit loop.py")
    deputy.lua(
        """vim.diagnostic.set(vim.api.nvim_create_namespace('t'), 0,
             { { lnum = 0, col = 4, end_col = 5, message = 'one', severity = 1, source = 'lint' } })"""
    )
    deputy.ask("hello")
    deputy.until_shown("You said: hello")
    uri = (deputy.workspace / "loop.py").as_uri()
    ask = """local client = vim.lsp.get_clients({ name = 'deputy' })[1]
             return client.handlers['deputy/editor/diagnostics'](nil, (...), { client_id = client.id })"""
    (item,) = deputy.lua(ask, {"uris": [uri]})["items"]
    assert item["uri"] == uri
    (found,) = item["diagnostics"]
    assert (found["message"], found["severity"], found["source"]) == ("one", 1, "lint")
    assert found["range"] == {"start": {"line": 0, "character": 4}, "end": {"line": 0, "character": 5}}
    assert deputy.lua(ask, {"uris": [uri + "x"]})["items"] == []


def test_user_autocommands_run_for_agents_and_permission_requests(deputy: Neovim) -> None:
    deputy.lua(
        """EVENTS = {}
           vim.api.nvim_create_autocmd('User', { pattern = 'Deputy*', callback = function(event)
             EVENTS[event.match] = event.data.type
           end })"""
    )
    deputy.ask("edit it")
    deputy.until("EVENTS.DeputyApproval")
    deputy.command("DeputyStop")
    deputy.until("EVENTS.DeputySettled")
    assert deputy.lua("return EVENTS.DeputyApproval") == "permission_requested"


def test_the_manual_names_every_command_key_and_group() -> None:
    manual = (PLUGIN / "doc/deputy.txt").read_text("utf-8")
    plugin = (PLUGIN / "plugin/deputy.lua").read_text("utf-8")
    commands = set(re.findall(r"'(Deputy[A-Z]\w+)', '", plugin)) | {"Deputy"}
    groups = set(re.findall(r"^  (Deputy\w+) = '", plugin, re.MULTILINE))
    assert len(commands) > 5
    assert {name for name in commands - groups if f"*:{name}*" not in manual} == set()
    assert {name for name in groups if name not in manual} == set()
    config = (PLUGIN / "lua/deputy/config.lua").read_text("utf-8")
    session_keys = config.partition("session = {")[2].partition("}")[0]
    actions = set(re.findall(r"^\s+(\w+) = '", session_keys, re.MULTILINE))
    assert {name for name in actions if name not in manual} == set()
