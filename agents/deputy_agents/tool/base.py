"""The interface between tools and the runtime.

A call has three steps. ``parse`` validates the model's input. ``prepare`` determines, without changing anything, what
the call would do: its title, locations, preview, and the access that the gate must decide about. ``run`` executes the
call and checks again whatever may have changed in between.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from deputy_agents.concurrency.off_loop import off_loop
from deputy_agents.domain.errors import ToolError
from deputy_agents.domain.event import Location, PlanEntry, ResolvedBy, ToolKind
from deputy_agents.domain.message import Image, Reply
from deputy_agents.domain.preview import DiffPreview, EditDiff, Preview
from deputy_agents.domain.rule import AccessRequest
from deputy_agents.domain.settings import ShellSettings
from deputy_agents.domain.user_input import InputForm
from deputy_agents.events.view import AgentNode
from deputy_agents.files.place import PathKind, Place
from deputy_agents.files.workspace import Workspace, digest
from deputy_agents.permission.inbox import InputOutcome
from deputy_agents.ports.editor import Editors
from deputy_agents.ports.model import ToolSpec
from deputy_agents.shell.background import BackgroundProcesses


@dataclass(slots=True)
class ReadMarks:
    """The files that one agent has read, and their text at that time. An agent can change an existing file only if it
    has read the file and the file has not changed since."""

    seen: dict[Path, str] = field(default_factory=dict[Path, str])
    """Absolute path to the digest of the text."""
    on_disk: set[Path] = field(default_factory=set[Path])
    """The paths that existed on disk when they were read, and were not just open in an editor."""

    async def record(self, place: Place, text: str) -> None:
        self.seen[place.path] = await off_loop(len(text), lambda: digest(text))
        if place.kind is PathKind.FILE:
            self.on_disk.add(place.path)

    def keep(self, paths: Collection[Path]) -> None:
        """Forgets all files but ``paths``: the agent no longer has their text."""
        self.seen = {path: text for path, text in self.seen.items() if path in paths}
        self.on_disk &= set(paths)

    def is_deleted(self, place: Place) -> bool:
        """Whether the file was deleted or moved since it was read, even if it is still open in an editor."""
        return place.kind is PathKind.MISSING and place.path in self.on_disk


class SessionView(Protocol):
    """The part of the session that its agents can see, from the view of one of them (the calling agent)."""

    async def nodes(self) -> Sequence[AgentNode]:
        """All agents in their current state, ordered by start."""
        ...

    async def result_of(self, agent_id: str) -> str:
        """The full result of an agent's last run; empty if there is none.

        Raises:
            ToolError: it cannot be read.
        """
        ...

    async def messages_of(self, agent_id: str) -> str:
        """The messages of an agent, as Markdown.

        Raises:
            ToolError: the agent is not a descendant of the calling agent, or they cannot be read.
        """
        ...

    def set_plan(self, entries: Sequence[PlanEntry]) -> None:
        """Replace the plan of the calling agent."""
        ...


async def _no_web_search(_: str) -> Reply:
    raise ToolError("Web search is not available.")


async def _nobody_to_ask(_: InputForm) -> InputOutcome:
    return InputOutcome(ResolvedBy.UNREACHABLE)


@dataclass(frozen=True, slots=True)
class CommandContext:
    """What an agent needs to run commands."""

    agent_id: str
    settings: ShellSettings
    background_processes: BackgroundProcesses
    all_agents: bool = False
    """Whether the agent may also see and stop the background processes of other agents."""
    reading: bool = False
    """Whether commands that are known to only read need no approval."""
    private_hosts: bool = False
    """Whether the hosts of sandboxed commands may be on this machine and in private networks."""


@dataclass(frozen=True, slots=True)
class ToolContext:
    """The services available to a tool call. ``label`` names the agent in the edits that the user sees."""

    workspace: Workspace
    cwd: Path
    label: str
    marks: ReadMarks
    session: SessionView
    proposed: Mapping[Path, str] = field(default_factory=dict[Path, str])
    """File texts proposed by earlier calls of the same model response; previews build on them."""
    record_change: Callable[[Path, str | None, str], AbstractAsyncContextManager[None]] = lambda path, before, after: (
        nullcontext()
    )
    """Surrounds a change of a file and records its full text before (``None``: no file) and after, so that the change
    can be reverted. A ToolError raised inside means that nothing was changed."""
    search_web: Callable[[str], Awaitable[Reply]] = _no_web_search
    """Searches the web with the provider of the agent's model. Raises DeputyError."""
    may_read: Callable[[AccessRequest], bool] = lambda _: True
    """Whether the gate allows the agent to read a file without asking; searches omit other files."""
    commands: CommandContext | None = None
    """``None`` if the agent cannot run commands."""
    editors: Editors = field(default_factory=Editors)
    """The connected editors, as a source of code intelligence."""
    show_output: Callable[[str], None] = lambda _: None
    """Shows the user further output of the call while it runs."""
    approved: bool = False
    """Whether the user was asked about this call and approved it. Otherwise rules or the mode allowed it."""
    confined: bool = False
    """Whether the call was allowed only because the sandbox confines it."""
    cover: Callable[[], AbstractAsyncContextManager[None]] = nullcontext
    """Wraps what may change files by other ways than ``record_change``, such as a command."""
    ask_input: Callable[[InputForm], Awaitable[InputOutcome]] = _nobody_to_ask
    """Asks the user for input, without a time limit."""
    session_folder: Path | None = None
    """The folder of the session, which is that of the primary agent; ``None``: ``cwd``."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """What a call would do. ``target`` is the text in the parentheses of the title ``tool(target)``. ``complete`` is a
    preview of an edit with the complete texts, however large they are."""

    target: str
    access: Sequence[AccessRequest]
    locations: tuple[Location, ...] = ()
    preview: Preview | None = None
    complete: DiffPreview | None = None
    confinable: bool = False
    """Whether the call can run in the sandbox in place of asking the user."""


@dataclass(frozen=True, slots=True)
class Written:
    """A file that a call has changed to ``text``. ``writes`` counts the changes of the file by this process."""

    place: Place
    text: str
    writes: int


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """The result of a call. The model reads ``content``, whose size is already bounded. If they differ from it,
    ``shown`` is what the user sees instead, and ``full`` is what is stored for reading the complete output. ``written``
    is the file that an edit has changed, ``diff`` what it has changed in it. ``reports`` are the background processes
    whose end it reports. ``refused`` is what the sandbox kept a confined command that failed from doing, as words that
    follow "to"."""

    content: str
    is_error: bool = False
    images: tuple[Image, ...] = ()
    locations: tuple[Location, ...] | None = None
    shown: str | None = None
    full: str | None = None
    written: Written | None = None
    diff: EditDiff | None = None
    reports: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()


class Tool(Protocol):
    """One tool. ``args`` is the return value of ``parse`` and is opaque to everything else."""

    @property
    def spec(self) -> ToolSpec: ...

    @property
    def kind(self) -> ToolKind: ...

    def parse(self, input: Mapping[str, object]) -> Any:
        """Validate the input. Raises ToolError, naming the field, if it is invalid."""
        ...

    async def prepare(self, args: Any, context: ToolContext) -> Prepared:
        """Raises ToolError if the call cannot succeed (no such file, text not found, file not read before)."""
        ...

    async def run(self, args: Any, context: ToolContext) -> ToolOutput:
        """Raises ToolError if the call fails."""
        ...
