"""What commands change in files: snapshots around them, and what differs goes into the ledger of changes."""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import anyio
from anyio.abc import TaskGroup

from deputy_agents.files.encoding import FileVersion, file_version
from deputy_agents.files.exact import FileState
from deputy_agents.files.workspace import Workspace
from deputy_agents.snapshots.git import SnapshotError
from deputy_agents.snapshots.object_store import LeftOut
from deputy_agents.snapshots.roots import SnapshotRoots
from deputy_agents.snapshots.windows import Made, Window, Windows

logger = logging.getLogger(__name__)

READY_TIMEOUT = 60.0
"""Seconds that a write waits for the snapshot before a turn."""
END_TIMEOUT = 60.0
"""Seconds that the end of a command waits for the snapshot after it."""

Versions: TypeAlias = Mapping[Path, tuple[FileVersion, FileVersion]]
Record: TypeAlias = Callable[[Versions, Sequence[str]], Awaitable[None]]
"""Records changes of files, each with its version before and after, and the agents that may have made them too."""
LINKS = "Links that commands change are not listed, and not rewound."


@dataclass(eq=False, slots=True)
class _Command:
    """A command that runs: its window in each folder, and who gets what it changes."""

    record: Record
    windows: Sequence[tuple[Windows, Window]]


class Coverage:
    """The snapshots of one session. ``is_idle`` says whether none of its agents work: what changes then is the
    user's."""

    def __init__(
        self,
        session_id: str,
        roots: SnapshotRoots,
        workspace: Workspace,
        tasks: TaskGroup,
        is_idle: Callable[[], bool],
    ) -> None:
        self._session_id = session_id
        self._roots = roots
        self._workspace = workspace
        self._tasks = tasks
        self._is_idle = is_idle
        self._ready = anyio.Event()
        self._ready.set()
        self._commands: list[_Command] = []
        self._problems: dict[Path, str] = {}
        self._left_out: dict[Path, LeftOut] = {}
        self._notes: dict[str, None] = {}

    @property
    def notes(self) -> tuple[str, ...]:
        """What is not covered, in sentences for the user."""
        left_out = (note for found in self._left_out.values() if (note := _left_out_note(found)))
        return tuple(filter(None, dict.fromkeys((*self._problems.values(), *left_out, *self._notes))))

    # -- turns -------------------------------------------------------------------------------------------------------

    def turn_begins(self, *, idle: bool) -> None:
        """Starts the snapshot before a turn, for which every write waits. Returns at once. ``idle``: no agent has
        worked since the last turn."""
        ready = self._ready = anyio.Event()
        self._tasks.start_soon(self._begin, ready, idle)

    async def turn_ends(self) -> None:
        """Records what processes in the background have changed until now. Never raises."""
        for command in tuple(self._commands):
            for windows, window in command.windows:
                await self._boundary(windows, idle=False)
                await self._flush(command, windows, window)

    async def _begin(self, ready: anyio.Event, idle: bool) -> None:
        try:
            for windows in await self._all():
                await self._boundary(windows, idle=idle)
        finally:
            ready.set()

    # -- what agents do ----------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def writing(self, path: Path) -> AsyncGenerator[None]:
        """Wraps the write of a file by a file tool."""
        await self._wait()
        async with AsyncExitStack() as wrapped:
            for windows in await self._all():
                root = windows.store.root
                if path.is_relative_to(root):
                    await wrapped.enter_async_context(windows.writing(path.relative_to(root).as_posix()))
            yield

    @asynccontextmanager
    async def command(self, agent_id: str, record: Record) -> AsyncGenerator[None]:
        """Wraps a command of an agent. What it changes is given to ``record`` at its end; if it runs in the background,
        also at the end of each turn."""
        await self._wait()
        opened: list[tuple[Windows, Window]] = []
        for windows in await self._all():
            try:
                opened.append((windows, await windows.begin(self._session_id, agent_id)))
            except SnapshotError as error:
                self._note_problem(windows, error)
        command = _Command(record, opened)
        self._commands.append(command)
        try:
            yield
        finally:
            self._commands.remove(command)
            with anyio.CancelScope(shield=True):
                for windows, window in opened:
                    await self._end(command, windows, window)

    async def _end(self, command: _Command, windows: Windows, window: Window) -> None:
        try:
            with anyio.fail_after(END_TIMEOUT):
                await windows.end(window, idle=self._is_idle())
        except TimeoutError:
            self._notes["What a command changed is not known: the snapshot after it took too long."] = None
        except SnapshotError as error:
            self._note_problem(windows, error)
        await self._flush(command, windows, window)

    async def _flush(self, command: _Command, windows: Windows, window: Window) -> None:
        made, window.made = window.made, []
        if window.uncounted:
            self._notes[f"Commands changed {window.uncounted} further files, which are not listed."] = None
            window.uncounted = 0
        for files, others in self._rounds(made, windows.store.root):
            await command.record(files, others)

    def _rounds(self, made: Sequence[Made], root: Path) -> list[tuple[Versions, Sequence[str]]]:
        """The changes in groups of the same agents in which each file occurs once."""
        rounds: list[tuple[dict[Path, tuple[FileVersion, FileVersion]], Sequence[str]]] = []
        for one in made:
            if any(state is not None and state.is_link for state in (one.before, one.after)):
                self._notes[LINKS] = None
                continue
            path = root / one.path
            if not rounds or path in rounds[-1][0] or rounds[-1][1] != one.others:
                rounds.append(({}, one.others))
            rounds[-1][0][path] = _version(one.before), _version(one.after)
        return list(rounds)

    # -- inside ------------------------------------------------------------------------------------------------------

    async def _wait(self) -> None:
        with anyio.move_on_after(READY_TIMEOUT):
            await self._ready.wait()

    async def _all(self) -> list[Windows]:
        """The windows of all folders that agents may write. Never raises."""
        further = (root.path for root in self._workspace.further if root.writable)
        found: list[Windows] = []
        for root in dict.fromkeys((*self._workspace.roots, *further)):
            try:
                found.append(await self._roots.windows(root))
                self._problems.pop(root, None)
            except SnapshotError as error:
                self._problems[root] = str(error)
        return found

    async def _boundary(self, windows: Windows, *, idle: bool) -> None:
        try:
            snapshot = await windows.boundary(self._session_id, idle=idle)
        except SnapshotError as error:
            self._note_problem(windows, error)
        else:
            self._left_out[windows.store.root] = snapshot.left_out

    def _note_problem(self, windows: Windows, error: SnapshotError) -> None:
        logger.warning("a snapshot of %s failed: %s", windows.store.root, error)
        self._notes[f"{error} What a command changed meanwhile is not covered."] = None


def _version(state: FileState | None) -> FileVersion:
    return (None, None) if state is None else file_version(state.data, state.mode & 0o777)


def _left_out_note(left_out: LeftOut) -> str:
    kinds = {
        "may hold secrets": left_out.secret,
        "are larger than 10 MB": left_out.large,
        "cannot be read": left_out.unreadable,
    }
    parts = [f"{count} that {what}" for what, count in kinds.items() if count]
    return f"Checkpoints leave out files: {', '.join(parts)}. Ignored files are left out too." if parts else ""
