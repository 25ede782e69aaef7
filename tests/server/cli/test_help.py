"""The help of every command, and completion."""

from collections.abc import Iterator
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from deputy_server.cli.app import app

WIDTH = 80


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield path
    for name, inner in getattr(command, "commands", {}).items():
        yield from commands(inner, (*path, name))


COMMANDS = list(commands(typer.main.get_command(app)))


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_help_fits_80_columns_and_shows_an_example_on_each_line(path: tuple[str, ...]) -> None:
    ended = CliRunner().invoke(app, [*path, "--help"], env={"COLUMNS": "200"})
    lines = ended.stdout.splitlines()
    assert ended.exit_code == 0
    assert max(map(len, lines)) <= WIDTH
    if not any(other[: len(path)] == path for other in COMMANDS if other != path):
        examples = [line.strip() for line in lines[lines.index("  Examples:") + 1 :]]
        shown = examples[: examples.index("")]
        assert shown
        assert all("deputy " in line for line in shown)
        assert not any(line.count("`") for line in shown)
