"""``deputy agents``, and completion in shells."""

import json
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from deputy_server.cli.app import app
from tests.support.delegation import define


@pytest.fixture(autouse=True)
def _here(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(workspace)
    monkeypatch.setenv("COLUMNS", "200")


def deputy(*arguments: str, **env: str) -> Result:
    return CliRunner().invoke(app, arguments, env=env, prog_name="deputy")


def test_list_prints_definitions_as_text_and_as_json(workspace: Path) -> None:
    define(workspace, "scout", ["tools: read_file, grep", "maxTurns: 3"])
    ran = deputy("agents", "list")
    assert (ran.exit_code, ran.stderr) == (0, "")
    last = ran.stdout.splitlines()[-1].split()
    assert last == ["scout", "subagent", "The", "agent", "scout.", "(.deputy/agents/scout.md)"]
    rows = {one["name"]: one for one in json.loads(deputy("agents", "list", "--json").stdout)}
    assert {"primary", "general", "code_search", "code_review", "planner", "scout"} <= rows.keys()
    assert sorted(rows["scout"]["tools"]) == ["grep", "read_file"]
    assert rows["planner"]["source"] == "built-in"


def test_show_prints_a_definition_and_lists_the_names_if_it_is_unknown(
    workspace: Path,
) -> None:
    define(workspace, "scout", prompt="You look\x1b[31m around.")
    shown = deputy("agents", "show", "scout")
    assert shown.stdout.startswith("name: scout\n")
    assert shown.stdout.endswith("\nYou look around.\n")
    assert json.loads(deputy("agents", "show", "scout", "--json").stdout)["name"] == "scout"
    unknown = deputy("agents", "show", "nobody")
    assert unknown.exit_code == 2
    assert "there is no agent definition 'nobody'" in unknown.stderr
    assert "scout" in unknown.stderr


def test_check_reports_problems_of_mcp_servers_in_a_definition(workspace: Path) -> None:
    define(workspace, "scout", ["mcpServers: [{x: {command: true}}, lab]"])
    problems = json.loads(deputy("agents", "check", "--json").stdout)
    assert [one["reason"] for one in problems] == ["MCP server x: command: must be a string"]


@pytest.mark.parametrize(("fields", "code"), [(["maxTurns: 3"], 0), (["maxTurns: -3"], 1)])
def test_check_prints_file_line_and_reason_and_fails_for_an_unusable_file(
    workspace: Path, fields: list[str], code: int
) -> None:
    define(workspace, "scout", fields)
    ran = deputy("agents", "check")
    assert ran.exit_code == code
    assert (".deputy/agents/scout.md:" in ran.stdout) == bool(code)
    problems = json.loads(deputy("agents", "check", "--json").stdout)
    assert [one["fatal"] for one in problems] == [True] * code


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shell_completes_commands_options_and_names_of_agents(workspace: Path, shell: str) -> None:
    define(workspace, "scout")

    def completed(line: str) -> str:
        words = {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1)}
        fish = {
            "_TYPER_COMPLETE_FISH_ACTION": "get-args",
            "_TYPER_COMPLETE_ARGS": line,
            "_DEPUTY_COMPLETE": f"complete_{shell}",
        }
        return deputy(**words, **fish).stdout

    assert "agents" in completed("deputy ag")
    assert "--json" in completed("deputy agents list --")
    assert "scout" in completed("deputy agents show sc")
    assert f"complete_{shell}" in deputy(_DEPUTY_COMPLETE=f"source_{shell}").stdout


def test_every_command_has_help_with_an_example() -> None:
    commands = (
        *(("serve",), ("acp",), ("run",), ("doctor",), ("demo",)),
        *(("sessions", one) for one in ("list", "show", "export", "delete")),
        *(("agents", one) for one in ("list", "show", "check")),
    )
    helps = {" ".join(command): deputy(*command, "--help").stdout for command in commands}
    lacking = [name for name, text in helps.items() if "Example" not in text or f"deputy {name}" not in text]
    assert lacking == []
