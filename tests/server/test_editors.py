"""The settings in editors/README.md."""

import json
import re
import tomllib
from pathlib import Path

from deputy_protocol.methods import COMMANDS

TEXT = (Path(__file__).parents[2] / "editors" / "README.md").read_text("utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)


def test_settings_for_editors_are_well_formed() -> None:
    assert len([json.loads(block) for block in blocks("json")]) == 4
    (helix,) = map(tomllib.loads, blocks("toml"))
    assert "deputy" in helix["language-server"]
    assert all(block.count("(") == block.count(")") for block in (*blocks("lua"), *blocks("elisp")))


def test_every_documented_command_is_served() -> None:
    named = set(re.findall(r"\bdeputy\.[a-z]+[A-Z]?\w*", TEXT))
    assert named >= {"deputy.prompt", "deputy.listAgents", "deputy.cancelAgent", "deputy.openTranscript"}
    assert named <= {command.name for command in COMMANDS}


def test_documented_settings_start_the_server() -> None:
    starts = re.findall(r"/path/to/deputy/(\S*?)['\"]", TEXT)
    assert set(starts) == {".venv/bin/deputy"}
    assert len(starts) == 8
