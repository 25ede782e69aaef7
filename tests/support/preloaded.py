"""What the process has done from which warm processes are forked: see :mod:`tests.support.warm`. Not for other use.

It imports every module of Deputy, and what those import late, and builds the schemas that are otherwise built at first
use.
"""

from collections.abc import Iterator
from importlib import import_module
from pkgutil import walk_packages
from typing import TypeVar

import deputy_agents
import deputy_protocol
import deputy_server
from deputy_agents.collector import collector_paused

T = TypeVar("T", bound=type)

IMPORTED_LATE = (
    "anthropic.resources.messages",
    "anyio._backends._asyncio",
    "h11",
    "httpcore2._async",
    "httpx2",
    "jsonschema",
    "mcp.client.stdio",
    "pytest",  # if the tests run in one process, each child imports it
)


def _modules() -> Iterator[str]:
    for package in (deputy_protocol, deputy_agents, deputy_server):
        found = walk_packages(package.__path__, f"{package.__name__}.")
        yield from (module.name for module in found if not module.name.endswith("__main__"))
    yield from IMPORTED_LATE


def _below(parent: T) -> Iterator[T]:
    for child in parent.__subclasses__():
        yield child
        yield from _below(child)


def _build_schemas() -> None:
    from pydantic import BaseModel

    from deputy_agents.tool.args import Args, schema_of

    for model in _below(BaseModel):
        if model.__module__.startswith("deputy_"):
            model.model_rebuild()
    for args in _below(Args):
        schema_of(args)


with collector_paused():
    for name in _modules():
        import_module(name)
    _build_schemas()
