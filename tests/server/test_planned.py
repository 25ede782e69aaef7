"""The server supports everything in the contract."""

import ast
from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel

import deputy_agents
import deputy_server
from deputy_protocol import methods
from deputy_protocol.command_table import COMMANDS
from deputy_protocol.contract import Direction
from deputy_protocol.methods import METHODS
from deputy_protocol.settings import Settings
from deputy_server.lsp import routes

TRANSLATION = ("deputy_agents/domain/settings.py", "deputy_server/convert/settings.py")
"""Where settings are only converted, which does not count as reading them."""


def test_server_handles_or_sends_every_method_and_command_of_the_contract() -> None:
    here = {*routes.REQUESTS, *routes.COMMANDS, *_sent()}
    assert {entry.name for entry in (*METHODS, *COMMANDS)} == here


def _sent() -> Iterator[str]:
    """The methods that the server sends, found by the name of their constant in its source."""
    sources = Path(deputy_server.__path__[0]).rglob("lsp/*.py")
    used = {
        getattr(node, "attr", None) or getattr(node, "id", None)
        for file in sources
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
    }
    for constant, entry in vars(methods).items():
        if entry in METHODS and entry.direction is Direction.TO_CLIENT and constant in used:
            yield entry.name


def test_every_setting_is_read() -> None:
    """Reading is found by name: enough to notice a forgotten setting."""
    sources = (file for package in (deputy_agents, deputy_server) for file in Path(package.__path__[0]).rglob("*.py"))
    trees = (ast.parse(file.read_text("utf-8")) for file in sources if not file.as_posix().endswith(TRANSLATION))
    read = {node.attr for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert {name for name, attribute in _settings(Settings) if attribute not in read} == set()


def _settings(group: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, str]]:
    """The name of each setting on the wire and in Python."""
    for attribute, field in group.model_fields.items():
        name = f"{prefix}{field.alias or attribute}"
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from _settings(field.annotation, f"{name}.")
        else:
            yield name, attribute
