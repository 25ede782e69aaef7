"""The contract says of itself what this server does not have yet."""

import ast
from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel

import deputy_agents
import deputy_server
from deputy_protocol import settings
from deputy_protocol.methods import COMMANDS, METHODS
from deputy_protocol.settings import Settings
from deputy_server.lsp import served

TRANSLATION = ("deputy_agents/domain/settings.py", "deputy_server/convert/settings.py")
"""Where a setting is handed on, which is not yet to do something with it."""


def test_what_the_contract_calls_planned_is_what_the_server_does_not_have() -> None:
    here = {entry.name for entry in (*served.REQUESTS, *served.SENT, *served.COMMANDS)}
    assert {entry.name for entry in (*METHODS, *COMMANDS) if not entry.planned} == here


def test_a_setting_is_read_where_something_is_done_or_called_planned() -> None:
    """Reading is found by name: enough to notice a setting that nobody has thought of."""
    sources = (file for package in (deputy_agents, deputy_server) for file in Path(package.__path__[0]).rglob("*.py"))
    trees = (ast.parse(file.read_text("utf-8")) for file in sources if not file.as_posix().endswith(TRANSLATION))
    read = {node.attr for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert {name for name, attribute in _settings(Settings) if attribute not in read} <= settings.PLANNED
    assert {name for name, _ in _settings(Settings)} > settings.PLANNED


def _settings(group: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, str]]:
    """The name of each setting on the wire, and in Python."""
    for attribute, field in group.model_fields.items():
        name = f"{prefix}{field.alias or attribute}"
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from _settings(field.annotation, f"{name}.")
        else:
            yield name, attribute
