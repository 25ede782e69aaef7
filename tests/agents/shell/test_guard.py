"""A command under its guard: nothing of it is left, however it ends and whatever it starts."""

import asyncio
import signal
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import psutil
import pytest

from deputy_agents.shell.process import Ended, Guarded, Launch, guarded
from tests.support.commands import marked, until

pytestmark = [pytest.mark.asyncio, pytest.mark.requirement("X12")]

ESCAPES = {
    "a job in the background": "sleep 600 & {tell}",
    "nohup and disown": "nohup sleep 600 >/dev/null 2>&1 & disown; {tell}",
    "a session of its own": "setsid sleep 600 >/dev/null 2>&1 & {tell}",
    "a double fork": "( ( sleep 600 & ) & ); {tell}",
    "a double fork into a session of its own": "( setsid bash -c 'setsid sleep 600 & exec sleep 600' & ); {tell}",
    "ignored signals": "trap '' TERM HUP INT; (trap '' TERM HUP INT; while :; do sleep 1; done) & {tell}",
    "an ignored TERM in a session of its own": "setsid bash -c 'trap \"\" TERM; while :; do sleep 1; done' & {tell}",
    "a stopped process": "sleep 600 & kill -STOP $!; {tell}",
    "a tree of forks": "f() {{ if [ $1 -gt 0 ]; then f $(($1 - 1)) & f $(($1 - 1)) & fi; sleep 600; }}; f 4 & {tell}",
    "a clean environment": "env -i setsid sleep 600 & {tell}",
    "processes that go on forking": "g() {{ sleep 0.05; g & }}; g & {tell}",
}


@asynccontextmanager
async def running(text: str, folder: Path) -> AsyncGenerator[tuple[Guarded, psutil.Process]]:
    """A command that says that it is ready, and its guard."""
    launch = Launch(text.format(tell="echo ready; sleep 600"), str(folder), str(folder))
    async with guarded(launch) as command:
        with anyio.fail_after(20):
            assert b"ready" in await command.output.receive()
        yield command, guard_of(folder)


@asynccontextmanager
async def program(code: str) -> AsyncGenerator[tuple[Process, asyncio.StreamReader]]:
    """A Python process that stands for a server, and its output; it does not outlive the test."""
    owner = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE)
    assert owner.stdout is not None
    try:
        with anyio.fail_after(30):
            yield owner, owner.stdout
    finally:
        if owner.returncode is None:
            owner.kill()
        await owner.wait()


def guard_of(folder: Path) -> psutil.Process:
    """The guard among this process's children that works in ``folder``."""
    mine = psutil.Process().children()
    return next(child for child in mine if child.cwd() == str(folder) and "guard.py" in " ".join(child.cmdline()))


async def gone(processes: Sequence[psutil.Process]) -> None:
    await until(lambda: not [one for one in processes if one.is_running() and one.status() != psutil.STATUS_ZOMBIE])


@pytest.mark.parametrize("escape", ESCAPES.values(), ids=ESCAPES)
async def test_whatever_a_command_starts_ends_when_it_is_cancelled(escape: str, workspace: Path) -> None:
    async with running(escape, workspace) as (_, guard):
        started = guard.children(recursive=True)
        assert len(started) > 1
    assert [one for one in started if one.is_running() and one.status() != psutil.STATUS_ZOMBIE] == []
    assert not guard.is_running()


@pytest.mark.parametrize("escape", ESCAPES.values(), ids=ESCAPES)
async def test_what_a_command_leaves_behind_ends_with_it(escape: str, workspace: Path) -> None:
    async with guarded(Launch(escape.format(tell="true"), str(workspace), str(workspace))) as command:
        with anyio.fail_after(20):
            async for _ in command.output:
                pass
            ended = await command.wait()
    assert ended.code == 0
    assert ended.survivors == 0
    assert marked(workspace) == []


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
async def test_everything_ends_with_a_server_that_is_killed(number: signal.Signals, workspace: Path) -> None:
    code = f"""
import anyio
from deputy_agents.shell.process import Launch, guarded
async def main():
    text = "trap '' TERM; setsid bash -c 'nohup sleep 600 & sleep 600' & echo ready; sleep 600"
    async with guarded(Launch(text, {str(workspace)!r}, {str(workspace)!r})) as command:
        print((await command.output.receive()).decode(), flush=True)
        await anyio.sleep_forever()
anyio.run(main)
"""
    async with program(code) as (owner, output):
        assert await output.readline() == b"ready\n"
        started = psutil.Process(owner.pid).children(recursive=True)
        assert len(started) >= 3
        owner.send_signal(number)
        await owner.wait()
        await gone(started)


async def test_a_server_that_runs_commands_hides_its_environment_from_them(workspace: Path) -> None:
    code = f"""
import anyio, ctypes
from deputy_agents.shell.process import Launch, guarded
async def main():
    async with guarded(Launch("true", {str(workspace)!r}, {str(workspace)!r})) as command:
        await command.wait()
    print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))  # PR_GET_DUMPABLE: 0 keeps /proc/<pid>/environ from the same user
anyio.run(main)
"""
    async with program(code) as (_, output):
        assert await output.read() == b"0\n"


async def test_processes_of_a_guard_that_is_killed_are_found_by_their_environment(workspace: Path) -> None:
    async with running("setsid sleep 600 & {tell}", workspace) as (command, guard):
        started = guard.children(recursive=True)
        guard.kill()
        with anyio.fail_after(20):
            assert await command.wait() == Ended(-signal.SIGKILL)
        await gone(started)


async def test_a_signal_to_the_guard_ends_the_command_too(workspace: Path) -> None:
    async with running("{tell}", workspace) as (command, guard):
        guard.terminate()
        with anyio.fail_after(20):
            assert (await command.wait()).code == -signal.SIGTERM


@pytest.mark.parametrize(
    ("text", "code"), [("true", 0), ("exit 7", 7), ("kill -SEGV $$", -signal.SIGSEGV), ("nothing-of-that-name", 127)]
)
async def test_the_exit_code_is_told(text: str, code: int, workspace: Path) -> None:
    async with guarded(Launch(text, str(workspace), str(workspace))) as command:
        with anyio.fail_after(20):
            assert (await command.wait()).code == code


async def test_what_was_left_behind_is_counted(workspace: Path) -> None:
    async with guarded(Launch("sleep 600 & sleep 600 & exit 3", str(workspace), str(workspace))) as command:
        with anyio.fail_after(20):
            assert await command.wait() == Ended(3, left=2)


async def test_a_command_has_no_terminal_no_input_and_one_output(workspace: Path) -> None:
    text = "tty; read -r line || echo no input; echo error >&2; ls /proc/self/fd | wc -l; (: >/dev/tty) 2>&1"
    async with guarded(Launch(text, str(workspace), str(workspace))) as command:
        with anyio.fail_after(20):
            output = b"".join([chunk async for chunk in command.output]).decode()
    assert output.startswith("not a tty\nno input\nerror\n4\n")
    assert "/dev/tty: No such device or address" in output


async def test_a_missing_shell_is_told(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(workspace))
    with pytest.raises(Exception, match="needs bash"):
        async with guarded(Launch("true", str(workspace), str(workspace))):
            pass
