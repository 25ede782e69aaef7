"""``deputy run`` and ``deputy sessions`` as users and scripts use them: processes, pipes, exit codes."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deputy_protocol.event import EventParams
from tests.support.mcp_workspaces import SILENT_SERVER, configure_user_mcp_servers, tools_server
from tests.support.warm import completed

WARM = ("-P", "-m", "deputy_server")
DEPUTY = [sys.executable, *WARM]
PATIENCE = 60

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def project(workspace: Path) -> Path:
    (workspace / "a.py").write_text('def retry():\n    return "colour"\n')
    return workspace


@pytest.fixture
def run(project: Path) -> Run:
    def run(*arguments: str, input: str | None = None, **env: str) -> "subprocess.CompletedProcess[str]":
        given = None if input is None else input.encode()
        return completed([*WARM, *arguments], {**os.environ, "ANTHROPIC_BASE_URL": "", **env}, project, given, PATIENCE)

    return run


def in_bash(line: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    command = ["bash", "-c", line]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE, check=False)


def lines(told: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in told.splitlines()]


EDIT = 'replace "colour" with "color"'


@pytest.mark.requirement("X17")
def test_standard_output_contains_only_the_answer(run: Run) -> None:
    ended = run("run", "where is retry defined?")
    assert ended.returncode == 0, ended.stderr
    assert "a.py:1" in ended.stdout
    assert "Agents:" not in ended.stdout
    assert ended.stdout.strip() not in ended.stderr
    assert "Agents: 1 primary, 0 running" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.requirement("X17")
def test_json_output_has_one_wire_event_per_line(run: Run) -> None:
    ended = run("run", "--json", "-", input="where is retry defined?")
    assert ended.returncode == 0
    events = lines(ended.stdout)
    for event in events:
        EventParams.model_validate(event)
    numbers = [event["seq"] for event in events if "seq" in event]
    assert numbers == list(range(1, len(numbers) + 1))
    assert {"agent_started", "tool_call", "agent_finished", "turn_finished"} <= {event["type"] for event in events}


@pytest.mark.requirement("X17")
@pytest.mark.parametrize(
    ("arguments", "code", "changed"),
    [
        ((EDIT,), 3, False),
        (("--allow", "edit_file(a.py)", EDIT), 0, True),
        (("--allow", "edit_file(b.py)", EDIT), 3, False),
        (("--permission-mode", "accept_edits", EDIT), 0, True),
        (("--permission-mode", "accept_edits", "--deny", "edit_file(*.py)", EDIT), 0, False),
        (("--max-turns", "1", "where is retry defined?"), 1, False),
    ],
)
def test_the_exit_code_reflects_the_outcome(
    run: Run, project: Path, arguments: tuple[str, ...], code: int, changed: bool
) -> None:
    ended = run("run", *arguments)
    assert ended.returncode == code, ended.stderr
    assert ("color" in (project / "a.py").read_text()) is changed
    assert ("Not approved: " in ended.stderr) is (code == 3)
    assert ("There was no terminal to ask for approval" in ended.stderr) is (code == 3)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--allow", "edit file", "x"), "is not a valid rule"),
        (("--continue", "x"), "this folder has no session yet"),
        (("--continue", "--session", "s", "x"), "cannot be combined"),
        (("--session", "unknown", "x"), "No session has an id that begins or ends with unknown."),
        (("--agent", "planner", "x"), "'planner' is for sub-agents only"),
        (("--permission-mode", "root", "x"), "'--permission-mode': 'root' is not one of 'plan'"),
        (("--max-turns", "few", "x"), "'--max-turns': must be a valid integer\n"),
        (("--budget", "-1", "x"), "'--budget': must be an amount above 0. Omit it for no limit."),
        (("--budget", "0", "x"), "'--budget': must be an amount above 0. Omit it for no limit."),
        (("--budget", "nan", "x"), "'--budget': must be an amount above 0. Omit it for no limit."),
        (("--settings", "nothing.json", "x"), "nothing.json: there is no such file"),
        (("",), "The prompt is empty"),
        (("--json", "  \n"), "The prompt is empty"),
    ],
)
def test_invalid_usage_is_reported_and_nothing_runs(run: Run, arguments: tuple[str, ...], told: str) -> None:
    ended = run("run", *arguments)
    assert ended.returncode == 2
    assert told in ended.stderr
    assert "Traceback" not in ended.stderr
    assert ended.stdout == ""
    assert run("sessions", "list", "--json").stdout == "[]\n"


@pytest.mark.parametrize("input", ["", "  \n", "\udcff"])
def test_an_invalid_prompt_is_a_usage_error(input: str) -> None:
    ended = completed([*WARM, "run"], input=input.encode("utf-8", "surrogateescape"))
    assert ended.returncode == 2
    assert "standard input" in ended.stderr


def test_run_continues_an_earlier_session(run: Run, project: Path) -> None:
    first = lines(run("run", "--json", "where is retry defined?").stdout)[0]["sessionId"]
    again = lines(run("run", "--json", "--continue", "and colour?").stdout)
    assert {event["sessionId"] for event in again if "sessionId" in event} == {first}
    assert min(event["seq"] for event in again if "seq" in event) > 1
    by_id = run("run", "--session", first[:30], "where is colour?")
    assert by_id.returncode == 0
    (project / "other").mkdir()


def test_a_custom_definition_replaces_the_primary_agent(run: Run, project: Path) -> None:
    (project / ".deputy/agents").mkdir(parents=True)
    (project / ".deputy/agents/scout.md").write_text(
        "---\ndescription: Scouts\nmode: primary\ntools: Read\n---\nScout."
    )
    events = lines(run("run", "--json", "--agent", "scout", "where is retry defined?").stdout)
    assert events[0]["type"] == "agent_started"
    assert events[0]["agent"]["definition"] == "scout"


@pytest.mark.parametrize("name", ["explain", "nothing"])
def test_an_unavailable_mcp_prompt_is_a_usage_error(run: Run, tmp_path: Path, name: str) -> None:
    configure_user_mcp_servers(tmp_path / "own", tools=tools_server())
    ended = run("run", f"/mcp__tools__{name}", HOME=str(tmp_path / "own"))
    assert ended.returncode == 2, ended.stderr
    assert f"/mcp__tools__{name}" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert run("sessions", "list", "--json").stdout == "[]\n"


@pytest.mark.requirement("X12", "X17")
@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_cancels_and_leaves_nothing_running(project: Path, stop: signal.Signals) -> None:
    process = subprocess.Popen(
        [*DEPUTY, "run", "--json", "--model", "m", "go"],
        cwd=project,
        env={**os.environ, "ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": _deaf()},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        while '"turn_started"' not in process.stdout.readline():
            pass
        process.send_signal(stop)
        told, errors = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
    assert process.returncode == 130, errors
    assert lines(told)[-1]["type"] in ("turn_finished", "agent_status", "session_status")
    assert '"cancelled"' in told


@pytest.mark.parametrize("signals", [1, 2])
def test_a_signal_during_the_start_of_an_mcp_server_cancels_before_a_model_request(
    project: Path, tmp_path: Path, signals: int
) -> None:
    configure_user_mcp_servers(tmp_path / "own", deaf=SILENT_SERVER)
    process = subprocess.Popen(
        [*DEPUTY, "run", "--json", "--model", "m", "go"],
        cwd=project,
        env={**os.environ, "HOME": str(tmp_path / "own"), "ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": _deaf()},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        while "waiting for the MCP server deaf" not in process.stdout.readline():
            pass
        for _ in range(signals):
            process.send_signal(signal.SIGINT)
        told, errors = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
    assert process.returncode == 130, errors
    assert "Traceback" not in errors
    assert "agent_activity" not in told
    _KEPT[-1].setblocking(False)
    with pytest.raises(BlockingIOError):  # no model request was made
        _KEPT[-1].accept()


@pytest.mark.parametrize(
    ("shape", "closing", "code"),
    [("", "<&- >&- 2>&-", 0), ("--json", "<&- 2>&-", 0), ("", ">/dev/full", 1), ("--json", ">/dev/full", 1)],
)
def test_closed_or_full_streams_do_not_fail_a_run(project: Path, shape: str, closing: str, code: int) -> None:
    line = f"{' '.join(DEPUTY)} run {shape} 'where is retry defined?' {closing}"
    ended = in_bash(line, project)
    assert (ended.returncode, "Traceback" in ended.stderr) == (code, False)
    assert ("Standard output cannot be written: no space left on device." in ended.stderr) is bool(code)


@pytest.mark.parametrize("command", ["--help", "agents list"])
def test_a_full_disk_behind_standard_output_is_reported_in_one_line(project: Path, command: str) -> None:
    line = f"{' '.join(DEPUTY)} {command} >/dev/full"
    ended = in_bash(line, project)
    assert (ended.returncode, ended.stderr) == (1, "deputy: no space left on device\n")


def test_non_ascii_prompts_work_in_an_ascii_locale(project: Path) -> None:
    locale = "LC_ALL=C PYTHONUTF8=0 PYTHONCOERCECLOCALE=0 ANTHROPIC_BASE_URL="
    ended = in_bash(f"{locale} {' '.join(DEPUTY)} run --json 'where is größe?'", project)
    assert "where is größe?" in [event.get("text") for event in lines(ended.stdout)]


def test_a_deleted_folder_is_reported(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    line = f"rmdir {gone}; {' '.join(DEPUTY)} run hi"
    ended = in_bash(line, gone)
    assert ended.returncode == 2
    assert "The current folder no longer exists" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_closed_pipe_ends_the_run(project: Path) -> None:
    piped = f"{' '.join(DEPUTY)} run --json 'where is retry defined?' | head -1; echo ${{PIPESTATUS[0]}}"
    ended = in_bash(piped, project)
    assert "Traceback" not in ended.stderr
    assert "Error" not in ended.stderr
    assert len(ended.stdout.splitlines()) == 2


@pytest.mark.parametrize(
    ("option", "rule", "reason"),
    [
        ("--deny", "shel(git push *)", "there is no tool shel. Did you mean shell?"),
        ("--allow", "red_file(*)", "there is no tool red_file. Did you mean read_file?"),
        ("--deny", "shel*", "there is no tool shel*."),
    ],
)
def test_a_rule_for_an_unknown_tool_is_wrong_usage(run: Run, option: str, rule: str, reason: str) -> None:
    ended = run("run", option, rule, "where is retry defined?")
    assert ended.returncode == 2
    assert f"{option} {rule}: {reason}" in " ".join(ended.stderr.replace("│", " ").split())
    assert json.loads(run("sessions", "list", "--json").stdout) == []


def test_an_unknown_name_in_a_settings_file_is_wrong_usage(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "s.json"
    file.write_text('{\n"permisions": {"rules": [{"tool": "shell", "action": "deny"}]}\n}')
    ended = run("run", "--settings", str(file), "hi")
    assert ended.returncode == 2
    shown = "".join(ended.stderr.replace("│", " ").split())
    assert f"{file}:2:permisions:Thereisnosettingpermisions." in shown


def test_sessions_are_listed_shown_exported_and_deleted(run: Run, tmp_path: Path) -> None:
    assert run("run", "--deny", "mcp__git__*", "where is retry defined?").returncode == 0
    [listed] = json.loads(run("sessions", "list", "--json").stdout)
    session_id = listed["sessionId"]
    assert run("sessions", "list").stdout.startswith(session_id[-12:])
    assert "where is retry defined?" in run("sessions", "show", session_id[-12:]).stdout
    exported = json.loads(run("sessions", "export", session_id, "--format", "json").stdout)
    assert exported["session"]["sessionId"] == session_id
    target = tmp_path / "talk.md"
    assert run("sessions", "export", session_id, "-o", str(target)).returncode == 0
    assert target.read_text().startswith("# where is retry defined?")
    again = run("sessions", "export", session_id, "-o", str(target))
    assert again.returncode == 2
    assert "File exists" in again.stderr
    assert run("sessions", "delete", session_id, input="n\n").returncode == 1
    assert json.loads(run("sessions", "show", session_id, "--json").stdout) == exported
    deleted = run("sessions", "delete", session_id, "--yes", "--json").stdout
    assert json.loads(deleted) == {"deleted": session_id}
    assert json.loads(run("sessions", "list", "--json").stdout) == []
    unknown = run("sessions", "show", "nothing")
    assert unknown.returncode == 2
    assert "No session has an id that begins or ends with nothing." in unknown.stderr


def _deaf() -> str:
    """The address of a service that accepts and never answers."""
    listener = socket.create_server(("127.0.0.1", 0))
    _KEPT.append(listener)
    return f"http://127.0.0.1:{listener.getsockname()[1]}"


_KEPT: list[socket.socket] = []


def test_invalid_rules_of_the_user_are_reported(run: Run, tmp_path: Path) -> None:
    (tmp_path / ".deputy").mkdir()
    (tmp_path / ".deputy" / "settings.json").write_text('{"permissions": ')
    ended = run("run", "where is retry defined?", HOME=str(tmp_path), USERPROFILE=str(tmp_path))
    assert "settings.json" in ended.stderr
    assert "Until this is fixed, every tool call needs approval." in ended.stderr
