"""A runtime over a scripted model: sessions are driven as front ends drive them, and watched from outside.

:class:`Cast` gives every agent its lines; :class:`Pause` is a line that waits; :class:`Person` answers questions. When
a :class:`Core` closes, every history that its model was sent must be valid, and no task may be left.
"""

import asyncio
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias, TypeVar

from deputy_agents.domain.event import (
    Body,
    Event,
    InputRequest,
    PermissionRequest,
    PermissionRequested,
    ResolvedBy,
    ToolCallUpdated,
)
from deputy_agents.domain.message import Reply, Text, ToolResult, ToolUse
from deputy_agents.domain.settings import Settings
from deputy_agents.domain.turn import Turn, TurnResult
from deputy_agents.events.view import AgentNode
from deputy_agents.mcp.sign_ins import SignIns
from deputy_agents.model.scripted import Script, Scripted, ScriptedModel, calls, use
from deputy_agents.ports.clock import Clock
from deputy_agents.ports.model import Model, ModelEvent, ModelRequest
from deputy_agents.ports.permission import Dismissed, InputAnswer, PermissionAnswer, PermissionClient, Selected
from deputy_agents.ports.store import Store
from deputy_agents.session.runtime import Runtime
from deputy_agents.session.session import Session
from deputy_agents.snapshots.roots import SnapshotRoots
from deputy_agents.store.memory import MemoryStore
from tests.support.history_rules import broken_history_rules

BOUND = 20
"""Seconds that anything may take before a test fails: never waited for when all is well."""

ALLOW = Selected("allow_once")
DENY = Selected("reject_once")

Line: TypeAlias = Scripted | Exception | Script
B = TypeVar("B", bound=Body)


def task_of(request: ModelRequest) -> str:
    """The first text that the agent was given."""
    first = request.messages[0].content[0]
    assert isinstance(first, Text)
    return first.text


def delegate(*tasks: str, **how: object) -> Reply:
    """A reply that calls ``spawn_agent`` once for each task."""
    return calls([use("spawn_agent", instructions=task, **how) for task in tasks])


def answers(request: ModelRequest) -> list[str]:
    """The results in the last message of a request."""
    return [result.content for result in results(request)]


def results(request: ModelRequest) -> list[ToolResult]:
    return [block for block in request.messages[-1].content if isinstance(block, ToolResult)]


class Cast:
    """A script: the primary's lines, and those of each child by its task, one line per request."""

    def __init__(self, primary: Sequence[Line], children: Mapping[str, Sequence[Line]] | None = None) -> None:
        self.primary = primary
        self._children = children or {}
        self._left: dict[str, list[Line]] = {}

    def __call__(self, request: ModelRequest) -> Scripted | Awaitable[Scripted]:
        line = self._next(request)
        if isinstance(line, Exception):
            raise line
        return line(request) if isinstance(line, Callable) else line

    def _next(self, request: ModelRequest) -> Line:
        lines = self.primary if request.depth == 0 else self._children[task_of(request).split("\n")[0]]
        left = self._left.setdefault(request.agent_id, list(lines))
        assert left, f"no line is left for request {len(request.messages)} of {task_of(request)!r}"
        return left.pop(0)


class Pause:
    """A line that tells when it is asked for (``asked``), says ``first``, waits until it may ``go``, and then gives
    ``reply``. ``over`` is set when the stream was closed, whatever the reason."""

    def __init__(self, reply: Reply, first: Iterable[ModelEvent] = ()) -> None:
        self.asked = asyncio.Event()
        self.go = asyncio.Event()
        self.over = asyncio.Event()
        self.broken_off = False
        self._reply = reply
        self._first = first

    async def __call__(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        return self._events()

    async def _events(self) -> AsyncGenerator[ModelEvent]:
        self.asked.set()
        try:
            for event in self._first:
                yield event
            await self.go.wait()
        except BaseException:
            self.broken_off = True
            raise
        finally:
            self.over.set()
        yield self._reply


@dataclass(eq=False)
class Person:
    """A client at which someone answers. ``answer`` may be one answer, or decide for each question, and wait."""

    answer: PermissionAnswer | Callable[[PermissionRequest], PermissionAnswer | Awaitable[PermissionAnswer]] = ALLOW
    asked: list[PermissionRequest] = field(default_factory=list[PermissionRequest])
    withdrawn: list[str] = field(default_factory=list[str])
    fill: Callable[[InputRequest], InputAnswer | Awaitable[InputAnswer]] = lambda _: Dismissed(ResolvedBy.UNREACHABLE)
    """What is entered into a form."""
    inputs: list[InputRequest] = field(default_factory=list[InputRequest])

    async def ask(self, permission_request: PermissionRequest) -> PermissionAnswer:
        self.asked.append(permission_request)
        try:
            answer = self.answer(permission_request) if callable(self.answer) else self.answer
            return await answer if inspect.isawaitable(answer) else answer
        except asyncio.CancelledError:
            self.withdrawn.append(permission_request.request_id)
            raise

    async def ask_input(self, request: InputRequest) -> InputAnswer:
        self.inputs.append(request)
        try:
            answer = self.fill(request)
            return await answer if inspect.isawaitable(answer) else answer
        except asyncio.CancelledError:
            self.withdrawn.append(request.request_id)
            raise

    @property
    def titles(self) -> list[str]:
        return [permission_request.title for permission_request in self.asked]


def silent() -> Person:
    """Shows every question and never answers."""
    return Person(lambda permission_request: asyncio.Event().wait())  # pyright: ignore[reportArgumentType]


class StillClock:
    """Every wait is over at once, and remembered; with ``hold``, none is ever over."""

    def __init__(self, *, hold: bool = False) -> None:
        self.slept: list[float] = []
        self.sleeping = asyncio.Event()
        self._hold = hold
        self._now = 1_700_000_000.0

    def time(self) -> float:
        self._now += 0.001
        return self._now

    def monotonic(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        self._now += seconds

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.sleeping.set()
        await (asyncio.Event().wait() if self._hold else asyncio.sleep(0))


@dataclass
class Core:
    """A running session, all its events so far, and the model behind it."""

    runtime: Runtime
    session: Session
    model: ScriptedModel
    store: Store
    root: Path
    events: list[Event] = field(default_factory=list[Event])
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def start(self, text: str = "go", *, queue: bool = False) -> Turn:
        return self.session.turns.accept([Text(text)], queue=queue)

    async def turn(self, text: str = "go") -> TurnResult:
        """A whole turn, and the events of it."""
        async with asyncio.timeout(BOUND):
            return await self.start(text).result()

    async def finish(self, turn: Turn) -> TurnResult:
        async with asyncio.timeout(BOUND):
            return await turn.result()

    async def seen(self, body: type[B], holds: Callable[[B], object] = lambda _: True) -> B:
        """The first event of the type for which ``holds`` is true, past or to come."""
        async with asyncio.timeout(BOUND):
            while True:
                for event in self.events:
                    if isinstance(event.body, body) and holds(event.body):
                        return event.body
                self._news.clear()
                await self._news.wait()

    async def until(self, holds: Callable[[], bool]) -> None:
        """Waits until ``holds()``, which is asked again at every event."""
        async with asyncio.timeout(BOUND):
            while not holds():
                self._news.clear()
                await self._news.wait()

    async def permission_request(self) -> PermissionRequest:
        """The first permission request of the session."""
        return (await self.seen(PermissionRequested)).request

    def bodies(self, body: type[B], agent_id: str | None = None) -> list[B]:
        return [e.body for e in self.events if isinstance(e.body, body) and agent_id in (None, e.agent_id)]

    def durable(self) -> list[Event]:
        return [event for event in self.events if event.seq is not None]

    def child(self, label: str) -> AgentNode:
        """The child of that label."""
        return next(node for node in self.session.agents() if node.info.depth > 0 and node.info.label == label)

    async def child_started(self, label: str) -> AgentNode:
        await self.until(lambda: any(node.info.label == label for node in self.session.agents()))
        return self.child(label)

    def requests(self, task: str | None = None) -> list[ModelRequest]:
        """What the primary's model was asked; or that of the child with this task."""
        return [
            request
            for request in self.model.requests
            if (request.depth == 0 if task is None else request.depth > 0 and task_of(request).startswith(task))
        ]

    def told(self) -> list[str]:
        """The results that the primary's model was last sent."""
        return answers(self.requests()[-1])

    def results_seen(self, agent_id: str) -> dict[str, ToolCallUpdated]:
        return {update.tool_call_id: update for update in self.bodies(ToolCallUpdated, agent_id)}

    async def caught_up(self) -> None:
        """Returns when the recorder has every event that was emitted until now."""
        async with asyncio.timeout(BOUND):
            await self.session.log.flush()
            while not self.durable() or self.durable()[-1].seq != self.session.log.last_seq:
                self._news.clear()
                await self._news.wait()

    async def record(self) -> None:
        async for event in self.session.log.subscribe(0):
            self.events.append(event)
            self._news.set()


def small(settings: Settings | None = None, **agents: object) -> Settings:
    """Settings with some of those for agents changed."""
    settings = settings or Settings()
    return replace(settings, agents=replace(settings.agents, **agents))  # pyright: ignore[reportArgumentType]


@asynccontextmanager
async def core(
    root: Path,
    script: Script,
    *people: PermissionClient,
    settings: Settings | None = None,
    store: Store | None = None,
    clock: Clock | None = None,
    grace: float = 0,
    wrap: Callable[[Model], Model] = lambda model: model,
    snapshots: SnapshotRoots | None = None,
    sign_ins: SignIns | None = None,
    reading: bool = False,
) -> AsyncGenerator[Core]:
    """Opens a session in ``root``; at the end, closes everything and looks at what is left. ``wrap`` may put something
    between the agents and their model. Unless ``reading``, commands that only read need approval like all others."""
    settings = settings or Settings()
    settings = replace(settings, permissions=replace(settings.permissions, reading_commands=reading))
    tasks_before = asyncio.all_tasks()
    model = ScriptedModel(script)
    store = store or MemoryStore()
    async with asyncio.timeout(3 * BOUND):
        runtime = Runtime(store=store, clock=clock, home=root.parent / "home", snapshots=snapshots, sign_ins=sign_ins)
        client = runtime.clients.connect(settings, lambda name: wrap(model), grace)
        async with asyncio.TaskGroup() as tasks, runtime:
            session = await runtime.new_session(client, cwd=root, roots=[root])
            for person in people:
                session.inbox.attach(person)
            opened = Core(runtime, session, model, store, root)
            tasks.create_task(opened.record())
            yield opened
    assert asyncio.all_tasks() == tasks_before, "tasks outlive the runtime"
    assert [broken for request in model.requests if (broken := broken_history_rules(request.messages))] == []


@asynccontextmanager
async def reopened(store: Store, session_id: str, folder: Path) -> AsyncGenerator[Session]:
    """The session as the next process has it."""
    async with Runtime(store=store, home=folder.parent) as runtime:
        client = runtime.clients.connect(Settings(), lambda name: ScriptedModel([]))
        yield await runtime.load(client, session_id, roots=[folder])


def edit(path: str, old: str, new: str) -> ToolUse:
    return use("edit_file", path=path, old_string=old, new_string=new)
