"""Shows a session in a terminal: :class:`LiveScreen` if a user is present, :class:`PlainScreen` otherwise."""

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
from deputy_server.terminal.view import AgentBlock, Item, View, status_line

AutoApproval = Callable[[PermissionRequest], str | None]
"""Decides without the user: the reason to approve a request, as in ``approved by --yes``, or ``None`` to dismiss it."""
KEYS_OF = {
    OptionKind.ALLOW_ONCE: "y",
    OptionKind.ALLOW_ALWAYS: "a",
    OptionKind.REJECT_ONCE: "n",
    OptionKind.REJECT_ALWAYS: "v",
}
FRAMES_PER_SECOND = 10


class Screen(Protocol):
    """Where a session is shown."""

    def show(self, what: RenderableType) -> None:
        """Print something permanently."""
        ...

    def update(self, view: View, event: Event | None) -> None:
        """Show the current ``view``. ``event`` is the event that led to it, if any."""
        ...

    async def ask(self, request: PermissionRequest) -> PermissionOption | None:
        """The chosen option, or ``None``. Waits for the user; cancelled when the request is withdrawn."""
        ...


def decide(request: PermissionRequest, auto_approval: AutoApproval) -> tuple[PermissionOption | None, str]:
    """The option that approves this one call, or none, and the result as text. A call is never denied here: the user
    did not deny it."""
    reason = auto_approval(request)
    if reason is None:
        return None, "not approved: no user to ask"
    options = (option for option in request.options if option.kind is OptionKind.ALLOW_ONCE)
    return next(options, None), f"approved {reason}"


def keys_for(request: PermissionRequest) -> dict[str, PermissionOption]:
    """The key for each option. Enter and space never choose one."""
    return {KEYS_OF[option.kind]: option for option in request.options}


class PlainScreen:
    """Prints lines without colour or movement. ``auto_approval`` decides permission requests, and each decision is
    printed. With ``answers=False``, the final answer of the primary agent is omitted because the caller prints it; a
    message is only printed once something follows it."""

    def __init__(self, console: Console, auto_approval: AutoApproval, *, answers: bool = True) -> None:
        self._console = console
        self._auto_approval = auto_approval
        self._answers = answers
        self._held_back: tuple[str, ...] = ()

    def show(self, what: RenderableType) -> None:
        self._console.print(what, soft_wrap=True)

    def update(self, view: View, event: Event | None) -> None:
        lines = tuple(_lines(view, event)) if event is not None else ()
        if not lines:
            return
        for line in self._held_back:
            self.show(Text(line))
        hold_back = isinstance(event, MessageAdded) and not self._answers
        self._held_back = lines if hold_back else ()
        for line in () if hold_back else lines:
            self.show(Text(line))

    async def ask(self, request: PermissionRequest) -> PermissionOption | None:
        option, result = decide(request, self._auto_approval)
        self.show(Text(f"? {draw.one_line(request.title)}"))
        for line, _ in draw.preview_lines(request):
            self.show(Text(f"    {line}"))
        self.show(Text(f"  {result}"))
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


def _line(block: AgentBlock, event: AgentStarted | ToolCallStarted | AgentFinished) -> str:
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
class _OpenRequest:
    request: PermissionRequest
    answered: anyio.Event = field(default_factory=anyio.Event)
    drawn: bool = False
    choice: PermissionOption | None = None
    layout: tuple[object, RenderableType] | None = None
    """The last layout and what it was computed for. Computing how much fits takes much longer than a frame may."""


class LiveScreen:
    """Redraws the running part of a session below permanent lines. ``auto_approval``, if given, decides permission
    requests; otherwise the user does, by key. ``stop`` is called with the id of an agent that the user stops."""

    def __init__(self, console: Console, stop: Callable[[str], object], auto_approval: AutoApproval | None) -> None:
        self._console = console
        self._stop = stop
        self._auto_approval = auto_approval
        self._view = View()
        self._printed_count = 0
        self._open_requests: list[_OpenRequest] = []
        self._live = Live(console=console, get_renderable=self.render, auto_refresh=False, transient=True)

    @contextmanager
    def running(self) -> Generator[None]:
        """Use the terminal until the end of the block. Items that are still running then are printed as they are."""
        with keys.single_keys(), self._live:
            try:
                yield
            finally:
                self._print(lambda _: True)

    async def run(self) -> None:
        """Redraw and handle keys until cancelled."""
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
            self._printed_count = 0
        self._view = view
        self._print(lambda item: item.finished)

    def _print(self, is_final: Callable[[Item], bool]) -> None:
        """Print items permanently, in order, up to the first that is not final."""
        items = list(self._view.items.values())
        while self._printed_count < len(items) and is_final(items[self._printed_count]):
            self._console.print(draw.item(items[self._printed_count], time()))
            self._printed_count += 1

    async def ask(self, request: PermissionRequest) -> PermissionOption | None:
        if self._auto_approval is not None:
            option, result = decide(request, self._auto_approval)
            self._console.print(draw.permission_request(request, {}, 0, None))
            self._console.print(Text(result, style="bold"))
            return option
        open_request = _OpenRequest(request)
        self._open_requests.append(open_request)
        try:
            await open_request.answered.wait()
        finally:
            self._open_requests.remove(open_request)
        self._console.print(_answer_line(open_request))
        return open_request.choice

    def press(self, key: str) -> None:
        """Handle a key: it answers the first open permission request, prints all of it, or stops a sub-agent."""
        if self._open_requests:
            first = self._open_requests[0]
            choice = keys_for(first.request).get(key)
            # A key pressed before the request was drawn was not meant for it.
            if choice is not None and first.drawn and not first.answered.is_set():
                first.choice = choice
                first.answered.set()
            elif key == "?":
                self._console.print(draw.permission_request(first.request, keys_for(first.request), 0, None))
        agent = next((agent for agent, stop_key in self._stop_keys().items() if stop_key == key), None)
        if agent is not None:
            self._stop(agent)

    def _stop_keys(self) -> dict[str, str]:
        """The key of each running sub-agent: the last digit of its position, which never changes."""
        blocks = enumerate(self._view.blocks, start=1)
        return {block.agent_id: str(position % 10) for position, block in blocks if not block.finished}

    def render(self) -> RenderableType:
        """The running part of the session. Marks the first open permission request as drawn."""
        below, height = None, self._console.height
        if self._open_requests:
            self._open_requests[0].drawn = True
            below = self._request_layout(self._open_requests[0])
            height -= self._line_count(below)
        return draw.live(self._view, self._printed_count, time(), self._stop_keys(), below, height - 1)

    def _request_layout(self, open_request: _OpenRequest) -> RenderableType:
        basis = (self._console.size, len(self._open_requests))
        if open_request.layout is None or open_request.layout[0] != basis:
            open_request.layout = basis, self._fitted(open_request.request, self._console.height)
        return open_request.layout[1]

    def _fitted(self, request: PermissionRequest, height: int) -> RenderableType:
        """The first open permission request, with as much of its preview as fits beside the title, the keys and the
        status line."""
        option_keys, behind = keys_for(request), len(self._open_requests) - 1

        def full(room: int) -> RenderableType:
            return draw.permission_request(request, option_keys, behind, room)

        def compact(room: int) -> RenderableType:
            return draw.compact_permission_request(request, option_keys, room)

        # Reserve one line for agents and one for the status. A long preview line may take several screen lines.
        if (room := self._room(full, height - 2)) > 0:
            return full(min(room, height // 2))
        return compact(max(0, self._room(compact, height - 1)))

    def _room(self, layout: Callable[[int], RenderableType], height: int) -> int:
        """The largest number of preview lines with which ``layout`` is at most ``height`` lines high; negative if none
        is."""
        return bisect_right(range(height), height, key=lambda room: self._line_count(layout(room))) - 1

    def _line_count(self, what: RenderableType) -> int:
        return len(self._console.render_lines(what))


def _answer_line(open_request: _OpenRequest) -> RenderableType:
    choice = open_request.choice.name if open_request.choice else "dismissed"
    title = draw.one_line(open_request.request.title)
    return Text.assemble((f"{title}  ", ""), (draw.one_line(choice), "bold"))


def in_folder(folder: Path) -> AutoApproval:
    """Approves requests that concern only files below ``folder``."""
    root = folder.resolve()

    def auto_approval(request: PermissionRequest) -> str | None:
        paths = [Path(draw.path_of(location.uri)).resolve() for location in request.locations]
        inside = bool(paths) and all(path.is_relative_to(root) for path in paths)
        return "automatically: it is in the sample project" if inside else None

    return auto_approval
