"""The demo as a process with a real server, with and without a terminal."""

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import psutil
import pytest

from deputy_server.documentation import page
from tests.support.terminal import PATIENCE, Terminal, terminal
from tests.support.warm import completed

DEMO = ("-m", "deputy_server", "demo")
COLD_DEMO = [sys.executable, *DEMO]


@pytest.fixture
def project(workspace: Path) -> Path:
    (workspace / "main.py").write_text('"""Starts here."""\n\n\ndef main() -> None:\n    print("colour")\n')
    (workspace / "test_main.py").write_text("def test_main() -> None:\n    assert True\n")
    (workspace / "errors.py").write_text("class Failure(Exception):\n    pass\n")
    return workspace


@pytest.fixture(autouse=True)
def temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder for the demo's temporary files. It must be empty when the demo has ended."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    yield folder
    assert list(folder.iterdir()) == []


def contents(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


def run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return completed([*DEMO, *arguments], cwd=cwd)


def test_without_a_terminal_the_tour_runs_and_leaves_the_folder_unchanged(project: Path) -> None:
    before = contents(project)
    ended = run(cwd=project)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "No terminal for approvals: edits in the sample project are approved" in ended.stdout
    assert "approved automatically: it is in the sample project" in ended.stdout
    assert re.search(r"⊘ \[.*\] cancelled", ended.stdout)
    assert re.search(r"✓ \[.*\] completed", ended.stdout)
    assert "hello.py: changed, as approved" in ended.stdout
    assert contents(project) == before
    *_, title, vscode, neovim, others = ended.stdout.splitlines()
    assert title == "Now in your editor:"
    assert [re.split(r"  +", line.strip()) for line in (vscode, neovim, others)] == [
        ["VS Code", page("vscode")],
        ["Neovim", page("neovim")],
        ["other editors", page("any-editor")],
    ]


@pytest.mark.requirement("L4")
def test_full_disk_below_the_output_ends_the_demo_with_a_message(project: Path) -> None:
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [*COLD_DEMO, "hello"],
            cwd=project,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
    assert (ended.returncode, ended.stderr) == (1, "deputy: no space left on device\n")


def test_edit_without_a_user_to_ask_is_shown_and_dismissed_but_not_denied(project: Path) -> None:
    before = contents(project)
    ended = run('replace "colour" with "color"', cwd=project)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert 'print("color")' in ended.stdout
    assert "not approved: no user to ask" in ended.stdout
    assert "dismissed without an answer" in ended.stdout
    assert "Denied by the user" not in ended.stdout
    assert "0 approved, 0 denied, 1 without an answer" in ended.stdout
    assert contents(project) == before


def test_yes_option_approves_everything(project: Path) -> None:
    ended = run("--yes", 'replace "colour" with "color"', cwd=project)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "approved by --yes" in ended.stdout
    assert "no user to ask" not in ended.stdout
    assert 'print("color")' in (project / "main.py").read_text()


def test_empty_prompt_is_rejected(project: Path) -> None:
    ended = run(" ", cwd=project)
    assert ended.returncode == 2
    assert "the prompt is empty" in ended.stderr
    assert ended.stdout == ""


def test_missing_key_is_reported_with_what_to_set(project: Path) -> None:
    ended = run("--model", "some-model", "Where is main?", cwd=project)
    assert ended.returncode == 1
    assert "Set ANTHROPIC_API_KEY" in ended.stdout


def test_closed_output_ends_the_demo_without_an_error_message(project: Path) -> None:
    with subprocess.Popen(
        COLD_DEMO, cwd=project, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as demo:
        assert demo.stdout is not None
        assert demo.stderr is not None
        demo.stdout.readline()
        demo.stdout.close()
        assert demo.stderr.read() == b""
        assert demo.wait(PATIENCE) == 1


def at_terminal(*arguments: str, cwd: Path) -> AbstractContextManager[Terminal]:
    return terminal([*COLD_DEMO, *arguments], cwd)


def test_key_at_a_terminal_answers_a_permission_request(project: Path) -> None:
    with at_terminal('replace "colour" with "color"', cwd=project) as user:
        user.wait_for(r"\] edit_file\(main\.py\)")
        user.wait_for(r"1 waiting for you")
        assert 'print("colour")' in (project / "main.py").read_text()
        user.press("\r y")
        assert user.end() == 0
    assert 'print("color")' in (project / "main.py").read_text()


def test_denied_edit_leaves_file_unchanged(project: Path) -> None:
    before = contents(project)
    with at_terminal('replace "colour" with "color"', cwd=project) as user:
        user.wait_for(r"1 waiting for you")
        user.press("n")
        assert user.end() == 0
        assert "0 approved, 1 denied" in user.rest
    assert contents(project) == before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_during_a_permission_request_ends_everything(project: Path, number: signal.Signals) -> None:
    before = contents(project)
    with at_terminal('replace "colour" with "color"', cwd=project) as user:
        user.wait_for(r"1 waiting for you")
        below = psutil.Process(user.process.pid).children(recursive=True)
        assert below
        user.process.send_signal(number)
        assert user.end() == 130
        assert "all of its agents have ended" in user.rest
        assert psutil.wait_procs(below, timeout=PATIENCE)[1] == []
    assert contents(project) == before


def test_version_and_help_are_printed() -> None:
    command = [sys.executable, "-m", "deputy_server"]
    printed = subprocess.run([*command, "--version"], capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert re.fullmatch(r"deputy \d+\.\d+\.\d+\n", printed.stdout)
    shown = subprocess.run([*command, "--help"], capture_output=True, text=True, timeout=PATIENCE, check=True).stdout
    assert "serve" in shown
    assert "demo" in shown
    assert "<bool>" not in shown


def test_modules_in_the_workspace_are_not_imported(tmp_path: Path) -> None:
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
