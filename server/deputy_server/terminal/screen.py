"""Where agents appear: :class:`LiveScreen` on a terminal with a person at it, :class:`PlainScreen` anywhere else."""

from bisect import bisect_right
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import time
from typing import Protocol

import anyio
from rich.console import Console, RenderableType
from rich.live import Live
from rich.text import Text

from deputy_protocol.agent import AgentStatus
from deputy_protocol.event import (
    AgentFinished,
    AgentStarted,
    AgentStatusChanged,
    Event,
    MessageAdded,
    ToolCallStarted,
)
from deputy_protocol.message import Role
from deputy_protocol.permission import OptionKind, PermissionOption, PermissionRequest
from deputy_server.icons import RUNNING
from deputy_server.terminal import draw, keys
from deputy_server.terminal.view import Block, Item, View, status_line

Auto = Callable[[PermissionRequest], str | None]
"""What approves a question, in words; ``None`` where nobody and nothing does."""
KEYS_OF = {
    OptionKind.ALLOW_ONCE: "y",
    OptionKind.ALLOW_ALWAYS: "a",
    OptionKind.REJECT_ONCE: "n",
    OptionKind.REJECT_ALWAYS: "v",
}
FRAMES_PER_SECOND = 10


class Screen(Protocol):
    """What a story needs of a screen."""

    def show(self, what: RenderableType) -> None:
        """Shows something that stays."""
        ...

    def update(self, view: View, event: Event | None) -> None:
        """``view`` is how things are now; ``event``, if any, led to it."""
        ...

    async def ask(self, request: PermissionRequest) -> PermissionOption | None:
        """The option chosen, or ``None``. Waits for the person; cancelled when the question is withdrawn."""
        ...


def answer(request: PermissionRequest, auto: Auto) -> tuple[PermissionOption | None, str]:
    """The option that approves this one call, if ``auto`` does, and what is said of it. Otherwise none: that nobody
    was there to ask is not the user's no."""
    approval = auto(request)
    if approval is None:
        return None, "refused: nobody is asked here"
    options = (option for option in request.options if option.kind is OptionKind.ALLOW_ONCE)
    return next(options, None), f"approved {approval}"


def keys_for(request: PermissionRequest) -> dict[str, PermissionOption]:
    """Which key chooses which option. Enter and the space bar choose none."""
    return {KEYS_OF[option.kind]: option for option in request.options}


class PlainScreen:
    """Lines without colour or movement. ``auto`` answers the questions, and each answer is said. Where the answer is
    told elsewhere, what the primary says last is not shown: that is it, unless more happens."""

    def __init__(self, console: Console, auto: Auto, *, answers: bool = True) -> None:
        self._console = console
        self._auto = auto
        self._answers = answers
        self._last: tuple[str, ...] = ()

    def show(self, what: RenderableType) -> None:
        self._console.print(what, soft_wrap=True)

    def update(self, view: View, event: Event | None) -> None:
        lines = tuple(_lines(view, event)) if event is not None else ()
        if not lines:
            return
        for line in self._last:
            self.show(Text(line))
        said = isinstance(event, MessageAdded) and not self._answers
        self._last = lines if said else ()
        for line in () if said else lines:
            self.show(Text(line))

    async def ask(self, request: PermissionRequest) -> PermissionOption | None:
        option, said = answer(request, self._auto)
        self.show(Text(f"? {draw.one_line(request.title)}"))
        for line, _ in draw.preview_lines(request):
            self.show(Text(f"    {line}"))
        self.show(Text(f"  {said}"))
        return option


def _lines(view: View, event: Event) -> Iterator[str]:
    match event:
        case MessageAdded(role=Role.ASSISTANT) if event.agent_id == view.primary:
            yield from draw.lines_of(event.text)
        case AgentStatusChanged(detail=str(detail)):
            block = view.block_of(event.agent_id)
            label = f"[{draw.one_line(block.label)}] " if block else ""
            yield f"  {label}{draw.one_line(detail)}"
        case AgentStarted() | ToolCallStarted() | AgentFinished():
            block = view.block_of(event.agent_id)
            if block is not None:
                yield _line(block, event)
                if isinstance(event, AgentFinished):
                    yield status_line(view)
        case _:
            return


def _line(block: Block, event: AgentStarted | ToolCallStarted | AgentFinished) -> str:
    label = f"[{draw.one_line(block.label)}]"
    match event:
        case AgentStarted():
            return f"{RUNNING} {label} {block.definition} {draw.state_of(block)[1]}"
        case ToolCallStarted():
            return f"  {label} {draw.one_line(block.calls[-1].title)}"
        case AgentFinished():
            icon, word, _ = draw.state_of(block)
            error = f": {draw.one_line(block.error)}" if block.status is AgentStatus.FAILED and block.error else ""
            return f"{icon} {label} {word} · {draw.figures(block, block.started)}{error}"


@dataclass(slots=True)
class _Asked:
    request: PermissionRequest
    answered: anyio.Event = field(default_factory=anyio.Event)
    seen: bool = False
    choice: PermissionOption | None = None
    fitted: tuple[object, RenderableType] | None = None
    """As it was last drawn, and what for: to find out how much fits takes many times longer than a frame may."""


class LiveScreen:
    """A part of the terminal that moves, under lines that stay. ``auto`` answers questions if given; otherwise keys
    do. ``stop`` is called with the id of an agent that the user stops."""

    def __init__(self, console: Console, stop: Callable[[str], object], auto: Auto | None) -> None:
        self._console = console
        self._stop = stop
        self._auto = auto
        self._view = View()
        self._shown = 0
        self._asked: list[_Asked] = []
        self._live = Live(console=console, get_renderable=self.picture, auto_refresh=False, transient=True)

    @contextmanager
    def running(self) -> Generator[None]:
        """The terminal is this screen's from here to the end of the block. What moved until then stays as it was."""
        with keys.one_by_one(), self._live:
            try:
                yield
            finally:
                self._print(lambda _: True)

    async def run(self) -> None:
        """Redraws and reads keys until cancelled."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._redraw)
            async for key in keys.pressed():
                self.press(key)

    async def _redraw(self) -> None:
        while True:
            self._live.refresh()
            await anyio.sleep(1 / FRAMES_PER_SECOND)

    def show(self, what: RenderableType) -> None:
        self._console.print(what)

    def update(self, view: View, event: Event | None) -> None:
        if view.primary != self._view.primary:
            self._shown = 0
        self._view = view
        self._print(lambda item: item.settled)

    def _print(self, settled: Callable[[Item], bool]) -> None:
        """Prints what has ``settled``, in order, up to the first that has not."""
        items = list(self._view.items.values())
        while self._shown < len(items) and settled(items[self._shown]):
            self._console.print(draw.item(items[self._shown], time()))
            self._shown += 1

    async def ask(self, request: PermissionRequest) -> PermissionOption | None:
        if self._auto is not None:
            option, said = answer(request, self._auto)
            self._console.print(draw.permission_request(request, {}, 0, None))
            self._console.print(Text(said, style="bold"))
            return option
        asked = _Asked(request)
        self._asked.append(asked)
        try:
            await asked.answered.wait()
        finally:
            self._asked.remove(asked)
        self._console.print(_answered(asked))
        return asked.choice

    def press(self, key: str) -> None:
        """What a key does: it answers the first open question, shows it whole, or stops a child."""
        if self._asked:
            first = self._asked[0]
            choice = keys_for(first.request).get(key)
            # A key pressed before the question was drawn was meant for something else.
            if choice is not None and first.seen and not first.answered.is_set():
                first.choice = choice
                first.answered.set()
            elif key == "?":
                self._console.print(draw.permission_request(first.request, keys_for(first.request), 0, None))
        agent = next((agent for agent, own in self._stops().items() if own == key), None)
        if agent is not None:
            self._stop(agent)

    def _stops(self) -> dict[str, str]:
        """The key of each child that can be stopped: the last digit of its place, which never changes."""
        blocks = enumerate(self._view.blocks, start=1)
        return {block.agent_id: str(place % 10) for place, block in blocks if not block.settled}

    def picture(self) -> RenderableType:
        """What moves, as it is now; an open question counts as seen from here on."""
        below, height = None, self._console.height
        if self._asked:
            self._asked[0].seen = True
            below = self._fitted(self._asked[0])
            height -= self._lines(below)
        return draw.live(self._view, self._shown, time(), self._stops(), below, height - 1)

    def _fitted(self, asked: _Asked) -> RenderableType:
        circumstances = (self._console.size, len(self._asked))
        if asked.fitted is None or asked.fitted[0] != circumstances:
            asked.fitted = circumstances, self._question(asked.request, self._console.height)
        return asked.fitted[1]

    def _question(self, request: PermissionRequest, height: int) -> RenderableType:
        """The first open question, with as much of its preview as leaves room for who asks, the keys and the status
        line."""
        keys, behind = keys_for(request), len(self._asked) - 1

        def whole(room: int) -> RenderableType:
            return draw.permission_request(request, keys, behind, room)

        def small(room: int) -> RenderableType:
            return draw.small_permission_request(request, keys, room)

        # One line is for the agents, one for the status. A long line of a preview takes several of the screen.
        if (room := self._room(whole, height - 2)) > 0:
            return whole(min(room, height // 2))
        return small(max(0, self._room(small, height - 1)))

    def _room(self, drawn: Callable[[int], RenderableType], height: int) -> int:
        """The most lines of a preview with which what is ``drawn`` is not higher than ``height``; below zero when it
        always is."""
        return bisect_right(range(height), height, key=lambda room: self._lines(drawn(room))) - 1

    def _lines(self, what: RenderableType) -> int:
        return len(self._console.render_lines(what))


def _answered(asked: _Asked) -> RenderableType:
    choice = asked.choice.name if asked.choice else "dismissed"
    return Text.assemble((f"{draw.one_line(asked.request.title)}  ", ""), (draw.one_line(choice), "bold"))


def in_folder(folder: Path) -> Auto:
    """Approves what touches files below ``folder`` alone."""
    root = folder.resolve()

    def auto(request: PermissionRequest) -> str | None:
        paths = [Path(draw.path_of(location.uri)).resolve() for location in request.locations]
        inside = bool(paths) and all(path.is_relative_to(root) for path in paths)
        return "automatically: nobody is asked here, and it is the demo's own sample" if inside else None

    return auto
