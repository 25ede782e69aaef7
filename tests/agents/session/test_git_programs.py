"""Programs that a repository names for Git to run: unasked, none of them runs; approved, Git works as usual."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import TypeAlias

import anyio.to_thread
import pytest

from deputy_agents.domain.permission_mode import PermissionMode
from deputy_agents.domain.rule import DecisionKind, Rule
from deputy_agents.domain.settings import PermissionSettings, Settings
from deputy_agents.model.scripted import calls, say, use
from tests.support.core import ALLOW, DENY, Cast, Person, core

pytestmark = pytest.mark.asyncio

PATTERNS = ("git *", "git commit *", "git -C evil *", "cd evil && git *", "cd sub && git *", "git stash *")
RULES = tuple(Rule(pattern, "shell", DecisionKind.ALLOW, pattern) for pattern in PATTERNS)
BY_RULES = Settings(permissions=PermissionSettings(RULES))
BYPASS = Settings(permission_mode=PermissionMode.BYPASS)


@dataclass
class Trap:
    """A repository, and a program that leaves a file when it runs."""

    repository: Path
    program: Path
    server: str

    def named(self, text: str) -> str:
        return text.format(program=self.program, server=self.server)

    @property
    def sprung(self) -> bool:
        return self.program.with_suffix(".ran").exists()

    def reset(self) -> None:
        self.program.with_suffix(".ran").unlink(missing_ok=True)

    def git(self, *words: str, folder: Path | None = None, check: bool = True) -> str:
        settings = {"GIT_CONFIG_NOSYSTEM": "1", "HOME": str(self.program.parent), "PATH": os.environ["PATH"]}
        person = {
            "GIT_AUTHOR_NAME": "n",
            "GIT_AUTHOR_EMAIL": "e",
            "GIT_COMMITTER_NAME": "n",
            "GIT_COMMITTER_EMAIL": "e",
        }
        ran = subprocess.run(
            ["git", *words],
            cwd=folder or self.repository,
            env=settings | person,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=check,
            timeout=50,
        )
        return ran.stdout.decode()

    def shell(self, line: str, folder: Path) -> None:
        environment = {"HOME": str(self.program.parent), "PATH": os.environ["PATH"], "GIT_TERMINAL_PROMPT": "0"}
        subprocess.run(["bash", "-c", line], cwd=folder, env=environment, capture_output=True, check=False, timeout=50)

    def config(self, key: str, value: str, folder: Path | None = None) -> None:
        self.git("config", key, value, folder=folder)

    def attributes(self, line: str) -> None:
        (self.repository / ".gitattributes").write_text(f"{line}\n")

    def hook(self, name: str, folder: str = ".git/hooks") -> None:
        file = self.repository / folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(self.program, file)

    def bare(self, name: str = "evil", program: str | None = None) -> Path:
        folder = self.repository / name
        self.git("init", "--quiet", "--bare", name)
        self.config("core.bare", "false", folder)
        self.config("core.worktree", str(self.repository), folder)
        self.config("core.fsmonitor", program or str(self.program), folder)
        return folder

    def submodule(self) -> Path:
        folder = self.repository / "sub"
        self.git("init", "--quiet", "sub")
        (folder / "f").write_text("x\n")
        self.git("add", "f", folder=folder)
        self.git("commit", "-qm", "sub", folder=folder)
        self.git("add", "sub")
        self.git("commit", "-qm", "with sub")
        return folder

    def signed(self) -> None:
        tree = self.git("write-tree").strip()
        signature = "gpgsig -----BEGIN PGP SIGNATURE-----\n x\n -----END PGP SIGNATURE-----"
        text = f"tree {tree}\nauthor n <e> 1 +0000\ncommitter n <e> 1 +0000\n{signature}\n\nm\n"
        file = self.program.with_suffix(".commit")
        file.write_text(text)
        commit = self.git("hash-object", "-t", "commit", "-w", str(file)).strip()
        self.git("update-ref", "refs/heads/main", commit)


@pytest.fixture
def server() -> Iterator[str]:
    """A server that demands a password."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(401)
            self.send_header("WWW-Authenticate", "Basic")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            del format, args

    http = HTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=http.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{http.server_port}/x"
    http.shutdown()
    http.server_close()


@pytest.fixture
def trap(workspace: Path, tmp_path: Path, server: str) -> Trap:
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch '{program}.ran'\n")
    program.chmod(0o755)
    trap = Trap(workspace, program, server)
    trap.git("init", "--quiet", "--initial-branch=main")
    for name, value in (("user.name", "n"), ("user.email", "e")):
        trap.config(name, value)
    (workspace / "a.txt").write_text("one\n")
    trap.git("add", "a.txt")
    trap.git("commit", "-qm", "first")
    (workspace / "a.txt").write_text("two\n")
    return trap


Plant: TypeAlias = Callable[[Trap], object]


def remote(url: str) -> Plant:
    return lambda trap: trap.config("remote.origin.url", trap.named(url))


def both(*steps: Plant) -> Plant:
    def run(trap: Trap) -> None:
        for step in steps:
            step(trap)

    return run


def setting(key: str, value: str = "{program}") -> Plant:
    return lambda trap: trap.config(trap.named(key), trap.named(value))


def dirty_submodule(key: str) -> Plant:
    def run(trap: Trap) -> None:
        folder = trap.submodule()
        if key == "filter":
            (folder / ".gitattributes").write_text("f filter=e\n")
            trap.config("filter.e.clean", str(trap.program), folder)
        else:
            trap.config(key, str(trap.program), folder)
        (folder / "f").write_text("y\n")
        trap.reset()

    return run


QUIET: Mapping[str, tuple[Plant, str]] = {
    "fsmonitor": (setting("core.fsmonitor"), "git status"),
    "fsmonitor of a bare repository": (Trap.bare, "cd evil && git status"),
    "fsmonitor of a bare repository, -C": (Trap.bare, "git -C evil status"),
    "fsmonitor of a bare repository, cwd": (Trap.bare, "[evil] git status"),
    "fsmonitor of a submodule": (dirty_submodule("core.fsmonitor"), "git status"),
    "fsmonitor of a submodule, add": (dirty_submodule("core.fsmonitor"), "git add -A"),
    "fsmonitor in a file that is included": (
        lambda trap: (
            (trap.repository / "more").write_text(f"[core]\n\tfsmonitor = {trap.program}\n"),
            trap.config("include.path", "../more"),
        ),
        "git diff",
    ),
    "fsmonitor of a worktree": (
        both(
            setting("extensions.worktreeConfig", "true"),
            lambda trap: trap.git("config", "--worktree", "core.fsmonitor", str(trap.program)),
        ),
        "git status",
    ),
    "ssh": (both(remote("ssh://x.invalid/y"), setting("core.sshCommand")), "git fetch"),
    "proxy": (both(remote("git://x.invalid/y"), setting("core.gitProxy")), "git fetch origin"),
    "ext": (
        both(remote("ext::{program}"), setting("protocol.ext.allow", "always")),
        "git fetch",
    ),
    "ext by rewritten address": (
        both(
            remote("https://x.invalid/"),
            setting("url.ext::{program} .insteadOf", "https://x.invalid/"),
            setting("protocol.allow", "always"),
        ),
        "git fetch",
    ),
    "credentials": (both(remote("{server}"), setting("credential.helper", "!{program}")), "git fetch"),
    "credentials of an address": (
        both(remote("{server}"), setting("credential.{server}.helper", "!{program}")),
        "git fetch",
    ),
    "askpass": (both(remote("{server}"), setting("core.askPass")), "git fetch"),
    "hook of references": (lambda trap: trap.hook("reference-transaction"), "git commit --allow-empty -am second"),
    "hook of a commit": (lambda trap: trap.hook("pre-commit"), "git commit --allow-empty -am second"),
    "hook in another folder": (
        both(lambda trap: trap.hook("pre-commit", "hooks"), setting("core.hooksPath", "hooks")),
        "git commit --allow-empty -am second",
    ),
    "signature": (both(Trap.signed, setting("gpg.program"), setting("log.showSignature", "true")), "git log -1"),
    "signature by format": (both(Trap.signed, setting("gpg.program")), "git log '--format=%G?' -1"),
    "signature, other setting": (both(Trap.signed, setting("gpg.openpgp.program")), "git log '--format=%G?' -1"),
}
"""Programs that are switched off when nobody is asked."""

ASKED: Mapping[str, tuple[Plant, str]] = {
    "external diff": (setting("diff.external"), "git diff"),
    "driver": (both(lambda trap: trap.attributes("*.txt diff=e"), setting("diff.e.command")), "git diff"),
    "driver with dots": (
        both(lambda trap: trap.attributes("*.txt diff=e.f"), setting("diff.e.f.command")),
        "git diff",
    ),
    "textconv": (both(lambda trap: trap.attributes("*.txt diff=e"), setting("diff.e.textconv")), "git diff"),
    "textconv of a log": (both(lambda trap: trap.attributes("*.txt diff=e"), setting("diff.e.textconv")), "git log -p"),
    "textconv of a show": (both(lambda trap: trap.attributes("*.txt diff=e"), setting("diff.e.textconv")), "git show"),
    "textconv of a blame": (
        both(lambda trap: trap.attributes("*.txt diff=e"), setting("diff.e.textconv")),
        "git blame a.txt",
    ),
    "filter": (both(lambda trap: trap.attributes("*.txt filter=e"), setting("filter.e.clean")), "git add a.txt"),
    "filter process": (
        both(lambda trap: trap.attributes("*.txt filter=e"), setting("filter.e.process")),
        "git add a.txt",
    ),
    "smudge filter": (
        both(lambda trap: trap.attributes("*.txt filter=e"), setting("filter.e.smudge")),
        "git stash push",
    ),
    "filter in a file that is included": (
        lambda trap: (
            trap.attributes("*.txt filter=e"),
            (trap.repository / "more").write_text(f'[filter "e"]\n\tclean = {trap.program}\n'),
            trap.config("include.path", "../more"),
        ),
        "git add a.txt",
    ),
    "filter of a submodule": (dirty_submodule("filter"), "git add -A"),
    "upload pack": (
        both(
            lambda trap: trap.git("init", "-q", "--bare", "other"),
            remote("./other"),
            setting("remote.origin.uploadpack"),
        ),
        "git fetch",
    ),
    "alias": (setting("alias.look", "!{program}"), "git look"),
}
"""Programs that cannot be switched off: the command asks, and shows them."""


def words_of(command: str) -> dict[str, object]:
    folder, bracket, rest = command.partition("] ")
    return {"command": rest, "cwd": folder[1:]} if bracket else {"command": command}


async def plain(trap: Trap, command: str) -> None:
    """Run ``command`` as the user would."""
    words = words_of(command)
    folder = trap.repository / str(words.get("cwd", "."))
    line = str(words["command"])
    await anyio.to_thread.run_sync(lambda: trap.shell(line, folder))


async def told(trap: Trap, command: str, settings: Settings, person: Person) -> str:
    words = words_of(command)
    async with core(
        trap.repository, Cast([calls([use("shell", **words)]), say("done")]), person, settings=settings
    ) as c:
        await c.turn()
        return c.told()[0]


@pytest.mark.parametrize(
    ("name", "settings"),
    [*((name, BY_RULES) for name in QUIET), *((name, BYPASS) for name in ("fsmonitor", "hook of a commit", "ssh"))],
)
async def test_program_of_a_repository_does_not_run_unasked(trap: Trap, name: str, settings: Settings) -> None:
    plant, command = QUIET[name]
    plant(trap)
    trap.reset()
    person = Person(DENY)
    answer = await told(trap, command, settings, person)
    assert (trap.sprung, person.titles) == (False, []), answer
    await plain(trap, command)
    assert trap.sprung, "the trap works"


@pytest.mark.parametrize("name", ASKED)
async def test_program_that_cannot_be_switched_off_is_asked_about(trap: Trap, name: str) -> None:
    plant, command = ASKED[name]
    plant(trap)
    trap.reset()
    person = Person(DENY)
    await told(trap, command, BY_RULES, person)
    assert not trap.sprung
    [request] = person.asked
    assert str(trap.program) in request.options[1].name
    await plain(trap, command)
    assert trap.sprung, "the trap works"


@pytest.mark.parametrize(
    ("key", "command"),
    [
        ("hook.evil.command", "git status"),
        ("hook.evil.x.command", "git fetch"),
        ("gc.recentObjectsHook", "git fetch"),
        ("alias.look.command", "git look"),
        ("alias.Look.command", "git Look"),
    ],
)
async def test_program_that_newer_versions_of_git_run_is_asked_about(trap: Trap, key: str, command: str) -> None:
    trap.config(key, str(trap.program))
    person = Person(DENY)
    await told(trap, command, BY_RULES, person)
    [request] = person.asked
    assert str(trap.program) in request.options[1].name


async def test_hooks_in_the_configuration_of_the_user_are_off(trap: Trap) -> None:
    file = Path(os.environ["HOME"]) / ".gitconfig"
    trap.git("config", "--file", str(file), "hook.mine.command", str(trap.program))
    person = Person(DENY)
    answer = await told(trap, "git config --get hook.mine.enabled", BYPASS, person)
    assert (answer.strip(), person.titles) == ("false", [])


async def test_approved_git_runs_hooks_of_the_user(trap: Trap) -> None:
    trap.hook("pre-commit")
    person = Person(ALLOW)
    await told(trap, "git commit --allow-empty -am second", Settings(), person)
    assert trap.sprung
    assert len(person.asked) == 1


async def test_programs_that_the_user_has_set_are_not_asked_about(trap: Trap) -> None:
    trap.attributes("*.txt filter=e")
    home = Path(os.environ["HOME"])
    (home / ".gitconfig").write_text(f'[filter "e"]\n\tclean = {trap.program}\n')
    trap.config("filter.e.clean", str(trap.program))
    person = Person(DENY)
    await told(trap, "git add a.txt", BY_RULES, person)
    assert (trap.sprung, person.titles) == (True, [])


@pytest.mark.parametrize(
    ("url", "key", "value"),
    [("ssh://x.invalid/y", "core.sshCommand", "{program}"), ("{server}", "credential.helper", "!{program}")],
)
async def test_programs_that_the_user_has_set_run_unasked(trap: Trap, url: str, key: str, value: str) -> None:
    remote(url)(trap)
    trap.config(key, "false")
    trap.git("config", "--file", str(Path(os.environ["HOME"]) / ".gitconfig"), key, trap.named(value))
    person = Person(DENY)
    await told(trap, "git fetch", BY_RULES, person)
    assert (trap.sprung, person.titles) == (True, [])


@pytest.mark.parametrize(
    "command",
    [
        "env -i git status",
        "env - git status",
        "env -u GIT_CONFIG_COUNT git status",
        "exec -c git status",
        "sudo git status",
        "GIT_CONFIG_COUNT=0 git status",
        "unset GIT_CONFIG_COUNT; git status",
        "export -n GIT_CONFIG_COUNT; git status",
        "declare +x GIT_CONFIG_COUNT; git status",
        "env GIT_CONFIG_COUNT=0 git status",
    ],
)
async def test_git_without_these_settings_is_asked_about(trap: Trap, command: str) -> None:
    trap.config("core.fsmonitor", str(trap.program))
    patterns = ("git *", "env *", "exec *", "sudo *", "unset *", "export *", "declare *")
    rules = tuple(Rule(pattern, "shell", DecisionKind.ALLOW, pattern) for pattern in patterns)
    person = Person(DENY)
    await told(trap, command, Settings(permissions=PermissionSettings(rules)), person)
    assert (trap.sprung, len(person.asked)) == (False, 1)


async def test_a_line_without_git_has_no_settings_for_it(trap: Trap) -> None:
    answer = await told(trap, "env | grep -c GIT_CONFIG", BYPASS, Person(DENY))
    assert answer.startswith("0")
