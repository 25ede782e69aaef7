"""The servers for editors, started by a user in a terminal."""

import sys
import tomllib
from pathlib import Path

import pytest

from deputy_server.documentation import page
from tests.support.terminal import terminal

ROOT = Path(__file__).parents[2]
DEPUTY = (sys.executable, "-P", "-m", "deputy_server")


@pytest.mark.requirement("L4")
@pytest.mark.parametrize(("command", "name"), [("serve", "any-editor"), ("acp", "acp")])
def test_server_for_editors_explains_itself_at_a_terminal(command: str, name: str, workspace: Path) -> None:
    with terminal([*DEPUTY, command], workspace) as user:
        user.wait_for(f"`deputy {command}` is for editors")
        user.wait_for("Press Ctrl-D to end it")
        user.wait_for(page(name))
        user.wait_for("\n")
        user.press("\x04")
        assert user.end() == 0
        assert "Traceback" not in user.rest


@pytest.mark.parametrize("name", ["acp", "any-editor", "neovim", "troubleshooting", "vscode"])
def test_addresses_of_the_documentation_are_pages_of_the_site(name: str) -> None:
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["urls"]
    assert page(name) == f"{urls['Documentation']}{name}/"
    assert (ROOT / "docs" / f"{name}.md").is_file()
