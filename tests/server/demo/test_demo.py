"""The demo as a newcomer runs it: a process, the real server below it, with and without a terminal."""

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import psutil
import pytest

from tests.support.terminal import PATIENCE, Terminal, terminal

DEMO = [sys.executable, "-m", "deputy_server", "demo"]


@pytest.fixture
def project(workspace: Path) -> Path:
    (workspace / "main.py").write_text('"""Starts here."""\n\n\ndef main() -> None:\n    print("colour")\n')
    (workspace / "test_main.py").write_text("def test_main() -> None:\n    assert True\n")
    (workspace / "errors.py").write_text("class Failure(Exception):\n    pass\n")
    return workspace


@pytest.fixture(autouse=True)
def temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The demo's temporary files go here, and must be gone when it has ended."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    yield folder
    assert list(folder.iterdir()) == []


def contents(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


def run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*DEMO, *arguments],
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def test_without_a_terminal_three_acts_run_by_themselves_and_leave_the_folder_as_it_was(project: Path) -> None:
    before = contents(project)
    ended = run(cwd=project)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "No terminal to ask at: changes of the demo's own sample are approved" in ended.stdout
    assert "approved automatically: nobody is asked here" in ended.stdout
    assert re.search(r"⊘ \[.*\] cancelled", ended.stdout)
    assert re.search(r"✓ \[.*\] completed", ended.stdout)
    assert "hello.py: changed, as approved" in ended.stdout
    assert contents(project) == before


def test_with_a_prompt_and_nobody_to_ask_an_edit_is_shown_and_rejected_but_not_in_the_users_name(project: Path) -> None:
    before = contents(project)
    ended = run('replace "colour" with "color"', cwd=project)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert 'print("color")' in ended.stdout
    assert "refused: nobody is asked here" in ended.stdout
    assert "dismissed without an answer" in ended.stdout
    assert "Denied by the user" not in ended.stdout
    assert "0 approved, 0 denied, 1 without an answer" in ended.stdout
    assert contents(project) == before


def test_yes_in_advance_approves(project: Path) -> None:
    ended = run("--yes", 'replace "colour" with "color"', cwd=project)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "approved as --yes says" in ended.stdout
    assert "nobody is asked" not in ended.stdout
    assert 'print("color")' in (project / "main.py").read_text()


def test_an_empty_prompt_is_rejected_at_once(project: Path) -> None:
    ended = run(" ", cwd=project)
    assert ended.returncode == 2
    assert "it is empty" in ended.stderr
    assert ended.stdout == ""


def test_without_a_key_it_says_what_to_set(project: Path) -> None:
    ended = run("--model", "some-model", "Where is main?", cwd=project)
    assert ended.returncode == 1
    assert "Set ANTHROPIC_API_KEY" in ended.stdout


def test_when_nobody_reads_any_more_it_ends_quietly(project: Path) -> None:
    with subprocess.Popen(
        DEMO, cwd=project, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as demo:
        assert demo.stdout is not None
        assert demo.stderr is not None
        demo.stdout.readline()
        demo.stdout.close()
        assert demo.stderr.read() == b""
        assert demo.wait(PATIENCE) == 1


def at_terminal(*arguments: str, cwd: Path) -> AbstractContextManager[Terminal]:
    return terminal([*DEMO, *arguments], cwd)


def test_at_a_terminal_the_user_is_asked_and_a_key_answers(project: Path) -> None:
    with at_terminal('replace "colour" with "color"', cwd=project) as person:
        person.wait_for(r"\] edit_file\(main\.py\)")
        person.wait_for(r"1 waiting for you")
        assert 'print("colour")' in (project / "main.py").read_text()
        person.press("\r y")
        assert person.end() == 0
    assert 'print("color")' in (project / "main.py").read_text()


def test_a_denied_edit_changes_nothing(project: Path) -> None:
    before = contents(project)
    with at_terminal('replace "colour" with "color"', cwd=project) as person:
        person.wait_for(r"1 waiting for you")
        person.press("n")
        assert person.end() == 0
        assert "0 approved, 1 denied" in person.rest
    assert contents(project) == before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_a_permission_request_is_open_ends_everything(project: Path, number: signal.Signals) -> None:
    before = contents(project)
    with at_terminal('replace "colour" with "color"', cwd=project) as person:
        person.wait_for(r"1 waiting for you")
        below = psutil.Process(person.process.pid).children(recursive=True)
        assert below
        person.process.send_signal(number)
        assert person.end() == 130
        assert "all of its agents have ended" in person.rest
        assert psutil.wait_procs(below, timeout=PATIENCE)[1] == []
    assert contents(project) == before


def test_the_version_and_the_commands_are_told() -> None:
    command = [sys.executable, "-m", "deputy_server"]
    told = subprocess.run([*command, "--version"], capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert re.fullmatch(r"deputy \d+\.\d+\.\d+\n", told.stdout)
    shown = subprocess.run([*command, "--help"], capture_output=True, text=True, timeout=PATIENCE, check=True).stdout
    assert "serve" in shown
    assert "demo" in shown
    assert "<bool>" not in shown


def test_modules_in_the_workspace_are_never_imported(tmp_path: Path) -> None:
    for name in ("deputy_agents", "deputy_protocol", "anyio"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('a module of the workspace was imported')\n")
    deputy = Path(sys.executable).parent / "deputy"
    done = subprocess.run(
        [deputy, "demo", "--no-input", "What is this?"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert "a module of the workspace was imported" not in done.stdout + done.stderr
    assert done.returncode == 0
