"""An agent's hands on a folder: tools called as the driver calls them, and an editor with open documents."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

import anyio

from deputy_agents.domain.errors import ToolError
from deputy_agents.domain.event import PlanEntry
from deputy_agents.domain.rule import AccessRequest
from deputy_agents.domain.settings import Root, ShellSettings
from deputy_agents.events.view import AgentNode
from deputy_agents.files.workspace import Workspace
from deputy_agents.ports.buffers import Buffer
from deputy_agents.shell.background import BackgroundProcesses
from deputy_agents.tool.base import CommandContext, Prepared, ReadMarks, Tool, ToolContext, ToolOutput
from deputy_agents.tool.registry import Registry, file_tools


@dataclass
class OpenDocuments:
    """Stands in for an editor. ``applied`` lists the labels of the edits that it made."""

    open: dict[Path, Buffer] = field(default_factory=dict[Path, Buffer])
    applied: list[str] = field(default_factory=list[str])
    reloaded: list[Path] = field(default_factory=list[Path])

    def show(self, path: Path, text: str, version: int = 1) -> None:
        self.open[path] = Buffer(path, text, version)

    async def get(self, path: Path) -> Buffer | None:
        return self.open.get(path)

    def reload(self, path: Path) -> None:
        self.reloaded.append(path)

    def all(self) -> list[Buffer]:
        return list(self.open.values())

    async def check(self, path: Path, new_text: str) -> None:
        pass

    async def apply(self, path: Path, new_text: str, *, version: int | None, label: str) -> None:
        if self.open[path].version != version:
            raise ToolError("The document moved on.")
        self.show(path, new_text, (version or 0) + 1)
        self.applied.append(label)

    async def delete(self, path: Path, *, version: int | None, label: str) -> None:
        if self.open[path].version != version:
            raise ToolError("The document moved on.")
        del self.open[path]
        await anyio.Path(path).unlink(missing_ok=True)
        self.applied.append(label)


@dataclass
class Hands:
    """One agent in ``root``."""

    root: Path
    workspace: Workspace
    documents: OpenDocuments
    context: ToolContext
    tools: Registry = field(default_factory=lambda: Registry(file_tools()))

    async def prepare(self, name: str, **input: object) -> Prepared:
        tool = self.tools[name]
        return await tool.prepare(tool.parse(input), self.context)

    async def access(self, name: str, **input: object) -> list[AccessRequest]:
        return list((await self.prepare(name, **input)).access)

    async def call(self, name: str, **input: object) -> ToolOutput:
        """Prepares and runs."""
        return await (await self.ready(name, input)).run()

    async def text(self, name: str, **input: object) -> str:
        return (await self.call(name, **input)).content

    async def ready(self, name: str, input: Mapping[str, object]) -> "Ready":
        """A call that the gate has just allowed: anything may happen before it runs."""
        tool = self.tools[name]
        args = tool.parse(input)
        return Ready(tool, args, self.context, await tool.prepare(args, self.context))


@dataclass
class Ready:
    tool: Tool
    args: object
    context: ToolContext
    prepared: Prepared

    async def run(self) -> ToolOutput:
        return await self.tool.run(self.args, self.context)


class NoSession:
    """File tools do not look at the session."""

    async def nodes(self) -> list[AgentNode]:
        return []

    async def result_of(self, agent_id: str) -> str:
        return agent_id

    async def messages_of(self, agent_id: str) -> str:
        return agent_id

    def set_plan(self, entries: Sequence[PlanEntry]) -> None:
        raise AssertionError(entries)


def hands_on(root: Path, *further: Root, reading: bool = False) -> Hands:
    """An agent labelled ``worker`` in ``root``, with nothing read and no document open. ``reading``: the gate may tell
    commands that only read from others; commands are not run."""
    documents = OpenDocuments()
    workspace = Workspace([root], documents, further)
    context = ToolContext(workspace, workspace.roots[0], "worker", ReadMarks(), NoSession())
    if reading:
        none = cast("BackgroundProcesses", None)
        context = replace(context, commands=CommandContext("worker", ShellSettings(), none, reading=True))
    return Hands(workspace.roots[0], workspace, documents, context)
