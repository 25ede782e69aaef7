"""What a tool is to the runtime.

A call passes three steps. ``parse`` validates the model's input. ``prepare`` looks, without changing anything, at
what the call would do: its title, places, preview, and what the gate must decide about. ``run`` does it, and
checks again what may have changed since.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from deputy_agents.domain.errors import ToolError
from deputy_agents.domain.event import Location, PlanEntry, Preview, ToolKind
from deputy_agents.domain.message import Image, Reply
from deputy_agents.domain.rule import AccessRequest
from deputy_agents.domain.settings import ShellSettings
from deputy_agents.events.view import AgentNode
from deputy_agents.files.workspace import PathKind, Place, Workspace, digest
from deputy_agents.ports.editor import Editors
from deputy_agents.ports.model import ToolSpec
from deputy_agents.shell.background import Background


@dataclass(slots=True)
class ReadMarks:
    """Which files one agent has read, with the text that it saw. An existing file can be changed only by an agent
    that has read it, and only while it still is as it was read."""

    seen: dict[Path, str] = field(default_factory=dict[Path, str])
    """Absolute path to a digest of the text."""
    on_disk: set[Path] = field(default_factory=set[Path])
    """Those that were files on disk then, and not only open in an editor."""

    def see(self, place: Place, text: str) -> None:
        self.seen[place.path] = digest(text)
        if place.kind is PathKind.FILE:
            self.on_disk.add(place.path)

    def is_gone(self, place: Place) -> bool:
        """Whether the file was deleted or moved since it was read, whatever an editor still shows."""
        return place.kind is PathKind.MISSING and place.path in self.on_disk


class SessionView(Protocol):
    """The session as its own agents may look at it."""

    async def nodes(self) -> Sequence[AgentNode]:
        """All agents in their present state, ordered by start."""
        ...

    def result_of(self, agent_id: str) -> str:
        """The whole result of the last run of an agent; empty while it has none."""
        ...

    def messages_of(self, agent_id: str) -> str:
        """What an agent was told and said, as Markdown.

        Raises:
            ToolError: it is not below the agent that calls.
        """
        ...

    def set_plan(self, entries: Sequence[PlanEntry]) -> None:
        """Replaces the plan of the agent that calls."""
        ...


async def _no_search(_: str) -> Reply:
    raise ToolError("There is no web search here.")


@dataclass(frozen=True, slots=True)
class Commands:
    """How an agent runs commands: its id, what the settings say, and where those in the background are."""

    agent_id: str
    settings: ShellSettings
    background: Background
    all_agents: bool = False
    """It may look at the background commands of other agents, too."""


@dataclass(frozen=True, slots=True)
class ToolContext:
    """What a call may use. ``label`` names the agent in edits that the user sees."""

    workspace: Workspace
    cwd: Path
    label: str
    marks: ReadMarks
    session: SessionView
    proposed: Mapping[Path, str] = field(default_factory=dict[Path, str])
    """Texts that earlier calls of the same model response propose: a preview assumes them."""
    changing: Callable[[Path, str | None, str], AbstractAsyncContextManager[None]] = lambda path, before, after: (
        nullcontext()
    )
    """Around a change of a file: keeps its whole text before (``None`` for none) and after it, to be taken back. Inside
    it, a ToolError says that nothing was changed."""
    search: Callable[[str], Awaitable[Reply]] = _no_search
    """Searches the web by the provider of the agent's model. Raises DeputyError."""
    may_read: Callable[[AccessRequest], bool] = lambda _: True
    """Whether the gate lets the agent read a file unasked: a search leaves the others out."""
    commands: Commands | None = None
    """How commands are run, where they can be."""
    editors: Editors = field(default_factory=Editors)
    """Whom to ask about the code."""
    show: Callable[[str], None] = lambda _: None
    """Shows people more of what the call puts out while it runs."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """What a call would do. ``target`` is the part in the parentheses of ``tool(target)``."""

    target: str
    access: Sequence[AccessRequest]
    locations: tuple[Location, ...] = ()
    preview: Preview | None = None


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """The result that the model reads; ``content`` is already bounded. ``shown`` is what people see in its place, and
    ``whole`` what is kept for those who ask for all of it, where that is more."""

    content: str
    is_error: bool = False
    images: tuple[Image, ...] = ()
    locations: tuple[Location, ...] | None = None
    shown: str | None = None
    whole: str | None = None


class Tool(Protocol):
    """One tool. ``args`` is what ``parse`` returned; nothing else looks into it."""

    @property
    def spec(self) -> ToolSpec: ...

    @property
    def kind(self) -> ToolKind: ...

    def parse(self, input: Mapping[str, object]) -> Any:
        """Raises ToolError, naming the field, when the input does not fit."""
        ...

    async def prepare(self, args: Any, context: ToolContext) -> Prepared:
        """Raises ToolError when the call cannot work (no such file, text not found, not read before)."""
        ...

    async def run(self, args: Any, context: ToolContext) -> ToolOutput:
        """Raises ToolError when it cannot do what was asked."""
        ...
