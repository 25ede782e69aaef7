# ruff: noqa: ASYNC240 - the disk is the subject of these tests
"""Attacks on the sandbox by commands that nobody approves, with a real bubblewrap and without it."""

import os
import shutil
import textwrap
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from anyio import to_thread

from deputy_agents.files.sensitive import (
    PROTECTED_ENDINGS,
    PROTECTED_FOLDERS,
    PROTECTED_NAMES,
    PROTECTED_PATHS,
    protected_part,
)
from deputy_agents.shell import sandbox
from deputy_agents.shell.confinement import Confinement
from deputy_agents.shell.process import Launch, guarded_command
from deputy_agents.shell.sandbox import Mechanism
from deputy_agents.shell.trust import broken_promises
from tests.support.commands import marked, until
from tests.support.listening import listening

pytestmark = [pytest.mark.asyncio, pytest.mark.requirement("Q3")]

SECRET = "hunter22-of-the-sandbox"


@pytest.fixture(
    autouse=True,
    params=[
        pytest.param(Mechanism.BUBBLEWRAP, marks=pytest.mark.editors),
        pytest.param(Mechanism.NAMESPACES),
    ],
    ids=lambda one: one.name.lower(),
)
def _mechanism(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sandbox, "mechanism", lambda: request.param)
    sandbox.broker_problem.cache_clear()
    yield
    sandbox.broker_problem.cache_clear()


@pytest.fixture
def root(workspace: Path) -> Path:
    return fill(workspace)


@pytest.fixture
def far_root() -> Iterator[Path]:
    """A workspace outside the temporary folder, in which commands can write by themselves then."""
    folder = Path("/var/lib/deputy-test-root")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    yield fill(folder)
    shutil.rmtree(folder)


def fill(workspace: Path) -> Path:
    """A repository in a repository, with secrets and protected files on every level."""
    for name in (".git/hooks", "sub/.git/hooks", "sub/.vscode", "deep/er/.github/workflows", "conf/.aws", "plain"):
        (workspace / name).mkdir(parents=True)
    for name in (
        ".git/config",
        "sub/.git/config",
        "sub/.vscode/tasks.json",
        "sub/AGENTS.md",
        "sub/.git/hooks/x.sample",
    ):
        (workspace / name).write_text("good")
    (workspace / "deep/er/.github/workflows/ci.yml").write_text("good")
    for name in (".env", "conf/.env.local", "conf/server.key", "conf/.aws/credentials", "conf/real-settings"):
        (workspace / name).write_text(SECRET)
    (workspace / "conf" / "credentials.json").symlink_to("real-settings")
    (workspace / "conf" / "agent-rules.md").write_text("good")
    (workspace / "CLAUDE.md").symlink_to("conf/agent-rules.md")
    return workspace


def protected_files(root: Path) -> dict[str, str]:
    """Everything protected in ``root``, with what it is and holds."""
    found: dict[str, str] = {}
    for folder, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = Path(folder, name)
            relative = path.relative_to(root)
            if protected_part(relative) or protected_part(relative / "any"):
                kind = "link" if path.is_symlink() else "folder" if path.is_dir() else path.read_text(errors="replace")
                found[str(relative)] = f"{path.lstat().st_mode:o} {kind}"
    return found


async def output_of(text: str, root: Path, **how: object) -> str:
    confinement = Confinement((root,), private=True, **how)  # pyright: ignore[reportArgumentType]
    async with guarded_command(Launch(text, str(root), str(root), confinement=confinement)) as command:
        with anyio.fail_after(60):
            output = b"".join([chunk async for chunk in command.output])
            await command.wait()
    return output.decode(errors="replace")


async def run_python(code: str, root: Path) -> str:
    """The output of a program that is the attack."""
    (root / "attack.py").write_text(textwrap.dedent(code))
    output = await output_of("python3 -I attack.py", root)
    assert output.rstrip().endswith("tried"), output
    return output


async def test_what_is_promised_holds() -> None:
    assert await to_thread.run_sync(broken_promises) == []


async def test_no_protected_name_can_be_created_in_any_way(root: Path) -> None:
    before = protected_files(root)
    paths = [*PROTECTED_NAMES, *(f"{folder}/any" for folder in PROTECTED_FOLDERS)]
    paths += [f"any{ending}" for ending in PROTECTED_ENDINGS]
    paths += [f"{folder}/{name}" for folder, name in PROTECTED_PATHS]
    paths += [".GIT/hooks/pre-commit", ".Git/any", "AGENTS.MD", "agents.md.", ".env\u200brc", ".v\uff53code/tasks.json"]
    await run_python(
        f"""
        import os, shutil
        paths, tried, root = {sorted(paths)!r}, 0, os.getcwd()
        def tries(*calls):
            global tried
            for call in calls:
                tried += 1
                try:
                    call()
                except OSError:
                    pass
        for place in ("", "plain/", "new/er/"):
            os.makedirs(place or ".", exist_ok=True)
            for path in paths:
                path = place + path
                head, name = os.path.split(path)
                tries(
                    lambda: head and os.makedirs(head),
                    lambda: open(path, "x").write("evil"),
                    lambda: open(path, "a").write("evil"),
                    lambda: os.mkdir(path),
                    lambda: os.mknod(path),
                    lambda: os.symlink("/etc/passwd", path),
                )
                # The whole tree somewhere else, to be moved as one.
                top = path[len(place):].split("/")
                shutil.rmtree("t", ignore_errors=True)
                os.makedirs("t/r")
                below = "/".join(["t/r", *top[1:]]) if top[1:] else "t/file"
                os.makedirs(os.path.dirname(below), exist_ok=True)
                with open(below, "w") as file:
                    file.write("evil")
                source = "t/r" if top[1:] else "t/file"
                tries(
                    lambda: os.rename(source, place + top[0]),
                    lambda: os.link(below, path),
                    lambda: os.replace(below, path),
                )
        print(tried, "tried")
        """,
        root,
    )
    assert protected_files(root) == before


CHANGES = {
    "through the folder": "echo evil > {file}; echo evil >> {file}; truncate -s 0 {file}; cp /etc/passwd {file}",
    "remove": "rm -rf {file} {folder}; unlink {file}; find {folder} -delete",
    "move": "mv {file} plain/x; mv {folder} plain/y; mv {top} other; cd {folder} && mv ../{name} ../z",
    "links": "ln {file} plain/a && echo evil > plain/a; ln -s ../{file} plain/b; echo evil > plain/b",
    "folder links": "ln -s ../{folder} plain/c; echo evil > plain/c/$(basename {file}); echo evil > plain/c/new",
    "by open folders": "cd {folder}; echo evil > ./new; echo x > /proc/self/cwd/new; exec 3<. ; echo > /dev/fd/3/new",
    "by the root": "echo evil > /proc/self/root$PWD/{file}; echo evil > /proc/1/root$PWD/{file}",
    "mode": "chmod 777 {file} {folder}; chmod -R a+x {folder}",
    "exchange": "echo evil > plain/e; mv --exchange plain/e {file}; mv -T plain {folder}; cp -lf plain/e {file}",
    "mounts": "unshare -Urm sh -c 'umount -l {folder}; mount -t tmpfs x {folder}; mount --bind plain {folder}'",
    "in place": "sed -i s/good/evil/ {file}; perl -pi -e s/good/evil/ {file}; dd if=/etc/passwd of={file}",
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
async def test_no_protected_file_can_be_changed_in_any_way(change: str, root: Path) -> None:
    before = protected_files(root)
    places = [
        (".git/config", ".git"),
        ("sub/.git/hooks/x.sample", "sub/.git/hooks"),
        ("sub/.vscode/tasks.json", "sub/.vscode"),
        ("deep/er/.github/workflows/ci.yml", "deep/er/.github/workflows"),
        ("sub/AGENTS.md", "sub/.git"),
    ]
    attacks = [
        change.format(file=file, folder=folder, top=file.split("/")[0], name=Path(folder).name)
        for file, folder in places
    ]
    output = await output_of("; ".join(f"({attack})" for attack in attacks) + "; echo tried", root)
    assert output.endswith("tried\n")
    assert protected_files(root) == before


async def test_what_a_protected_link_leads_to_is_protected_too(root: Path) -> None:
    """``CLAUDE.md`` is a link to a file with another name, which agents obey."""
    await output_of("echo evil > conf/agent-rules.md; echo evil > CLAUDE.md; rm conf/agent-rules.md; mv conf c", root)
    assert (root / "conf" / "agent-rules.md").read_text() == "good"


async def test_git_cannot_be_made_to_run_programs(root: Path) -> None:
    before = protected_files(root)
    await output_of(
        "git init nested; git init --separate-git-dir=store nested2; git worktree add ../w; git worktree add wt; "
        "git config core.fsmonitor evil; echo 'gitdir: /tmp/evil' > plain/.git; ln -s /tmp/evil plain/.git; "
        "git clone . copy; mkdir -p bare/hooks; mv bare nested/.git",
        root,
    )
    assert protected_files(root) == before


async def test_a_path_that_changes_while_it_is_used_has_no_effect(root: Path) -> None:
    """Another process writes the path to shared memory over and over, while this one makes system calls with it."""
    before = protected_files(root)
    await run_python(
        """
        import ctypes, mmap, os, signal
        libc = ctypes.CDLL(None, use_errno=True)
        shared = mmap.mmap(-1, 4096)
        address = ctypes.addressof(ctypes.c_char.from_buffer(shared))
        harmless, evil = b"plain/aa\\0", b"plain/.envrc\\0"
        other = os.fork()
        if other == 0:
            while True:
                shared[0:len(harmless)] = harmless
                shared[0:len(evil)] = evil
        for number in range(1500):
            shared[0:len(harmless)] = harmless
            fd = libc.open(ctypes.c_void_p(address), os.O_CREAT | os.O_WRONLY, 0o600)
            if fd >= 0:
                os.close(fd)
            libc.mkdir(ctypes.c_void_p(address), 0o700)
            libc.rename(b"attack.py", ctypes.c_void_p(address))
            libc.rename(ctypes.c_void_p(address), b"attack.py")
        os.kill(other, signal.SIGKILL)
        print("tried")
        """,
        root,
    )
    after = protected_files(root)
    assert after == before


async def test_a_folder_that_is_exchanged_meanwhile_has_no_effect(far_root: Path) -> None:
    root = far_root
    before = protected_files(root)
    await run_python(
        """
        import os, signal
        os.makedirs("/tmp/x", exist_ok=True)
        os.makedirs("plain/hooks", exist_ok=True)
        other = os.fork()
        if other == 0:
            number = 0
            while True:
                target = ("plain/hooks", "sub/.git/hooks")[number % 2]
                os.symlink(os.path.abspath(target), f"/tmp/x/new{number}")
                os.rename(f"/tmp/x/new{number}", "/tmp/x/link")
                number += 1
        for number in range(600):
            for call in (lambda: open(f"/tmp/x/link/f{number}", "w"), lambda: os.chmod("/tmp/x/link/x.sample", 0o755)):
                try:
                    call()
                except OSError:
                    pass
        os.kill(other, signal.SIGKILL)
        print("tried")
        """,
        root,
    )
    assert protected_files(root) == before


async def test_the_broker_cannot_be_turned_against_its_owner(root: Path) -> None:
    """Without it, the command can change nothing; its memory and its files are out of reach."""
    before = protected_files(root)
    await output_of(
        "p=$PPID; ls -l /proc/$p/fd /proc/$p/cwd; cat /proc/$p/environ /proc/$p/mem; echo x > /proc/$p/mem; "
        "kill -STOP $p; kill -CONT $p; python3 -c 'import ctypes,sys; "
        "print(ctypes.CDLL(None).ptrace(16, int(sys.argv[1]), 0, 0))' $p; kill -9 $p; touch AGENTS.md alive",
        root,
    )
    assert protected_files(root) == before
    assert not (root / "alive").exists()


async def test_system_calls_that_are_not_looked_at_do_not_exist(root: Path) -> None:
    before = protected_files(root)
    output = await run_python(
        """
        import ctypes, errno, os, platform
        libc = ctypes.CDLL(None, use_errno=True)
        how = (ctypes.c_uint64 * 3)(os.O_CREAT | os.O_WRONLY, 0o600, 0)
        def name(result):
            return errno.errorcode.get(ctypes.get_errno(), "?") if result < 0 else "done"
        print("openat2", name(libc.syscall(437, -100, b"AGENTS.md", ctypes.byref(how), 24)))
        print("io_uring", name(libc.syscall(425, 8, (ctypes.c_char * 120)())))
        print("keyrings", name(libc.syscall(250 if platform.machine() == "x86_64" else 219, 0, -3, 1)))
        if platform.machine() == "x86_64":
            print("x32", name(libc.syscall(0x40000000 + 83, b".husky", 0o700)))
        try:
            os.open("plain", os.O_TMPFILE | os.O_WRONLY)
        except OSError as error:
            print("unnamed", errno.errorcode[error.errno])
        print("tried")
        """,
        root,
    )
    assert protected_files(root) == before
    lines = dict(line.split(" ", 1) for line in output.splitlines() if " " in line)
    assert set(lines.values()) <= {"ENOSYS", "EOPNOTSUPP", "EACCES"}, output


SECRET_READERS = (
    "cat .env conf/.env.local conf/server.key conf/.aws/* conf/credentials.json conf/real-settings",
    "cat /proc/self/cwd/.env /proc/self/root$PWD/.env /proc/1/root$PWD/.env /proc/1/cwd/.env /proc/$PPID/cwd/.env",
    "ln .env plain/a; ln conf/server.key plain/b; cp .env plain/c; ln -s ../.env plain/d; cat plain/*; tar c . | cat",
    "mv .env plain/e; mv conf c2; cat plain/e c2/.env.local c2/server.key c2/.aws/credentials; mv c2 conf",
    "rm -f .env; umount .env; umount -l conf/.aws; cat .env conf/.aws/credentials",
    "unshare -Urm sh -c 'umount -l .env; mount --bind . /mnt; cat .env /mnt/.env /mnt/conf/server.key'",
    "cat ../*/.env; grep -r hunter .; find / -xdev -name .env -exec cat {} + ; exec 3<.env; cat <&3",
)


async def test_secrets_cannot_be_read_in_any_way(root: Path) -> None:
    output = await output_of("; ".join(f"({reader})" for reader in SECRET_READERS) + "; echo tried", root)
    assert SECRET not in output
    assert output.endswith("tried\n")
    assert (root / ".env").read_text() == SECRET
    assert (root / "conf" / "server.key").read_text() == SECRET


async def test_certificates_can_be_read_and_keys_cannot(root: Path) -> None:
    (root / "bundle.pem").write_text("-----BEGIN CERTIFICATE-----\nabc\n")
    (root / "both.pem").write_text(f"-----BEGIN CERTIFICATE-----\n-----BEGIN PRIVATE KEY-----\n{SECRET}\n")
    output = await output_of("cat bundle.pem both.pem", root)
    assert "BEGIN CERTIFICATE" in output
    assert SECRET not in output


@asynccontextmanager
async def _home(name: str) -> AsyncGenerator[Path]:
    home = Path("/var/lib") / name
    (home / ".ssh").mkdir(parents=True)
    (home / "other").mkdir()
    try:
        yield home
    finally:
        for folder, _, files in os.walk(home, topdown=False):
            for file in files:
                Path(folder, file).unlink()
            Path(folder).rmdir()


async def test_private_files_of_people_are_out_of_reach(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with _home("deputy-test-person") as home:
        monkeypatch.setenv("HOME", str(home))
        for name in ("diary.txt", "other/notes", ".ssh/id_ed25519"):
            (home / name).write_text(SECRET)
        (home / ".toolrc").write_text("settings of a tool")
        output = await output_of(
            "cat ~/diary.txt ~/other/* ~/.ssh/*; find ~ -type f -exec cat {} +; "
            "touch ~/new ~/.bashrc; echo evil >> ~/.toolrc; mkdir ~/.config; echo tried",
            root,
        )
        assert SECRET not in output
        assert "settings of a tool" in output
        assert output.endswith("tried\n")
        assert (home / ".toolrc").read_text() == "settings of a tool"
        assert sorted(path.name for path in home.iterdir()) == [".ssh", ".toolrc", "diary.txt", "other"]


async def test_passwords_of_the_system_are_out_of_reach(root: Path) -> None:
    assert Path("/etc/shadow").read_text()
    output = await output_of("cat /etc/shadow /etc/gshadow; ls -l /etc/passwd", root)
    assert not [line for line in output.splitlines() if line.startswith("root:")]
    assert "/etc/passwd" in output


async def test_file_with_another_name_elsewhere_is_not_written(root: Path, tmp_path: Path) -> None:
    """Package managers link files of a store that is shared by all projects."""
    store = root.parent / "store"
    store.write_text("shared")
    (root / "linked").hardlink_to(store)
    output = await output_of(
        "echo evil >> linked; truncate -s 0 linked; chmod 777 linked; cp linked own; cat own", root
    )
    assert output.endswith("shared")
    assert store.read_text() == "shared"
    assert store.stat().st_mode & 0o777 != 0o777


async def test_nothing_leads_into_a_network(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = root.parent / "agent.sock"
    monkeypatch.setenv("SSH_AUTH_SOCK", str(agent))
    async with listening(agent) as of_agent, listening(Path("/tmp/deputy-docker.sock")) as docker:
        output = await run_python(
            f"""
            import os, socket
            def tries(name, call):
                try:
                    print(name, "through", call())
                except OSError as error:
                    print(name, "failed")
            def connect(family, kind, address, protocol=0):
                with socket.socket(family, kind, protocol) as one:
                    one.settimeout(3)
                    one.connect(address)
                    one.send(b"x")
            tries("raw", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP))
            tries("packet", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
            tries("vsock", lambda: socket.socket(40, socket.SOCK_STREAM))
            tries("tcp", lambda: connect(socket.AF_INET, socket.SOCK_STREAM, ("192.0.2.1", 80)))
            tries("udp", lambda: connect(socket.AF_INET, socket.SOCK_DGRAM, ("192.0.2.1", 53)))
            tries("tcp6", lambda: connect(socket.AF_INET6, socket.SOCK_STREAM, ("2001:db8::1", 80)))
            tries("agent", lambda: connect(socket.AF_UNIX, socket.SOCK_STREAM, {str(agent)!r}))
            tries("docker", lambda: connect(socket.AF_UNIX, socket.SOCK_STREAM, "/tmp/deputy-docker.sock"))
            tries("bus", lambda: connect(socket.AF_UNIX, socket.SOCK_STREAM, "/run/dbus/system_bus_socket"))
            tries("abstract", lambda: connect(socket.AF_UNIX, socket.SOCK_STREAM, "\\0/tmp/.X11-unix/X0"))
            tries("variable", lambda: os.environ["SSH_AUTH_SOCK"] if "SSH_AUTH_SOCK" in os.environ else open("/none"))
            print("tried")
            """,
            root,
        )
        assert "through" not in output
        assert not of_agent.is_set()
        assert not docker.is_set()


async def test_nothing_goes_on_after_the_end(root: Path) -> None:
    before = protected_files(root)
    late = "sleep 0.2; touch AGENTS.md late plain/.envrc"
    output = await output_of(f"(setsid sh -c '{late}' &) ; (trap '' TERM HUP; {late}) & disown; echo started", root)
    assert output.startswith("started\n")
    await until(lambda: not marked(root))
    assert protected_files(root) == before
    assert not (root / "late").exists()


async def test_what_was_refused_is_reported(root: Path) -> None:
    confinement = Confinement((root,), private=True)
    connect = "import socket; socket.create_connection(('192.0.2.1', 80))"
    text = f'touch AGENTS.md; echo > /etc/deputy; python3 -c "{connect}"'
    async with guarded_command(Launch(text, str(root), str(root), confinement=confinement)) as command:
        with anyio.fail_after(60):
            _ = [chunk async for chunk in command.output]
            await command.wait()
        assert command.refusals == (
            f"change {root}/AGENTS.md, which is protected",
            "change /etc/deputy, which is outside the workspace",
            "connect to 192.0.2.1:80",
        )


WORK = """
set -e
mkdir -p a/b; echo one > a/b/f; mv a/b a/c; cp -r a d; ln -s c a/l; cat a/l/f; rm -r d
printf x > t; chmod 750 t; stat -c %a t; truncate -s 3 t; stat -c %s t; (umask 077; touch u; stat -c %a u)
echo to stderr > /dev/stderr; cat <(echo substituted); f=$(mktemp); echo y > $f; cat $f; exec 3<>t; echo z >&3
python3 -c 'import tempfile; tempfile.NamedTemporaryFile(dir=".").write(b"x"); tempfile.TemporaryDirectory(dir=".")'
touch "$PWD/abs"; ls missing/x 2> /dev/null > n || echo done
"""


async def test_ordinary_work_goes_on(root: Path) -> None:
    assert await output_of(WORK, root) == "one\n750\n3\n600\nto stderr\nsubstituted\ny\ndone\n"
    assert (root / "abs").stat().st_mode & 0o777 == 0o644


async def test_ordinary_work_goes_on_outside_the_temporary_folder(far_root: Path) -> None:
    assert await output_of(WORK, far_root) == "one\n750\n3\n600\nto stderr\nsubstituted\ny\ndone\n"
