"""Shows a session in a terminal: :class:`LiveScreen` if a user is present, :class:`PlainScreen` otherwise."""

from bisect import bisect_right
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import time
from typing import Protocol

import anyio
from rich.console import Console, RenderableType
from rich.live import Live
from rich.text import Text

from deputy_agents.domain.event import InputRequest
from deputy_agents.ports.permission import Dismissed, InputAnswer
from deputy_protocol.agent import AgentStatus
from deputy_protocol.event import (
    AgentFinished,
    AgentStarted,
    AgentStatusChanged,
    Event,
    MessageAdded,
    ThoughtAdded,
    ToolCallStarted,
    ToolCallUpdate,
)
from deputy_protocol.message import Role
from deputy_protocol.permission import DiffPreview, OptionKind, PermissionOption, PermissionRequest, RuleScope
from deputy_server.icons import DONE, RUNNING
from deputy_server.terminal import draw, keys
from deputy_server.terminal.form import Form
from deputy_server.terminal.view import AgentBlock, Item, ToolCallItem, View, status_line

AutoApproval = Callable[[PermissionRequest], str | None]
"""Decides without the user: the reason to approve a request, as in ``approved by --yes``, or ``None`` to dismiss it."""
KEYS_OF = {
    (OptionKind.ALLOW_ONCE, RuleScope.ONCE): "y",
    (OptionKind.ALLOW_ALWAYS, RuleScope.SESSION): "a",
    (OptionKind.ALLOW_ALWAYS, RuleScope.PROJECT): "p",
    (OptionKind.ALLOW_ALWAYS, RuleScope.USER): "u",
    (OptionKind.REJECT_ONCE, RuleScope.ONCE): "n",
    (OptionKind.REJECT_ALWAYS, RuleScope.SESSION): "v",
    (OptionKind.REJECT_ALWAYS, RuleScope.PROJECT): "v",
}
MODE_KEY = "m"
"""Goes to the next permission mode."""
EDITS_KEY = "t"
"""Approves all edits of an agent in this turn."""
_ONCE = (OptionKind.ALLOW_ONCE, OptionKind.REJECT_ONCE)
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
    found: dict[str, PermissionOption] = {}
    for option in request.options:
        scope = option.scope or (RuleScope.ONCE if option.kind in _ONCE else RuleScope.SESSION)
        if (key := KEYS_OF.get((option.kind, scope))) is not None:
            found.setdefault(key, option)
    return found


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
        case ThoughtAdded() if event.agent_id == view.primary:
            yield draw.thought_line(event.text)
        case AgentStatusChanged(detail=str(detail)):
            block = view.block_of(event.agent_id)
            label = f"[{draw.one_line(block.label)}] " if block else ""
            yield f"  {label}{draw.one_line(detail)}"
        case ToolCallUpdate(diff=diff, tool_call_id=of) if diff is not None:
            yield from _edit(view, event.agent_id, of)
        case AgentStarted() | ToolCallStarted() | AgentFinished():
            block = view.block_of(event.agent_id)
            if block is not None:
                yield _line(block, event)
                if isinstance(event, AgentFinished):
                    yield status_line(view)
        case _:
            return


def _edit(view: View, agent_id: str, tool_call_id: str) -> Iterator[str]:
    """An edit that was made, with the beginning of its diff."""
    block = view.block_of(agent_id)
    calls = view.items.values() if block is None else block.calls
    label = f"[{draw.one_line(block.label)}] " if block else ""
    for call in calls:
        if isinstance(call, ToolCallItem) and call.id == tool_call_id:
            yield f"  {label}{DONE} {draw.one_line(call.title)}"
            yield from (f"    {line}" for line in draw.edit_lines(call))


def _line(block: AgentBlock, event: AgentStarted | ToolCallStarted | AgentFinished) -> str:
    label = f"[{draw.one_line(block.label)}]"
    match event:
        case AgentStarted():
            return f"{RUNNING} {label} {draw.kind(block)} {draw.state_of(block)[1]}"
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
    seen: bool = False
    """It was drawn before."""
    expanded: frozenset[str] = frozenset()
    """The keys whose options were printed with all that they decide about."""
    choice: PermissionOption | None = None
    layout: "tuple[object, _Layout] | None" = None
    """The last layout and what it was computed for. Computing how much fits takes much longer than a frame may."""

    def shows(self, key: str, option: PermissionOption) -> bool:
        """Whether the user has seen what ``option`` decides about: the whole command, the rules of a lasting answer."""
        if key in self.expanded or option.kind is OptionKind.REJECT_ONCE:
            return True
        if self.layout is None:
            return False
        layout = self.layout[1]
        in_name = layout.names and not draw.listed_rules(option)
        return layout.whole and (in_name or option.kind is OptionKind.ALLOW_ONCE)


@dataclass(frozen=True, slots=True)
class _Layout:
    what: RenderableType
    whole: bool
    """Whether the preview is complete, as far as it must be seen."""
    names: bool
    """Whether the names of options are shown, which contain short rules."""


class LiveScreen:
    """Redraws the running part of a session below permanent lines. ``auto_approval``, if given, decides permission
    requests; otherwise the user does, by key. ``stop`` is called with the id of an agent that the user stops.
    ``approve_edits``, if given, is called with the id of a request about an edit: it and all edits of its agent in this
    turn are approved. ``next_mode``, if given, goes to the next permission mode and returns its name.
    ``discard_typed`` is called before a request is first drawn: what was typed until then must not answer it."""

    def __init__(
        self,
        console: Console,
        stop: Callable[[str], object],
        auto_approval: AutoApproval | None,
        approve_edits: Callable[[str], object] | None = None,
        next_mode: Callable[[], str] | None = None,
        discard_typed: Callable[[], object] = lambda: None,
    ) -> None:
        self._console = console
        self._stop = stop
        self._approve_edits = approve_edits
        self._next_mode = next_mode
        self._discard_typed = discard_typed
        self._auto_approval = auto_approval
        self._view = View()
        self._printed_count = 0
        self._open_requests: list[_OpenRequest] = []
        self._open_forms: list[tuple[Form, anyio.Event]] = []
        """They are shown when no permission request is open."""
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
            self._console.print(draw.item(items[self._printed_count], time(), diffs=True))
            self._printed_count += 1

    async def ask(self, request: PermissionRequest) -> PermissionOption | None:
        if self._auto_approval is not None:
            option, result = decide(request, self._auto_approval)
            self._console.print(draw.whole_permission_request(request, {}))
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

    async def ask_input(self, request: InputRequest) -> InputAnswer:
        """The user's answer to an input request. Waits for it; cancelled when the request is withdrawn."""
        form = Form(request)
        self._open_forms.append((form, answered := anyio.Event()))
        try:
            await answered.wait()
        finally:
            self._open_forms = [one for one in self._open_forms if one[0] is not form]
            self._console.print(form.result_line())
        return form.answer or Dismissed()

    def press(self, key: str) -> None:
        """Handle a key: it answers the first open permission request, prints all of it, fills in a form, changes the
        mode, or stops a sub-agent. A key that would answer more than is shown prints all of it first."""
        if self._open_forms and not self._open_requests:
            form, answered = self._open_forms[0]
            form.press(key)
            if form.answer is not None:
                answered.set()
            return
        if key == MODE_KEY and self._next_mode is not None:
            self._console.print(Text(f"Permission mode: {self._next_mode()}", style="bold"))
            return
        if self._open_requests:
            first = self._open_requests[0]
            choice = keys_for(first.request).get(key)
            # A key pressed before the request was drawn was not meant for it.
            if choice is not None and first.drawn and not first.answered.is_set():
                if first.shows(key, choice):
                    first.choice = choice
                    first.answered.set()
                else:
                    self._expand(first, {key: choice})
                    self._console.print(Text(f"Press {key} again to answer.", style="bold"))
            elif key == EDITS_KEY and first.drawn and self._can_approve_edits(first.request):
                self._press_edits(first)
            elif key == "?":
                self._expand(first, keys_for(first.request))
        agent = next((agent for agent, stop_key in self._stop_keys().items() if stop_key == key), None)
        if agent is not None:
            self._stop(agent)

    def _can_approve_edits(self, request: PermissionRequest) -> bool:
        return self._approve_edits is not None and isinstance(request.preview, DiffPreview)

    def _press_edits(self, first: _OpenRequest) -> None:
        """Approve all edits of the agent in this turn; at the first press, print the combined diff of the open ones."""
        agent_id = first.request.agent.agent_id
        own = [one for one in self._open_requests if one.request.agent.agent_id == agent_id]
        unseen = [one for one in own if EDITS_KEY not in one.expanded]
        if self._approve_edits is not None and not unseen:
            self._approve_edits(first.request.request_id)
            return
        for one in unseen:
            self._expand(one, {})
            one.expanded |= {EDITS_KEY}
        text = f"Press {EDITS_KEY} again to approve these and all further edits of this agent in this turn."
        self._console.print(Text(text, style="bold"))

    def _expand(self, open_request: _OpenRequest, option_keys: Mapping[str, PermissionOption]) -> None:
        """Print all that these options decide about. The request is drawn again before a key answers it."""
        self._console.print(draw.whole_permission_request(open_request.request, option_keys))
        open_request.expanded, open_request.drawn = open_request.expanded | option_keys.keys(), False

    def _stop_keys(self) -> dict[str, str]:
        """The key of each running sub-agent: the last digit of its position, which never changes."""
        blocks = enumerate(self._view.blocks, start=1)
        return {block.agent_id: str(position % 10) for position, block in blocks if not block.finished}

    def render(self) -> RenderableType:
        """The running part of the session. Marks the first open permission request as drawn."""
        below, height = None, self._console.height
        if self._open_requests:
            if not self._open_requests[0].seen:
                self._discard_typed()
            self._open_requests[0].drawn = self._open_requests[0].seen = True
            below = self._request_layout(self._open_requests[0])
            height -= self._line_count(below)
        elif self._open_forms:
            form = self._open_forms[0][0]
            form.drawn = True
            below = form.render(len(self._open_forms) - 1)
            height -= self._line_count(below)
        return draw.live(self._view, self._printed_count, time(), self._stop_keys(), below, height - 1)

    def _request_layout(self, open_request: _OpenRequest) -> RenderableType:
        basis = (self._console.size, len(self._open_requests))
        if open_request.layout is None or open_request.layout[0] != basis:
            open_request.layout = basis, self._fitted(open_request.request, self._console.height)
        return open_request.layout[1].what

    def _fitted(self, request: PermissionRequest, height: int) -> _Layout:
        """The first open permission request, with as much of its preview as fits beside the title, the keys and the
        status line."""
        option_keys, behind = keys_for(request), len(self._open_requests) - 1

        def full(room: int) -> RenderableType:
            return draw.permission_request(request, option_keys, behind, room)

        def compact(room: int) -> RenderableType:
            return draw.compact_permission_request(request, option_keys, room)

        # Reserve one line for agents and one for the status. A long preview line may take several screen lines.
        if (room := self._room(full, height - 2)) > 0:
            room = min(room, height // 2) if isinstance(request.preview, DiffPreview) else room
            return _Layout(full(room), not draw.is_cut(request, room), names=True)
        room = max(0, self._room(compact, height - 1))
        return _Layout(compact(room), not draw.is_cut(request, room), names=False)

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
