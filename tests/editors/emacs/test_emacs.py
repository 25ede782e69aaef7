"""Emacs with its two LSP clients, in batch mode, configured as in docs/any-editor.md."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.editors.nvim.neovim import DEPUTY, scripted
from tests.editors.plain.readme import lines_for

HERE = Path(__file__).parent
PACKAGES = Path("/usr/share/emacs/site-lisp/elpa")
"""Debian's package folder; ``-Q`` ignores it."""

pytestmark = [pytest.mark.editors, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def model() -> Iterator[str]:
    with scripted(HERE.parent / "plain" / "plays.py") as url:
        yield url


def emacs(client: str, heading: str, model: str, project: Path, home: Path) -> str:
    """The output of Emacs while ``drive.el`` runs with that client."""
    (project / ".git").mkdir()
    (project / "notes.txt").write_text("some notes\n", "utf-8")
    (project / "first.py").write_text("limit = 2\n", "utf-8")
    (home / "readme.el").write_text(lines_for(heading, "elisp"), "utf-8")
    paths = [argument for folder in sorted(PACKAGES.iterdir()) for argument in ("-L", str(folder))]
    files = (home / "readme.el", HERE / "drive.el", HERE / f"{client}.el")
    loads = [argument for file in files for argument in ("-l", str(file))]
    model_of = {"ANTHROPIC_BASE_URL": model, "ANTHROPIC_API_KEY": "test-key", "DEPUTY_MODEL": "m"}
    ended = subprocess.run(
        ["emacs", "--batch", "-Q", "--eval", f'(setq user-emacs-directory "{home}/")', *paths, *loads],
        cwd=project,
        env={**os.environ, "PATH": f"{DEPUTY.parent}{os.pathsep}{os.environ['PATH']}", **model_of},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=170,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout
    return ended.stdout


@pytest.mark.parametrize(
    ("client", "heading"), [("eglot", "Emacs, eglot"), ("lspmode", "Emacs, lsp-mode")], ids=["eglot", "lsp-mode"]
)
def test_a_user_prompts_approves_one_edit_denies_another_and_stops_a_sub_agent(
    client: str, heading: str, model: str, workspace: Path, tmp_path: Path
) -> None:
    out = emacs(client, heading, model, workspace, tmp_path)
    assert "user content" in out
    assert (workspace / "first.txt").read_text("utf-8") == "the first text\n"
    assert not (workspace / "second.txt").exists()
    assert "[write the first] write_file(first.txt)" in out
    assert "Full transcript: " in out
    if client == "lspmode":
        assert {"progress begin", "progress end"} <= set(out.splitlines())
