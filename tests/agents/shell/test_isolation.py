"""Commands and other processes: nothing of them can be read or signalled, and all else is as outside.

These tests need Linux with namespaces; those that become another user also need root, and ssh or bubblewrap.
"""

import inspect
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import anyio
import pytest

from deputy_agents.shell import guard
from deputy_agents.shell.confinement import isolation_problem
from deputy_agents.shell.process import ExitStatus, GuardedProcess, Launch, guarded_command, guarded_program

USER = 1
"""A user of this machine without any rights: daemon."""
SECRET = "key-of-the-editor"


async def output_of(text: str, folder: Path, *, isolated: bool = True) -> str:
    async with guarded_command(Launch(text, str(folder), str(folder), isolated=isolated)) as command:
        with anyio.fail_after(20):
            output = b"".join([chunk async for chunk in command.output])
            await command.wait()
    return output.decode()


@contextmanager
def editor() -> Generator[subprocess.Popen[bytes]]:
    """A process of the same user that has a key in its environment."""
    with subprocess.Popen(["sleep", "600"], env={**os.environ, "ANTHROPIC_API_KEY": SECRET}) as process:
        try:
            yield process
        finally:
            process.kill()


READERS = {
    "a search": "cat /proc/[0-9]*/environ /proc/[0-9]*/task/*/environ",
    "up the tree": "p=$$; while [ $p -gt 0 ]; do cat /proc/$p/environ; p=$(cut -d' ' -f4 /proc/$p/stat); done",
    "by its identifier": "cat /proc/{pid}/environ /proc/{pid}/cmdline; ls /proc/{pid}",
    "an unmounted /proc": "umount -l /proc; cat /proc/{pid}/environ",
    "another /proc": "mkdir p; mount -t proc proc p; cat p/{pid}/environ",
    "a namespace of its own": "unshare -Urm sh -c 'umount -l /proc; cat /proc/{pid}/environ'",
    "the namespaces of others": "for p in 1 {pid}; do nsenter -t $p -p -m cat /proc/{pid}/environ; done",
}


@pytest.mark.asyncio
@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
async def test_environment_of_the_editor_cannot_be_read(reader: str, workspace: Path) -> None:
    with editor() as process:
        reader = reader.format(pid=process.pid)
        assert SECRET not in await output_of(reader, workspace)
    if "umount" not in reader:  # what is tested can be read at all
        with editor() as process:
            assert SECRET in await output_of(f"cat /proc/{process.pid}/environ", workspace, isolated=False)


@pytest.mark.asyncio
async def test_command_sees_only_its_own_processes(workspace: Path) -> None:
    with editor() as process:
        output = await output_of(f"ls /proc | grep -c '^[0-9]'; echo $$ $PPID; kill -0 {process.pid}", workspace)
    assert output.startswith("4\n2 1\n")  # the guard, bash, ls and grep
    assert "No such process" in output


@pytest.mark.asyncio
async def test_all_else_is_as_outside(workspace: Path) -> None:
    text = "id; hostname; pwd; wc -l < /proc/net/dev; umask; ulimit -n; stat -c %u:%g . /etc/passwd"
    assert await output_of(text, workspace) == await output_of(text, workspace, isolated=False)


@pytest.mark.asyncio
@pytest.mark.parametrize("isolated", [True, False])
async def test_program_communicates_over_its_input(isolated: bool, workspace: Path) -> None:
    async def send(program: GuardedProcess) -> None:
        await program.input.send(b"hello\n")

    command = ["bash", "-c", "read -r line; echo got $line; echo problem >&2; exit 5"]
    async with guarded_program(command, str(workspace), {}, isolated=isolated) as program:
        with anyio.fail_after(20):
            await send(program)
            assert await program.output.receive() == b"got hello\n"
            assert await program.wait() == ExitStatus(5)
            assert program.errors == "problem\n"


@pytest.mark.asyncio
async def test_files_and_mounts_are_as_outside(workspace: Path) -> None:
    here, outside = [await output_of("cut -d' ' -f2,3 /proc/mounts", workspace, isolated=one) for one in (True, False)]
    without_proc = [line for line in outside.splitlines() if not line.startswith("/proc")]
    assert sorted(here.splitlines()) == sorted([*without_proc, "/proc proc"])


@pytest.mark.asyncio
async def test_command_that_cannot_be_isolated_does_not_run(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as when a command has used up the user's namespaces: the next one must not run without."""
    fake = workspace / "guard.py"
    text = inspect.getsource(guard).replace(
        "isolation.unshare(sandbox=sandbox is not None)", "raise OSError(28, 'No space')"
    )
    fake.write_text(text.replace("os.path.abspath(__file__)", repr(guard.__file__)))
    assert isolation_problem() is None
    monkeypatch.setattr("deputy_agents.shell.confinement._GUARD", str(fake))
    async with guarded_command(Launch("touch ran", str(workspace), str(workspace))) as command:
        with anyio.fail_after(20):
            output = b"".join([chunk async for chunk in command.output])
            assert await command.wait() == ExitStatus(126)
    assert output == b"The command could not be isolated: No space\n"
    assert not (workspace / "ran").exists()


@pytest.mark.asyncio
@pytest.mark.editors
async def test_sandboxes_work_inside(workspace: Path) -> None:
    bubblewrap = "bwrap --ro-bind / / --proc /proc --dev /dev --unshare-pid --unshare-net bash -c 'echo inside $$'"
    assert await output_of(bubblewrap, workspace) == "inside 2\n"
    assert await output_of("unshare -Ur id -u", workspace) == "0\n"
    assert await output_of("unshare -Urmpf --mount-proc bash -c 'echo $$'", workspace) == "1\n"


# -- a user without rights, who needs a user namespace -----------------------------------------------------------------


@cache
def python_for_all() -> str:
    """A Python that other users can run; tests often run as root with one that only root can."""
    for candidate in (sys.executable, "/usr/bin/python3"):
        try:
            subprocess.run(
                [candidate, "-I", "-S", "-c", ""], user=USER, group=USER, extra_groups=[], check=True, cwd="/"
            )
        except (OSError, subprocess.SubprocessError):
            continue
        return candidate
    raise AssertionError("no Python for other users")


def as_user(text: str, mode: str = "isolated", *options: str, around: str = "exec") -> str:
    """The output of a command that a user without rights runs under a guard. ``around`` prepares it, as root."""
    command = [python_for_all(), "-I", "-S", guard.__file__, "0.5", "0", mode, *options, "--", "bash", "-c", text]
    words = ["bash", "-c", f'{around} setpriv --reuid {USER} --regid {USER} --clear-groups "$@"', "bash", *command]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd="/") as ran:
        assert ran.stdout is not None
        output = ran.stdout.read()
        ran.wait(20)
    return output.decode()


@pytest.mark.editors
def test_user_without_rights_is_isolated_too() -> None:
    with subprocess.Popen(["sleep", "600"], env={"KEY": SECRET}, user=USER, group=USER, extra_groups=[]) as process:
        reading = f"cat /proc/{process.pid}/environ; cat /proc/[0-9]*/environ | tr '\\0' ' '"
        assert SECRET in as_user(reading, "plain")
        for way in (reading, f"unshare -Urm sh -c 'umount -l /proc; {reading}'", f"nsenter -t {process.pid} -U sh"):
            assert SECRET not in as_user(way)
        counted = "ls /proc | grep -c '^[0-9]'; id -u; id -g; touch /tmp/x-$$ && stat -c %u /tmp/x-$$; rm /tmp/x-$$"
        processes, *owners = as_user(counted).split()
        assert int(processes) <= 4  # grep may start after ls has listed them
        assert owners == [str(USER)] * 3
        assert set(as_user("grep Cap[PE] /proc/self/status; kill -9 1; kill -9 $PPID").split()[1::2]) == {"0" * 16}
        process.kill()


@pytest.mark.editors
def test_sandboxes_of_a_user_work_inside() -> None:
    assert as_user("bwrap --ro-bind / / --proc /proc --dev /dev --unshare-pid echo inside") == "inside\n"
    assert as_user("unshare -Ur id -u") == "0\n"


@pytest.mark.editors
def test_ssh_accepts_the_configuration_of_the_system(tmp_path: Path) -> None:
    """It rejects included files of root, who does not exist in a user namespace; git would not reach a remote."""
    folder, deeper = tmp_path / "ssh", tmp_path / "deeper.conf"
    for one in (*reversed(tmp_path.parents[:3]), tmp_path):
        one.chmod(one.stat().st_mode | 0o055)
    folder.mkdir()
    (folder / "20-first.conf").write_text(f'Host *\n  Include "{deeper}"\n  User first\n')
    (folder / "30-link.conf").symlink_to(tmp_path / "linked.conf")
    (tmp_path / "linked.conf").write_text("Port 4242\n")
    deeper.write_text("ConnectTimeout 77\n")
    for one in (folder, *folder.iterdir(), deeper):
        one.chmod(0o755)
    around = f"exec unshare -m bash -c 'mount --bind {folder} /etc/ssh/ssh_config.d && exec \"$@\"' bash"
    assert "include /etc/ssh/ssh_config.d" in Path("/etc/ssh/ssh_config").read_text().lower()
    shown = as_user("ssh -G example.com 2>&1; stat -c %U:%a /etc/passwd; echo $HOME", around=around)
    assert "user first\n" in shown
    assert "port 4242\n" in shown
    assert "connecttimeout 77\n" in shown


@pytest.mark.editors
def test_sandbox_of_a_user_without_bubblewrap(tmp_path: Path) -> None:
    root = Path("/var/tmp/deputy-test-root")
    shutil.rmtree(root, ignore_errors=True)
    (root / ".git").mkdir(parents=True)
    (root / ".git" / "config").write_text("good")
    for one in (root, root / ".git", root / ".git" / "config"):
        os.chown(one, USER, USER)
    options = (str(root), "scratch", "/tmp", "hidden", "/run", "writable", str(root), "read-only", f"{root}/.git")
    text = (
        "echo x > inside && echo written; echo evil > .git/config; mv .git other; rm -rf .git; echo x > /var/tmp/evil; "
        "mount -o remount,bind,rw /; umount /run; unshare -Urm mount -t tmpfs none /mnt && echo mounted; "
        "ls /run | wc -l; grep -h Cap /proc/self/status | cut -f2 | sort -u; "
        "(echo > /dev/tcp/192.0.2.1/80) 2>&1 | grep -q unreachable && echo 1"
    )
    try:
        shown = as_user(text, "sandboxed", *options)
        assert shown.startswith("written\n")
        assert "mounted" not in shown
        assert [line for line in shown.splitlines() if set(line) <= set("01")] == ["0", "0" * 16, "1"]
        assert (root / ".git" / "config").read_text() == "good"
        assert not Path("/var/tmp/evil").exists()
    finally:
        shutil.rmtree(root, ignore_errors=True)


@pytest.mark.editors
@pytest.mark.requirement("Q3")
@pytest.mark.parametrize("with_bubblewrap", [True, False])
def test_protected_names_cannot_be_created_by_a_user_without_rights(with_bubblewrap: bool) -> None:
    root, packages = Path("/var/tmp/deputy-test-root"), str(Path(guard.__file__).parents[2])
    shutil.rmtree(root, ignore_errors=True)
    (root / "sub" / ".git").mkdir(parents=True)
    for name in ("sub/.git/config", ".env"):
        (root / name).write_text("good")
    for path in (root, *root.rglob("*")):
        os.chown(path, USER, USER)
    text = (
        "echo x > inside && cat inside; mkdir .git; echo evil > sub/.git/config; chmod 777 sub/.git/config; "
        "mv sub other; touch AGENTS.md; cat .env; touch /tmp/x && echo scratch"
    )
    broker = (python_for_all(), "-I", "-S", str(Path(guard.__file__).with_name("broker.py")), "2", "0", "/tmp")
    brokered = (*broker, "--", str(root), "--", "--", "bash", "-c", text)
    options = (str(root), *("scratch", "/tmp", "hidden", "/run", "writable", str(root), "hidden-file", f"{root}/.env"))
    bubblewrap = ("bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp")
    bubblewrap += ("--ro-bind", packages, packages, "--bind", str(root), str(root), "--chdir", str(root))
    bubblewrap += ("--ro-bind", "/dev/null", f"{root}/.env", "--unshare-pid", "--unshare-net", "--cap-drop", "ALL")
    command = shlex.join((*bubblewrap, *brokered) if with_bubblewrap else brokered)
    options = (*options, "read-only", packages)
    try:
        shown = as_user(command) if with_bubblewrap else as_user(command, "sandboxed", *options)
        said = [line for line in shown.splitlines() if line and not line.startswith("protected ")]
        assert [line for line in said if "denied" not in line] == ["x", "scratch"]
        names = sorted(str(path.relative_to(root)) for path in root.rglob("*"))
        assert names == [".env", "inside", "sub", "sub/.git", "sub/.git/config"]
        assert (root / "sub" / ".git" / "config").read_text() == "good"
        assert (root / "sub" / ".git" / "config").stat().st_mode & 0o777 != 0o777
    finally:
        shutil.rmtree(root, ignore_errors=True)
