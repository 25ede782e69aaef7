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


def test_definitions_are_listed_as_a_table_and_as_editors_get_them(workspace: Path) -> None:
    define(workspace, "scout", ["tools: read_file, grep", "maxTurns: 3"])
    ran = deputy("agents", "list")
    assert (ran.exit_code, ran.stderr) == (0, "")
    last = ran.stdout.splitlines()[-1].split()
    assert last == ["scout", "subagent", "The", "agent", "scout.", "(.deputy/agents/scout.md)"]
    told = {one["name"]: one for one in json.loads(deputy("agents", "list", "--json").stdout)}
    assert {"primary", "general", "code_search", "code_review", "planner", "scout"} <= told.keys()
    assert sorted(told["scout"]["tools"]) == ["grep", "read_file"]
    assert told["planner"]["source"] == "built-in"


def test_one_definition_is_shown_with_its_prompt_and_an_unknown_name_tells_those_that_there_are(
    workspace: Path,
) -> None:
    define(workspace, "scout", prompt="You look\x1b[31m around.")
    shown = deputy("agents", "show", "scout")
    assert shown.stdout.startswith("name: scout\n")
    assert shown.stdout.endswith("\nYou look around.\n")
    assert json.loads(deputy("agents", "show", "scout", "--json").stdout)["name"] == "scout"
    unknown = deputy("agents", "show", "nobody")
    assert unknown.exit_code == 2
    assert "there is no agent 'nobody'" in unknown.stderr
    assert "scout" in unknown.stderr


def test_checking_looks_at_the_servers_that_a_definition_brings_along(workspace: Path) -> None:
    define(workspace, "scout", ["mcpServers: [{x: {command: true}}, lab]"])
    told = json.loads(deputy("agents", "check", "--json").stdout)
    assert [one["reason"] for one in told] == ["MCP server x: command: a text is needed"]


@pytest.mark.parametrize(("fields", "code"), [(["maxTurns: 3"], 0), (["maxTurns: -3"], 1)])
def test_checking_names_file_line_and_reason_and_fails_for_what_cannot_be_used(
    workspace: Path, fields: list[str], code: int
) -> None:
    define(workspace, "scout", fields)
    ran = deputy("agents", "check")
    assert ran.exit_code == code
    assert (".deputy/agents/scout.md:" in ran.stdout) == bool(code)
    told = json.loads(deputy("agents", "check", "--json").stdout)
    assert [one["fatal"] for one in told] == [True] * code


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_completes_commands_options_and_names_of_agents(workspace: Path, shell: str) -> None:
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
