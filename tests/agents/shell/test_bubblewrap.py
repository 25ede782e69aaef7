# ruff: noqa: ASYNC240 - the disk is the subject of these tests
"""The sandbox with a real bubblewrap, and without it: both keep the same promises."""

import asyncio
import socket
from pathlib import Path

import pytest

from deputy_agents.domain.permission_mode import PermissionMode
from deputy_agents.domain.settings import Settings, ShellSettings
from deputy_agents.model.scripted import calls, say, use
from deputy_agents.shell import sandbox
from deputy_agents.shell.sandbox import Mechanism
from tests.support.commands import marked, until
from tests.support.core import Cast, core
from tests.support.listening import listening

pytestmark = pytest.mark.asyncio

SANDBOXED = Settings(permission_mode=PermissionMode.BYPASS, shell=ShellSettings(sandbox=True))


@pytest.fixture(
    autouse=True,
    params=[
        pytest.param(Mechanism.BUBBLEWRAP, marks=pytest.mark.editors),
        pytest.param(Mechanism.NAMESPACES),
    ],
    ids=lambda one: one.name.lower(),
)
def _mechanism(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "mechanism", lambda: request.param)


async def result_of(command: str, workspace: Path) -> str:
    async with core(workspace, Cast([calls([use("shell", command=command)]), say("done")]), settings=SANDBOXED) as c:
        await c.turn()
        return c.told()[0]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return found.getsockname()[1]


async def test_command_cannot_change_settings_of_the_kernel(workspace: Path) -> None:
    """Root needs no capability for it, and the kernel would run a program that such a setting names."""
    output = await result_of(
        "x=$(cat /proc/sys/kernel/core_pattern); echo $x > /proc/sys/kernel/core_pattern", workspace
    )
    assert output.splitlines()[0].endswith(("Read-only file system", "Permission denied"))


async def test_command_can_write_only_in_the_workspace(workspace: Path) -> None:
    outside = workspace.parent / "outside.txt"
    outside.write_text("before")
    mode = outside.stat().st_mode
    output = await result_of(
        f"echo x > inside.txt; echo x > {outside}; chmod 777 {outside}; rm -rf {outside} /etc/hostname; "
        "echo x > ~/escaped.txt; mkdir /etc/new; mkfifo /var/escaped; echo scratch > /tmp/x && cat /tmp/x",
        workspace,
    )
    assert (workspace / "inside.txt").read_text() == "x\n"
    assert outside.read_text() == "before"
    assert outside.stat().st_mode == mode
    assert "Read-only file system" in output
    assert "scratch" in output
    assert Path("/etc/hostname").exists()
    assert not [path for path in ("/etc/new", "/var/escaped", Path.home() / "escaped.txt") if Path(path).exists()]


@pytest.mark.parametrize(
    "attempt",
    [
        "mount -o remount,rw /",
        "mount -o remount,bind,rw /etc",
        "umount -l {root}/.git; umount /tmp",
        "unshare -Urm sh -c 'mount -o remount,bind,rw /; umount -l {root}/.git; mount --bind / /mnt; touch /mnt{out}'",
        "unshare -m sh -c 'mount --bind / /mnt && touch /mnt{out}'",
        "mv .git other; cp -r other .git; echo evil > .git/config",
        "rm -rf .git; mkdir .git; echo evil > .git/config",
        "echo evil > .git/config; echo evil > .git/hooks/post-checkout; echo evil > .git/commondir",
        "ln -f inside .git/config; exec 3<>.git/config; echo evil >&3",
        "tee /proc/1/root{out} /proc/1/cwd/../outside /proc/self/root{out} /proc/sys/kernel/hostname < /etc/passwd",
        "mknod {root}/device b 254 0; chroot / touch {out}; echo evil > /dev/kmsg; echo evil > /dev/vda",
    ],
)
async def test_nothing_leads_out(attempt: str, workspace: Path) -> None:
    (workspace / ".git" / "hooks").mkdir(parents=True)
    (workspace / ".git" / "config").write_text("good")
    (workspace / "inside").touch()
    out = workspace.parent / "outside"
    hostname = socket.gethostname()
    output = await result_of(attempt.format(root=workspace, out=out) + "; grep Cap /proc/self/status", workspace)
    assert (workspace / ".git" / "config").read_text() == "good"
    assert [path.name for path in sorted((workspace / ".git").rglob("*"))] == ["config", "hooks"]
    assert not out.exists()
    assert not (workspace / "device").exists()
    assert socket.gethostname() == hostname
    assert {line.split()[1] for line in output.splitlines() if line.startswith("Cap")} == {"0" * 16}, output


async def test_command_has_no_network_except_its_own(workspace: Path) -> None:
    port = free_port()
    async with listening(str(port)) as reached:
        probe = (
            f"exec 3<>/dev/tcp/127.0.0.1/{port} && echo through; timeout 5 bash -c '</dev/tcp/192.0.2.1/80' && echo out"
        )
        output = await result_of(f"{probe}; cut -d: -f1 /proc/net/dev", workspace)
        assert "through" not in output
        assert not reached.is_set()
        assert [line.strip() for line in output.splitlines() if line.startswith(" ")][2:] in ([], ["lo"])
        _, writer = await asyncio.open_connection("127.0.0.1", port)  # reachable from outside the sandbox
        await reached.wait()
        writer.close()
        await writer.wait_closed()


async def test_sockets_of_other_programs_cannot_be_reached(
    workspace: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """One in the temporary folder, and one in a folder that the command can read."""
    places = [Path("/tmp/deputy-test.sock"), Path.home() / "deputy-test.sock", Path("/run/deputy-test.sock")]
    code = "import socket,sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1]); print('through')"
    try:
        for place in places:
            async with listening(place) as reached:
                output = await result_of(f"python3 -c {code!r} {place}".replace("'", '"', 2), workspace)
                assert "through" not in output
                assert not reached.is_set()
    finally:
        for place in places:
            place.unlink(missing_ok=True)


async def test_secrets_of_the_home_folder_are_not_there(
    workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Path("/var/lib/deputy-test-home")
    (home / ".ssh").mkdir(parents=True, exist_ok=True)
    monkeypatch.setenv("HOME", str(home))
    try:
        (home / ".ssh" / "id_ed25519").write_text("the key")
        (home / ".netrc").write_text("the password")
        (home / "plain.txt").write_text("readable")
        output = await result_of("cat ~/.ssh/* ~/.netrc; ls -a ~/.ssh; cat ~/plain.txt; echo x >> ~/.netrc", workspace)
    finally:
        for path in (home / ".ssh" / "id_ed25519", home / ".netrc", home / "plain.txt"):
            path.unlink(missing_ok=True)
        (home / ".ssh").rmdir()
        home.rmdir()
    assert "the key" not in output
    assert "the password" not in output
    assert "readable" in output


async def test_ordinary_work_goes_on(workspace: Path) -> None:
    output = await result_of(
        "mkdir a b; echo x > a/f; mv a/f b/f; ln b/f a/f; echo to stderr > /dev/stderr; "
        "head -c 4 /dev/urandom | wc -c; "
        "python3 -c 'import multiprocessing, pty; multiprocessing.Queue(); pty.openpty(); print(1)'; "
        "sleep 30 & kill $!; cat <(echo substituted); pwd; exit 3",
        workspace,
    )
    assert "to stderr" in output
    assert "4\n1\nsubstituted\n" in output
    assert str(workspace) in output
    assert output.endswith("[exit code 3]")


async def test_processes_left_behind_end_with_the_command(workspace: Path) -> None:
    output = await result_of("(setsid sleep 600 &); (sleep 600 &); echo started", workspace)
    assert "started" in output
    await until(lambda: not marked(workspace))
