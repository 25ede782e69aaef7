"""Background processes of a session; they end with the session at the latest."""

import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from signal import SIGKILL, Signals

import anyio
from anyio.abc import TaskGroup, TaskStatus

from deputy_agents.domain.errors import InvalidRequest, ToolError
from deputy_agents.domain.ids import new_id
from deputy_agents.ports.clock import Clock
from deputy_agents.shell.output import BoundedOutput
from deputy_agents.shell.process import GuardedProcess, Launch, guarded_command

logger = logging.getLogger(__name__)

MAX_RUNNING = 16
"""Processes of a session that can run at the same time."""
MAX_REMEMBERED = 64
"""Processes that are remembered, including those that have ended."""
OUTPUT_HALF = 64 * 1024
"""Bytes of each end of the output that are kept."""


class EndedBy(Enum):
    """What ended a background process."""

    ITSELF = auto()
    TIMEOUT = auto()
    USER = auto()
    STARTER = auto()
    """The agent that had started it."""
    OTHER_AGENT = auto()
    RUN_END = auto()
    """The run of the agent that had started it has ended."""


@dataclass(frozen=True, slots=True)
class BackgroundProcess:
    """A shell command started with ``background``. ``code`` and ``ended_by`` are ``None`` while it runs; a negative
    ``code`` is the signal that ended it."""

    process_id: str
    agent_id: str
    text: str
    cwd: str
    started_at: float
    ended_at: float | None = None
    code: int | None = None
    ended_by: EndedBy | None = None


@dataclass(slots=True)
class _Entry:
    process: BackgroundProcess
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    ended: anyio.Event = field(default_factory=anyio.Event)
    stopped_by: EndedBy | None = None
    output: BoundedOutput = field(default_factory=lambda: BoundedOutput(OUTPUT_HALF))


class BackgroundProcesses:
    """The background processes of one session; they run in its ``tasks``. ``changed`` is called when one starts or
    ends."""

    def __init__(self, tasks: TaskGroup, clock: Clock, changed: Callable[[], None]) -> None:
        self._tasks = tasks
        self._clock = clock
        self._changed = changed
        self._on_end: Callable[[BackgroundProcess], None] = lambda _: None
        self._entries: dict[str, _Entry] = {}

    def on_end(self, callback: Callable[[BackgroundProcess], None]) -> None:
        """Calls ``callback`` with every process that has ended from now on."""
        self._on_end = callback

    def list(self, agent_id: str | None = None) -> Sequence[BackgroundProcess]:
        """The processes of one agent or of all, ordered by start."""
        return [e.process for e in self._entries.values() if agent_id in (None, e.process.agent_id)]

    def get(self, process_id: str) -> BackgroundProcess:
        """The state of one process.

        Raises:
            InvalidRequest: there is no such process.
        """
        return self._entry(process_id).process

    def output(self, process_id: str, half: int) -> str:
        """The output of one process, at most ``half`` bytes from each end.

        Raises:
            InvalidRequest: there is no such process.
        """
        return self._entry(process_id).output.text(half)

    async def start(
        self,
        agent_id: str,
        launch: Launch,
        timeout: float | None = None,
        cover: Callable[[], AbstractAsyncContextManager[None]] = nullcontext,
    ) -> BackgroundProcess:
        """Start a command and return as soon as it runs, within ``cover``. It is ended after ``timeout`` seconds.

        Raises:
            ToolError: it cannot be started, or too many are running.
        """
        if sum(1 for entry in self._entries.values() if entry.process.code is None) >= MAX_RUNNING:
            raise ToolError(f"{MAX_RUNNING} background processes are already running. Stop one of them first.")
        entry = _Entry(BackgroundProcess(new_id(), agent_id, launch.text, launch.shown_cwd, self._clock.time()))
        failed = await self._tasks.start(self._run, entry, launch, timeout, cover)
        if failed is not None:
            raise failed
        return entry.process

    async def stop(self, process_id: str, agent_id: str | None = None) -> bool:
        """End a process and everything that it has started; ``False`` if it had already ended. ``agent_id`` is the
        agent that stops it, ``None`` the user.

        Raises:
            InvalidRequest: there is no such process.
        """
        entry = self._entry(process_id)
        if agent_id is None:
            return await self._stop(entry, EndedBy.USER)
        return await self._stop(entry, EndedBy.STARTER if agent_id == entry.process.agent_id else EndedBy.OTHER_AGENT)

    async def stop_all(self, agent_id: str | None = None, by: EndedBy = EndedBy.USER) -> None:
        """End the processes of one agent, or all."""
        async with anyio.create_task_group() as stopping:
            for entry in tuple(self._entries.values()):
                if agent_id in (None, entry.process.agent_id):
                    stopping.start_soon(self._stop, entry, by)

    async def _stop(self, entry: _Entry, by: EndedBy) -> bool:
        if entry.ended.is_set():
            return False
        entry.stopped_by = entry.stopped_by or by
        entry.scope.cancel()
        await entry.ended.wait()
        return True

    async def _run(
        self,
        entry: _Entry,
        launch: Launch,
        timeout: float | None,
        cover: Callable[[], AbstractAsyncContextManager[None]],
        *,
        task_status: TaskStatus[ToolError | None],
    ) -> None:
        running: GuardedProcess | None = None
        try:
            with entry.scope, anyio.move_on_after(timeout) as limit:
                async with cover(), guarded_command(launch) as running:
                    self._remember(entry)
                    task_status.started(None)
                    async for chunk in running.output:
                        entry.output.add(chunk)
                    await running.wait()
            if limit.cancelled_caught:
                entry.stopped_by = EndedBy.TIMEOUT
        except ToolError as error:
            task_status.started(error)
        except Exception as error:
            logger.exception("background process %s failed", entry.process.process_id)
            if running is None:
                task_status.started(ToolError(f"The command could not be started: {error}"))
        finally:
            if running is not None:
                self._ended(entry, running)

    def _remember(self, entry: _Entry) -> None:
        self._entries[entry.process.process_id] = entry
        ended = [process_id for process_id, one in self._entries.items() if one.ended.is_set()]
        for process_id in ended[: max(0, len(self._entries) - MAX_REMEMBERED)]:
            del self._entries[process_id]
        self._changed()

    def _ended(self, entry: _Entry, running: GuardedProcess) -> None:
        code = running.ended.code if running.ended else -SIGKILL
        by = entry.stopped_by or EndedBy.ITSELF
        entry.process = replace(entry.process, ended_at=self._clock.time(), code=code, ended_by=by)
        entry.ended.set()
        self._changed()
        self._on_end(entry.process)

    def _entry(self, process_id: str) -> _Entry:
        entry = self._entries.get(process_id)
        if entry is None:
            raise InvalidRequest(f"There is no background process {process_id}.", "processId")
        return entry


def process_state(process: BackgroundProcess) -> dict[str, object]:
    """The state of a process as agents read it."""
    state: dict[str, object] = {"process_id": process.process_id, "command": process.text, "cwd": process.cwd}
    if process.code is None:
        return state | {"status": "running"}
    state |= {"status": "exited", "exit_code": process.code}
    return state if process.code >= 0 else state | {"signal": signal_name(-process.code)}


def signal_name(number: int) -> str:
    return Signals(number).name if number in list(Signals) else str(number)
