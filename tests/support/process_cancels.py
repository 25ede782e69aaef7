"""Commands, hooks and programs that are cancelled at random moments, most of them while they start; and a search for
what they leave."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import psutil

from deputy_agents.domain.hook import Hook, When
from deputy_agents.domain.permission_mode import PermissionMode
from deputy_agents.domain.settings import Settings, ShellSettings
from deputy_agents.model.scripted import calls, say, use
from deputy_agents.shell.process import Launch, guarded_command, guarded_program
from tests.support.core import Cast, core
from tests.support.findings import Findings

LATEST = 0.12
"""Seconds until the latest cancel: a command has started by then."""
PATIENCE = 15.0
"""Seconds that processes get to disappear from the list of the system, which the kernel does a moment later."""


@dataclass
class Summary:
    """What happened, by way of cancelling."""

    cancels: Counter[str] = field(default_factory=Counter[str])
    completed: Counter[str] = field(default_factory=Counter[str])
    orphans: list[str] = field(default_factory=list[str])
    slowest: float = 0
    """Seconds from the cancel to its end."""

    def __str__(self) -> str:
        rows = [f"{way:<22} {n:>6} {self.completed[way]:>10}" for way, n in sorted(self.cancels.items())]
        total = f"{'all':<22} {self.cancels.total():>6} {self.completed.total():>10}"
        head = f"{'way':<22} {'cancels':>6} {'completed':>10}"
        return "\n".join([head, *rows, total, f"orphans: {len(self.orphans)}, slowest cancel: {self.slowest:.2f} s"])


class ProcessCancels:
    """Cancels by ``seed``. Every command also tries to leave a process behind that has no mark in its environment."""

    def __init__(self, seed: int, workspace: Path) -> None:
        self.summary = Summary()
        self.findings = Findings(orphans=self.summary.orphans)
        self._random = random.Random(seed)
        self._workspace = workspace
        self._cancelled_at = 0.0
        self._left = f"{617 + seed % 1000}.{self._random.randrange(10**6):06}"
        """The argument of ``sleep`` that identifies the processes of this run."""
        self._ways: dict[str, Callable[[], Awaitable[bool]]] = {
            f"{name}, {'isolated' if isolated else 'plain'}": lambda way=way, isolated=isolated: way(isolated)
            for name, way in (("scope", self._scope), ("task", self._task), ("program", self._program))
            for isolated in (True, False)
        } | {"turn": self._turn, "closed session": self._closed_session}

    async def run(self, count: int) -> Summary:
        for number in range(count):
            way = list(self._ways)[number % len(self._ways)]
            completed = await self._ways[way]()
            self.summary.slowest = max(self.summary.slowest, time.monotonic() - self._cancelled_at)
            self.summary.cancels[way] += 1
            self.summary.completed[way] += completed
            self.findings.tries += 1
            if number % 50 == 49:
                await self._search()
        await self._search()
        return self.summary

    @property
    def _text(self) -> str:
        return self._random.choice(
            [
                f"env -i setsid sleep {self._left} & sleep {self._left}",
                f"(trap '' TERM; setsid sleep {self._left} &); exit 0",
                f"sleep {self._left} & disown; kill -9 $PPID; sleep {self._left}",
                "true",
            ]
        )

    def _launch(self, isolated: bool) -> Launch:
        return Launch(self._text, str(self._workspace), str(self._workspace), isolated=isolated)

    async def _wait(self) -> None:
        await asyncio.sleep(self._random.random() ** 2 * LATEST)  # a random moment: nothing is waited for
        self._cancelled_at = time.monotonic()

    async def _run(self, isolated: bool) -> None:
        async with guarded_command(self._launch(isolated)) as command:
            async for _ in command.output:
                pass
            await command.wait()

    async def _scope(self, isolated: bool) -> bool:
        completed = False

        async def run() -> None:
            nonlocal completed
            await self._run(isolated)
            completed = True

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            await self._wait()
            tasks.cancel_scope.cancel()
        return completed

    async def _task(self, isolated: bool) -> bool:
        task = asyncio.create_task(self._run(isolated))
        await self._wait()
        task.cancel()
        if self._random.random() < 0.5:
            await asyncio.sleep(self._random.random() * 0.01)
            task.cancel()
        await asyncio.wait([task])
        return not task.cancelled()

    async def _program(self, isolated: bool) -> bool:
        async def run() -> None:
            command = ["bash", "-c", f"env -i setsid sleep {self._left} & cat; sleep {self._left}"]
            async with guarded_program(command, str(self._workspace), {}, isolated=isolated) as program:
                await program.wait()

        task = asyncio.create_task(run())
        await self._wait()
        task.cancel()
        await asyncio.wait([task])
        return not task.cancelled()

    async def _turn(self) -> bool:
        async with core(self._workspace, self._cast(), settings=self._settings()) as c:
            turn = c.start()
            await self._wait()
            await c.session.cancel()
            return (await c.finish(turn)).stop_reason != "cancelled"

    async def _closed_session(self) -> bool:
        async with core(self._workspace, self._cast(), settings=self._settings()) as c:
            turn = c.start()
            await self._wait()
        with suppress(asyncio.CancelledError):
            return (await turn.result()).stop_reason == "end_turn"
        return False

    def _cast(self) -> Cast:
        commands = [
            use("shell", command=self._text),
            use("shell", command=self._text, background=True),
            use("grep", pattern="x"),
        ]
        return Cast([calls(commands), say("done"), *[say("done")] * 4])

    def _settings(self) -> Settings:
        hook = Hook(When.BEFORE_TOOL, f"env -i setsid sleep {self._left} & cat > /dev/null")
        isolated = self._random.random() < 0.5
        return Settings(permission_mode=PermissionMode.BYPASS, hooks=(hook,), shell=ShellSettings(isolated=isolated))

    async def _search(self) -> None:
        """Record the processes that are left, once they had the time to disappear."""
        deadline = time.monotonic() + PATIENCE
        while (found := self._find()) and time.monotonic() < deadline:  # noqa: ASYNC110 - processes send no events
            await asyncio.sleep(0.1)
        self.summary.orphans += found

    def _find(self) -> list[str]:
        found: list[str] = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.status() == psutil.STATUS_ZOMBIE:
                    continue
                environment, words = process.environ(), process.cmdline()
                marked = "DEPUTY_COMMAND" in environment and environment.get("PWD") == str(self._workspace)
                if marked or any(self._left in word for word in words):
                    found.append(f"{process.pid}: {' '.join(words)}")
        return found
