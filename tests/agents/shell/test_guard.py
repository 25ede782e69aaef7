"""A command under its guard: no process is left, however the command ends and whatever it starts."""

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

from deputy_agents.shell.process import ExitStatus, GuardedProcess, Launch, guarded_command
from tests.support.commands import marked, runs, until

pytestmark = [pytest.mark.asyncio, pytest.mark.requirement("X12")]

ESCAPES = {
    "a job in the background": "sleep 600 & {ready}",
    "nohup and disown": "nohup sleep 600 >/dev/null 2>&1 & disown; {ready}",
    "its own session": "setsid sleep 600 >/dev/null 2>&1 & {ready}",
    "a double fork": "( ( sleep 600 & ) & ); {ready}",
    "a double fork into its own session": "( setsid bash -c 'setsid sleep 600 & exec sleep 600' & ); {ready}",
    "ignored signals": "trap '' TERM HUP INT; (trap '' TERM HUP INT; while :; do sleep 1; done) & {ready}",
    "an ignored TERM in its own session": "setsid bash -c 'trap \"\" TERM; while :; do sleep 1; done' & {ready}",
    "a stopped process": "sleep 600 & kill -STOP $!; {ready}",
    "a tree of forks": "f() {{ if [ $1 -gt 0 ]; then f $(($1 - 1)) & f $(($1 - 1)) & fi; sleep 600; }}; f 4 & {ready}",
    "a clean environment": "env -i setsid sleep 600 & {ready}",
    "processes that go on forking": "g() {{ sleep 0.05; g & }}; g & {ready}",
}


@asynccontextmanager
async def running(
    text: str, folder: Path, *, isolated: bool = True
) -> AsyncGenerator[tuple[GuardedProcess, psutil.Process]]:
    """A command that has printed that it is ready, and its guard."""
    launch = Launch(text.format(ready="echo ready; sleep 600"), str(folder), str(folder), isolated=isolated)
    async with guarded_command(launch) as command:
        with anyio.fail_after(20):
            assert b"ready" in await command.output.receive()
        yield command, guard_of(folder)


@asynccontextmanager
async def program(code: str) -> AsyncGenerator[tuple[Process, asyncio.StreamReader]]:
    """A Python process in the role of the server, and its output; it does not outlive the test."""
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
    """The guard that runs in ``folder``, a child of this process."""
    mine = [child for child in psutil.Process().children() if child.status() != psutil.STATUS_ZOMBIE]
    return next(child for child in mine if child.cwd() == str(folder) and "guard.py" in " ".join(child.cmdline()))


async def gone(processes: Sequence[psutil.Process]) -> None:
    await until(lambda: not any(map(runs, processes)))


@pytest.mark.parametrize("isolated", [True, False], ids=["isolated", "plain"])
@pytest.mark.parametrize("escape", ESCAPES.values(), ids=ESCAPES)
async def test_cancelling_a_command_ends_every_process_it_started(escape: str, isolated: bool, workspace: Path) -> None:
    async with running(escape, workspace, isolated=isolated) as (_, guard):
        started = guard.children(recursive=True)
        assert len(started) > 1
    assert [one for one in started if one.is_running() and one.status() != psutil.STATUS_ZOMBIE] == []
    assert not guard.is_running()


@pytest.mark.parametrize("isolated", [True, False], ids=["isolated", "plain"])
@pytest.mark.parametrize("escape", ESCAPES.values(), ids=ESCAPES)
async def test_processes_left_behind_end_with_the_command(escape: str, isolated: bool, workspace: Path) -> None:
    launch = Launch(escape.format(ready="true"), str(workspace), str(workspace), isolated=isolated)
    async with guarded_command(launch) as command:
        with anyio.fail_after(20):
            async for _ in command.output:
                pass
            ended = await command.wait()
    assert ended.code == 0
    assert ended.survivors == 0
    assert marked(workspace) == []


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
async def test_every_process_ends_when_the_server_is_killed(number: signal.Signals, workspace: Path) -> None:
    code = f"""
import anyio
from deputy_agents.shell.process import Launch, guarded_command
async def main():
    text = "trap '' TERM; setsid bash -c 'nohup sleep 600 & sleep 600' & echo ready; sleep 600"
    async with guarded_command(Launch(text, {str(workspace)!r}, {str(workspace)!r})) as command:
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


async def test_server_hides_its_environment_from_commands(workspace: Path) -> None:
    code = f"""
import anyio, ctypes
from deputy_agents.shell.process import Launch, guarded_command
async def main():
    async with guarded_command(Launch("true", {str(workspace)!r}, {str(workspace)!r})) as command:
        await command.wait()
    print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))  # PR_GET_DUMPABLE: 0 keeps /proc/<pid>/environ from the same user
anyio.run(main)
"""
    async with program(code) as (_, output):
        assert await output.read() == b"0\n"


@pytest.mark.parametrize("isolated", [True, False], ids=["isolated", "plain"])
@pytest.mark.parametrize("escape", ESCAPES.values(), ids=ESCAPES)
async def test_processes_of_a_killed_guard_end(escape: str, isolated: bool, workspace: Path) -> None:
    async with running(escape, workspace, isolated=isolated) as (command, guard):
        started = guard.children(recursive=True)
        guard.kill()
        with anyio.fail_after(20):
            assert await command.wait() == ExitStatus(-signal.SIGKILL)
        await gone(started)
        assert marked(workspace) == []


SUICIDES = {
    "its parent": "env -i setsid sleep 617 & sleep 0.1; kill -9 $PPID; {ready}",
    "everything": "env -i setsid sleep 617 & sleep 0.1; kill -9 -1; {ready}",
    "all guards": "env -i setsid sleep 617 & sleep 0.1; pkill -9 -f 'guard[.]py .*sleep 617'; {ready}",
    "a stopped parent": "env -i setsid sleep 617 & sleep 0.1; kill -STOP $PPID; kill -9 $PPID; {ready}",
    "while forking": "g() {{ env -i sleep 617 & sleep 0.02; g & }}; g; g; kill -9 $PPID; {ready}",
}


@pytest.mark.parametrize("text", SUICIDES.values(), ids=SUICIDES)
async def test_command_that_kills_its_guard_leaves_nothing(text: str, workspace: Path) -> None:
    async with guarded_command(Launch(text.format(ready="sleep 0.1"), str(workspace), str(workspace))) as command:
        with anyio.fail_after(20):
            await command.wait()
    await until(lambda: not sleeping())


@pytest.mark.parametrize("text", [text for name, text in SUICIDES.items() if name != "everything"])
async def test_command_that_kills_its_guard_leaves_nothing_without_namespaces(text: str, workspace: Path) -> None:
    keeper = await asyncio.create_subprocess_exec("sleep", "600")  # a child that is none of its business
    launch = Launch(text.format(ready="true"), str(workspace), str(workspace), isolated=False)
    async with guarded_command(launch) as command, running("{ready}", workspace.parent) as (_, other):
        with anyio.fail_after(20):
            await command.wait()
        assert sleeping() == []
        assert keeper.returncode is None
        assert other.is_running()
        keeper.kill()
        await keeper.wait()


def sleeping() -> list[psutil.Process]:
    """The processes that the commands above try to leave behind."""
    return [
        one
        for one in psutil.process_iter(["cmdline"])
        if one.info["cmdline"] == ["sleep", "617"] and one.status() != psutil.STATUS_ZOMBIE
    ]


async def test_signal_to_the_guard_ends_the_command(workspace: Path) -> None:
    async with running("{ready}", workspace) as (command, guard):
        guard.terminate()
        with anyio.fail_after(20):
            assert (await command.wait()).code == -signal.SIGTERM


@pytest.mark.parametrize(
    ("text", "code"), [("true", 0), ("exit 7", 7), ("kill -SEGV $$", -signal.SIGSEGV), ("nothing-of-that-name", 127)]
)
async def test_exit_code_is_reported(text: str, code: int, workspace: Path) -> None:
    async with guarded_command(Launch(text, str(workspace), str(workspace))) as command:
        with anyio.fail_after(20):
            assert (await command.wait()).code == code


ENDING = {
    "killed": "sleep 600 & kill -9 $!",
    "terminated": "sleep 600 & kill $!",
    "killed in its own session": "setsid sleep 600 & kill $!",
    "killed when stopped": "sleep 600 & kill -STOP $!; kill -9 $!",
    "a tree that is killed": "set -m; (sleep 600 & sleep 600 & sleep 600; :) & kill -9 -- -$!",
    "many that are killed": "for i in {1..20}; do sleep 600 & done; kill $(jobs -p)",
    "a process substitution": "cat <(echo x) >/dev/null",
    "a process substitution whose reader ends first": "head -1 <(yes) >/dev/null",
    "a process substitution that reads": "echo x > >(cat >/dev/null)",
    "the writer of a pipe": "yes | head -1 >/dev/null; (yes | head -1 >/dev/null) &",
    "nearly done": "sleep 0.02 & (sleep 0.02; :) & setsid sleep 0.02 &",
}


@pytest.mark.parametrize("isolated", [True, False], ids=["isolated", "plain"])
@pytest.mark.parametrize("text", ENDING.values(), ids=ENDING)
async def test_processes_that_are_ending_do_not_count_as_left_behind(
    text: str, isolated: bool, workspace: Path
) -> None:
    launch = Launch(f"{text}\nexit 3", str(workspace), str(workspace), isolated=isolated)
    async with guarded_command(launch) as command:
        with anyio.fail_after(20):
            assert await command.wait() == ExitStatus(3)


@pytest.mark.parametrize(
    "text",
    [
        "sleep 600 & sleep 600 &",
        "sleep 600 & sleep 600 & sleep 600 & kill $!",
        "sleep 600 & kill -STOP $!; kill $!; setsid sleep 600 &",
        "sleep 600 > >(cat) &",
    ],
)
async def test_processes_left_behind_are_counted(text: str, workspace: Path) -> None:
    async with guarded_command(Launch(f"{text}\nexit 3", str(workspace), str(workspace))) as command:
        with anyio.fail_after(20):
            assert await command.wait() == ExitStatus(3, left=2)


async def test_command_has_no_terminal_no_input_and_one_output(workspace: Path) -> None:
    text = "tty; read -r line || echo no input; echo error >&2; ls /proc/self/fd | wc -l; (: >/dev/tty) 2>&1"
    async with guarded_command(Launch(text, str(workspace), str(workspace))) as command:
        with anyio.fail_after(20):
            output = b"".join([chunk async for chunk in command.output]).decode()
    assert output.startswith("not a tty\nno input\nerror\n4\n")
    assert "/dev/tty: No such device or address" in output


async def test_missing_bash_is_an_error(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(workspace))
    with pytest.raises(Exception, match="needs bash"):
        async with guarded_command(Launch("true", str(workspace), str(workspace))):
            pass
