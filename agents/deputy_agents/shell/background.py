"""Commands that run in the background of a session: its own, listed and stopped by it, and gone with it."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from signal import SIGKILL

import anyio
from anyio.abc import TaskGroup, TaskStatus

from deputy_agents.domain.errors import InvalidRequest, ToolError
from deputy_agents.domain.ids import new_id
from deputy_agents.ports.clock import Clock
from deputy_agents.shell.output import Output
from deputy_agents.shell.process import Guarded, Launch, guarded

logger = logging.getLogger(__name__)

MOST = 16
"""Commands of a session that may run at once."""
KEPT = 64
"""Commands that are remembered, those that have ended among them."""
OUTPUT = 64 * 1024
"""Bytes of output that are kept of each end."""


@dataclass(frozen=True, slots=True)
class BackgroundProcess:
    """``code`` is ``None`` while it runs; negative, it is the signal that ended it."""

    process_id: str
    agent_id: str
    text: str
    cwd: str
    started_at: float
    ended_at: float | None = None
    code: int | None = None


@dataclass(slots=True)
class _Entry:
    command: BackgroundProcess
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    gone: anyio.Event = field(default_factory=anyio.Event)
    output: Output = field(default_factory=lambda: Output(OUTPUT))


class Background:
    """The background commands of one session; they run in its ``tasks``. ``changed`` is called when one starts or
    ends."""

    def __init__(self, tasks: TaskGroup, clock: Clock, changed: Callable[[], None]) -> None:
        self._tasks = tasks
        self._clock = clock
        self._changed = changed
        self._entries: dict[str, _Entry] = {}

    def list(self, agent_id: str | None = None) -> Sequence[BackgroundProcess]:
        """In the order of their starts; of one agent, or of all."""
        return [e.command for e in self._entries.values() if agent_id in (None, e.command.agent_id)]

    def get(self, process_id: str) -> BackgroundProcess:
        """The state of one.

        Raises:
            InvalidRequest: there is no such command.
        """
        return self._entry(process_id).command

    def output(self, process_id: str, half: int) -> str:
        """What it has printed, at most ``half`` bytes from each end.

        Raises:
            InvalidRequest: there is no such command.
        """
        return self._entry(process_id).output.text(half)

    async def start(self, agent_id: str, launch: Launch, timeout: float | None = None) -> BackgroundProcess:
        """Starts a command, and returns when it runs. It may take ``timeout`` seconds.

        Raises:
            ToolError: it cannot be started, or too many run already.
        """
        if sum(1 for entry in self._entries.values() if entry.command.code is None) >= MOST:
            raise ToolError(f"{MOST} background commands run already; stop one of them first.")
        entry = _Entry(BackgroundProcess(new_id(), agent_id, launch.text, launch.shown_cwd, self._clock.time()))
        failed = await self._tasks.start(self._run, entry, launch, timeout)
        if failed is not None:
            raise failed
        return entry.command

    async def stop(self, process_id: str) -> bool:
        """Ends a command and all that it has started; ``False`` when it had ended before.

        Raises:
            InvalidRequest: there is no such command.
        """
        return await self._stop(self._entry(process_id))

    async def stop_all(self, agent_id: str | None = None) -> None:
        """Ends those of one agent, or all."""
        async with anyio.create_task_group() as stopping:
            for entry in tuple(self._entries.values()):
                if agent_id in (None, entry.command.agent_id):
                    stopping.start_soon(self._stop, entry)

    async def _stop(self, entry: _Entry) -> bool:
        if entry.gone.is_set():
            return False
        entry.scope.cancel()
        await entry.gone.wait()
        return True

    async def _run(
        self, entry: _Entry, launch: Launch, timeout: float | None, *, task_status: TaskStatus[ToolError | None]
    ) -> None:
        running: Guarded | None = None
        try:
            with entry.scope, anyio.move_on_after(timeout):
                async with guarded(launch) as running:
                    self._remember(entry)
                    task_status.started(None)
                    async for chunk in running.output:
                        entry.output.add(chunk)
                    await running.wait()
        except ToolError as error:
            task_status.started(error)
        except Exception as error:
            logger.exception("background command %s broke", entry.command.process_id)
            if running is None:
                task_status.started(ToolError(f"The command could not be started: {error}"))
        finally:
            if running is not None:
                self._ended(entry, running)

    def _remember(self, entry: _Entry) -> None:
        self._entries[entry.command.process_id] = entry
        ended = [key for key, kept in self._entries.items() if kept.gone.is_set()]
        for old in ended[: max(0, len(self._entries) - KEPT)]:
            del self._entries[old]
        self._changed()

    def _ended(self, entry: _Entry, running: Guarded) -> None:
        code = running.ended.code if running.ended else -SIGKILL
        entry.command = replace(entry.command, ended_at=self._clock.time(), code=code)
        entry.gone.set()
        self._changed()

    def _entry(self, process_id: str) -> _Entry:
        entry = self._entries.get(process_id)
        if entry is None:
            raise InvalidRequest(f"There is no background command {process_id}.", "processId")
        return entry
