"""``deputy init``."""

import resource
from pathlib import Path

import pytest
from typer.testing import CliRunner

from deputy_agents.definition.catalogue import Catalogue
from deputy_agents.guidance.workspace_settings import read_workspace_settings
from deputy_agents.session.builder import TOOL_NAMES
from deputy_server.cli.app import app
from deputy_server.starter import FILES, write_files


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str, code: int = 0) -> tuple[str, str]:
    ended = CliRunner().invoke(app, ["init", *arguments])
    assert ended.exit_code == code, ended.output
    return ended.stdout, ended.stderr


def test_without_a_terminal_the_files_are_shown_and_not_written(folder: Path) -> None:
    out, err = run(code=1)
    assert all(text in out for text in FILES.values())
    assert "Use --yes" in err
    assert list(folder.iterdir()) == []


def test_the_starter_is_valid(folder: Path) -> None:
    run("--yes")
    assert {name: (folder / name).read_text() for name in FILES} == FILES
    settings = read_workspace_settings(folder)
    assert (len(settings.rules), settings.problems) == (1, ())
    catalogue = Catalogue([folder], trusted=True, known_tools=TOOL_NAMES, home=folder / "nobody")
    catalogue.load()
    assert "change_reviewer" in catalogue.definitions
    assert list(catalogue.problems) == []


def test_nothing_is_overwritten(folder: Path) -> None:
    (folder / ".deputy").mkdir()
    (folder / ".deputy/settings.json").write_text("{}")
    (folder / "CLAUDE.md").symlink_to("nowhere")
    out, err = run("--yes")
    assert "AGENTS.md ──" not in out
    assert "Kept: .deputy/settings.json" in err
    assert (folder / ".deputy/settings.json").read_text() == "{}"
    assert not (folder / "AGENTS.md").exists()
    assert "Nothing to write." in run("--yes")[1]


@pytest.mark.parametrize(
    ("ignored", "hint"), [("", "commit them: git add .deputy"), (".*/\n", "Git ignores .deputy"), (None, "Wrote")]
)
def test_a_hint_states_what_git_does_with_the_files(folder: Path, ignored: str | None, hint: str) -> None:
    if ignored is not None:
        (folder / ".git").mkdir()
        (folder / ".gitignore").write_text(ignored)
    assert hint in run("--yes")[1].splitlines()[-1]


def test_a_full_disk_leaves_no_incomplete_file_and_is_named(folder: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len("# Instru"), limits[1]))
    try:
        with pytest.raises(OSError, match="File too large") as failed:
            write_files(folder, {"AGENTS.md": FILES["AGENTS.md"]})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert failed.value.filename == str(folder / "AGENTS.md")
    assert list(folder.iterdir()) == []
