"""``deputy sessions``: review, rewind and fork of a stored session."""

from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from deputy_server.cli.app import app

pytestmark = pytest.mark.requirement("R9")


@pytest.fixture(autouse=True)
def _here(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(workspace)
    monkeypatch.setenv("COLUMNS", "200")
    (workspace / "a.txt").write_text("one\ntwo\n")


def deputy(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments, env={"DEPUTY_MODEL": "offline"}, prog_name="deputy")


def done(*arguments: str) -> str:
    ran = deputy(*arguments)
    assert ran.exit_code == 0, ran.output
    return ran.stdout


def test_the_command_line_reviews_rewinds_and_forks_a_stored_session(workspace: Path) -> None:
    ran = deputy("run", "--permission-mode", "bypass", 'replace "one" with "1" in a.txt')
    assert "✓ edit_file(a.txt)\n    @@ -1,2 +1,2 @@\n    -one\n    +1\n     two\n" in ran.stderr
    session_id = done("sessions", "list").split()[0]
    assert done("sessions", "diff", session_id) == "--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n-one\n+1\n two\n"
    assert "```diff\n@@ -1,2 +1,2 @@\n-one\n+1\n two\n```" in done("sessions", "show", session_id)
    assert done("sessions", "undo", session_id, "a.txt").startswith("Undone: 1 change")
    assert (workspace / "a.txt").read_text() == "one\ntwo\n"
    done("run", "--session", session_id, "--permission-mode", "bypass", 'replace "one" with "1" in a.txt')
    checkpoint = done("sessions", "checkpoints", session_id).split()[0]
    assert done("sessions", "rewind", session_id, checkpoint, "--preview") == "modified: a.txt\n"
    forked = done("sessions", "fork", session_id).strip()
    assert done("sessions", "show", forked).startswith("# Fork of")
    assert "Restored a.txt" in done("sessions", "rewind", session_id, checkpoint, "--files")
    assert (workspace / "a.txt").read_text() == "one\ntwo\n"
    left = done("sessions", "checkpoints", session_id).split()[0]
    done("sessions", "rewind", session_id, left, "--files")
    assert (workspace / "a.txt").read_text() == "1\ntwo\n"
    assert "+1\n" in done("sessions", "diff", session_id), "what came back is to be reviewed again"
    assert deputy("sessions", "rewind", session_id, "nothing").exit_code == 2


def test_slash_commands_of_a_run_list_checkpoints_go_back_and_fork(workspace: Path) -> None:
    done("run", "--permission-mode", "bypass", 'replace "one" with "1" in a.txt')
    session_id = done("sessions", "list").split()[0]
    assert "| 1 | `" in done("run", "--session", session_id, "/rewind")
    assert "Restored: `a.txt`." in done("run", "--session", session_id, "/rewind 1")
    assert (workspace / "a.txt").read_text() == "one\ntwo\n"
    assert "Restored a.txt" in done("sessions", "rewind", session_id, "1", "--files")
    assert (workspace / "a.txt").read_text() == "1\ntwo\n"
    assert "continues in a new one too" in done("run", "--session", session_id, "/fork")
    assert "Fork of" in done("sessions", "list")
