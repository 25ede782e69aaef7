"""The documented configurations of editors: their format, the names that the editors read, and the commands."""

import json
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from deputy_protocol.command_table import COMMANDS

DOCS = Path(__file__).parents[2] / "docs"
TEXT = (DOCS / "any-editor.md").read_text("utf-8")
ACP = (DOCS / "acp.md").read_text("utf-8")

SERVE, AGENT = ["deputy", "serve", "--stdio"], ["deputy", "acp"]
STRING = {"type": "string"}


def closed(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    """A schema of an object that has these properties alone."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(required or properties),
        "additionalProperties": False,
    }


def named(values: dict[str, Any]) -> dict[str, Any]:
    """A schema of an object with names of the user's choice."""
    return {"type": "object", "additionalProperties": values, "minProperties": 1}


def rows(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items, "minItems": 1}


STRINGS = rows(STRING)
SPLIT = {"command": {"const": "deputy"}, "args": {"enum": [SERVE[1:], AGENT[1:]]}}
WHOLE = {"const": SERVE}
PROMPT = closed({"text": STRING})

HELIX = closed(
    {
        "language-server": named(closed(SPLIT)),
        "language": rows(closed({"name": STRING, "language-servers": STRINGS})),
    }
)
SUBLIME = closed({"clients": named(closed({"enabled": {"type": "boolean"}, "command": WHOLE, "selector": STRING}))})
SUBLIME_KEYS = rows(
    closed(
        {
            "keys": STRINGS,
            "command": {"const": "lsp_execute"},
            "args": closed(
                {
                    "session_name": {"const": "deputy"},
                    "command_name": {"const": "deputy.prompt"},
                    "command_args": rows(PROMPT),
                }
            ),
        }
    )
)
KATE = closed(
    {"servers": named(closed({"command": WHOLE, "rootIndicationFileNames": STRINGS, "highlightingModeRegex": STRING}))}
)
FILE_TYPE = closed({"name": STRING, "patterns": STRINGS}, "patterns")
LSP4IJ = closed(
    {
        "id": STRING,
        "name": STRING,
        "programArgs": closed({"default": {"const": " ".join(SERVE)}}),
        "fileTypeMappings": rows(closed({"fileType": FILE_TYPE, "languageId": STRING})),
    }
)
GLSPC = closed(
    {
        "glspc.server.command": SPLIT["command"],
        "glspc.server.commandArguments": SPLIT["args"],
        "glspc.server.languageId": STRINGS,
    }
)
VSCODE_KEY = closed({"key": STRING, "command": {"const": "deputy.prompt"}, "args": PROMPT})
ACP_AGENT = {**SPLIT, "env": {"type": "object"}}
ZED = closed({"agent_servers": named(closed({"type": {"const": "custom"}, **ACP_AGENT}))})
JETBRAINS = closed({"agent_servers": named(closed(ACP_AGENT))})

CONFIGURATIONS: list[tuple[str, str, Callable[[str], Any], list[dict[str, Any]]]] = [
    ("Helix", "toml", tomllib.loads, [HELIX]),
    ("Sublime Text, with the package LSP", "json", json.loads, [SUBLIME, SUBLIME_KEYS]),
    ("Kate", "json", json.loads, [KATE]),
    ("JetBrains IDEs", "json", json.loads, [LSP4IJ]),
    ("VS Code, without the extension", "json", json.loads, [GLSPC, VSCODE_KEY]),
]
"""By heading: the language of the code blocks, how to read them, and schemas with the names that the editor knows."""


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def section(heading: str) -> str:
    return TEXT.split(f"\n### {heading}\n", 1)[1].split("\n### ", 1)[0]


@pytest.mark.requirement("N4")
@pytest.mark.parametrize(
    ("heading", "language", "read", "schemas"), CONFIGURATIONS, ids=[row[0] for row in CONFIGURATIONS]
)
def test_configuration_has_only_names_that_the_editor_reads(
    heading: str, language: str, read: Callable[[str], Any], schemas: list[dict[str, Any]]
) -> None:
    found = [read(block) for block in blocks(section(heading), language)]
    assert len(found) == len(schemas)
    for value, schema in zip(found, schemas, strict=True):
        jsonschema.validate(value, schema)


@pytest.mark.requirement("N4")
def test_agents_of_zed_and_jetbrains_have_only_names_that_the_editor_reads() -> None:
    zed, jetbrains = (json.loads(block) for block in blocks(ACP, "json"))
    jsonschema.validate(zed, ZED)
    jsonschema.validate(jetbrains, JETBRAINS)


def test_no_configuration_is_unchecked() -> None:
    checked = sum(len(blocks(section(heading), language)) for heading, language, *_ in CONFIGURATIONS)
    assert checked == len(blocks(TEXT, "(?:json|toml)"))


def test_code_of_other_configurations_starts_the_command() -> None:
    code = [block for text in (TEXT, ACP) for block in blocks(text, "(?:lua|elisp|kak|vim)")]
    assert len(code) == 8
    for block in code:
        assert block.count("(") == block.count(")")
        start = re.search(r"""["']deputy["'],?\s*(:command-params '\(|args = [\[{])?\s*["'](serve|acp)["']""", block)
        assert start, block


def test_every_editor_is_marked_as_verified_or_from_its_documentation() -> None:
    table = TEXT.split("| editor | by | |", 1)[1].split("\n\n", 1)[0]
    editors = [row.split("|") for row in table.strip().splitlines()[1:]]
    assert len(editors) == 11
    for _, editor, _, state, _ in editors:
        assert re.fullmatch(r" (verified( with .+)?|from its documentation) ", state), editor
    verified = " ".join(editor for _, editor, _, state, _ in editors if "verified" in state)
    assert all(name in verified for name in ("VS Code", "Neovim", "Emacs, eglot", "Emacs, lsp-mode"))
    assert not any(name in verified for name in ("Helix", "Zed", "Sublime", "Kate", "JetBrains", "Kakoune"))


def test_every_documented_command_is_served() -> None:
    commands = set(re.findall(r"\bdeputy\.[a-z]+[A-Z]?\w*", TEXT))
    assert commands >= {"deputy.prompt", "deputy.listAgents", "deputy.cancelAgent", "deputy.openTranscript"}
    assert commands <= {command.name for command in COMMANDS}
