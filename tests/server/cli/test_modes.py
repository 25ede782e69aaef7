"""The two ways to stay in control, ask first and review after, where a permission mode is chosen."""

import pytest
from typer.testing import CliRunner

from deputy_server.cli.app import app

pytestmark = pytest.mark.requirement("R10")


@pytest.mark.parametrize("command", ["run", "acp"])
def test_help_of_the_option_explains_both_ways(command: str) -> None:
    shown = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "400"}, prog_name="deputy").stdout
    assert "`default` asks first; with `accept_edits`, you review edits after." in " ".join(shown.split())
