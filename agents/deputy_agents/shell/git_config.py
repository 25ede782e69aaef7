"""Git without the programs that a workspace names.

The configuration of a repository names programs that Git runs: a monitor of the file system, hooks, filters. Where an
agent's command runs without asking the user, Git gets settings that switch them off. For those that cannot be switched
off, a permission is needed, as if the command named them.
"""

import os
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from deputy_agents.domain.errors import ToolError
from deputy_agents.shell.environment import environment

_TIMEOUT: Final = 5.0
"""Seconds for a request to Git."""
_MAX_REPOSITORIES: Final = 20
"""Repositories and submodules that are looked at."""

NO_LOCKS: Final = {"GIT_OPTIONAL_LOCKS": "0"}
"""With this variable, Git does not write its index when it reads."""
_SETTINGS: Final = (
    ("safe.bareRepository", "explicit"),
    ("core.fsmonitor", "false"),
    ("core.hooksPath", os.devnull),
    ("core.pager", "cat"),
    ("core.askPass", ""),
    ("interactive.diffFilter", "cat"),
    ("diff.submodule", "short"),
    ("log.showSignature", "false"),
    ("status.submoduleSummary", "false"),
    ("submodule.recurse", "false"),
    ("fetch.recurseSubmodules", "no"),
    ("push.recurseSubmodules", "no"),
    ("protocol.ext.allow", "never"),
    ("protocol.file.allow", "never"),
    ("credential.helper", ""),
)
"""Settings for Git that nobody has approved. An empty helper removes all helpers before it."""
_PROGRAMS: Final = {
    "core.sshcommand": "ssh",
    "gpg.program": "gpg",
    "gpg.openpgp.program": "gpg",
    "gpg.x509.program": "gpgsm",
    "gpg.ssh.program": "ssh-keygen",
    "gpg.ssh.defaultkeycommand": "",
}
"""Settings that name a program, in lower case, with the value for users who have set no other one."""
_HOOK: Final = re.compile(r"hook\..*\.command", re.DOTALL)
"""A hook in the configuration, which Git 2.54 and newer run in addition to those in the folder of hooks."""
_VARIABLES: Final = {
    "GIT_PROXY_COMMAND": "",
    "GIT_ASKPASS": "",
    "SSH_ASKPASS": "",
    "GIT_SEQUENCE_EDITOR": "false",
    "GIT_NO_LAZY_FETCH": "1",
}
_NAMED: Final = tuple(
    (re.compile(pattern, re.DOTALL), frozenset(subcommands.split()))
    for pattern, subcommands in (
        (r"filter\..*\.(?:clean|smudge|process)", ""),
        (r"diff\..*\.(?:command|textconv)|diff\.external|merge\..*\.driver|core\.alternaterefscommand", ""),
        (r"hook\..*\.command|gc\.recentobjectshook", ""),
        (r"remote\..*\.(?:uploadpack|receivepack|vcs)", "fetch pull push clone ls-remote remote submodule archive"),
        (r"submodule\..*\.update", "submodule"),
        (r"trailer\..*\.(?:command|cmd)", "interpret-trailers commit am rebase cherry-pick"),
        (r"tar\..*\.command", "archive"),
        (r"(?:diff|merge)tool\..*\.(?:cmd|path)", "difftool mergetool"),
        (r"(?:browser|web|help|man|instaweb)\..*", "help web--browse instaweb"),
        (r"sendemail\..*|imap\..*", "send-email imap-send"),
    )
)
"""Settings with programs that cannot be switched off, and the subcommands that run them (none: any)."""
_WITHOUT_SUBMODULES: Final = frozenset(
    "log show blame fetch branch tag remote rev-parse rev-list ls-remote config cat-file reflog".split()  # noqa: SIM905
)
"""Subcommands that do not look into submodules."""
_SUBMODULE: Final = re.compile(rb"160000 [0-9a-f]+ \d\t([^\0]+)\0")


@dataclass(frozen=True, slots=True)
class GitCall:
    """A use of Git in ``folder``, with the ``options`` that choose the repository. ``subcommand`` is empty if it is not
    known."""

    folder: Path
    options: tuple[str, ...] = ()
    subcommand: str = ""


@dataclass(frozen=True, slots=True)
class GitPrograms:
    """``named`` are the programs that repositories name and that Git would run. ``variables`` switch off the others."""

    named: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class _Entry:
    scope: str
    key: str
    value: str

    @property
    def is_of_user(self) -> bool:
        return self.scope in ("system", "global")


def git_programs(calls: Sequence[GitCall], passed: Iterable[str] = ()) -> GitPrograms:
    """What Git would run in ``calls``. ``passed`` are names of variables that the user passes to commands. Blocks."""
    variables = environment(passed, "/", "")
    named: dict[str, None] = {}
    of_user: dict[tuple[str, str], None] = {}
    for call in calls:
        for entries in _of_repositories(call, variables):
            # A setting of the user is not one of the workspace, even if a repository repeats it.
            of_user |= dict.fromkeys((entry.key, entry.value) for entry in entries if entry.is_of_user)
            run = (entry for entry in entries if not entry.is_of_user and entry.value and _runs(entry.key, call))
            named |= dict.fromkeys(entry.value for entry in run if (entry.key, entry.value) not in of_user)
    return GitPrograms(tuple(named), _switched_off(of_user, variables))


def _runs(key: str, call: GitCall) -> bool:
    """Whether ``call`` runs the program that the setting ``key`` names."""
    command = call.subcommand
    if key.startswith("alias."):
        name = key.removeprefix("alias.").removesuffix(".command")
        return not command or command.lower() in (name.lower(), key.removeprefix("alias."))
    return any(
        pattern.fullmatch(key) and (not subcommands or not command or command in subcommands)
        for pattern, subcommands in _NAMED
    )


def _of_repositories(call: GitCall, variables: Mapping[str, str]) -> Iterator[Sequence[_Entry]]:
    """The settings of the repository, and of its submodules if ``call`` looks into them."""
    waiting = [(call.folder, call.options)]
    for folder, options in waiting:
        entries = _entries(folder, options, variables)
        yield entries
        if entries and call.subcommand not in _WITHOUT_SUBMODULES:
            waiting += [(path, ()) for path in _submodules(folder, options, variables)]
        if len(waiting) > _MAX_REPOSITORIES:
            yield [_Entry("local", "diff.external", f"{call.folder}: more than {_MAX_REPOSITORIES} submodules")]
            return


def _entries(folder: Path, options: Sequence[str], variables: Mapping[str, str]) -> Sequence[_Entry]:
    output = _git(folder, [*options, "config", "--list", "-z", "--show-scope"], variables)
    fields = output.decode(errors="surrogateescape").split("\0")
    found: list[_Entry] = []
    for scope, setting in zip(fields[::2], fields[1::2], strict=False):
        key, _, value = setting.partition("\n")
        found += [_Entry(scope, key, value)] if scope != "command" else []
    return found


def _submodules(folder: Path, options: Sequence[str], variables: Mapping[str, str]) -> Iterator[Path]:
    top = _git(folder, [*options, "rev-parse", "--show-toplevel"], variables).removesuffix(b"\n")
    if top:
        base = Path(os.fsdecode(top))
        listed = _git(base, [*options, "ls-files", "--stage", "-z"], variables)
        paths = (base / os.fsdecode(found[1]) for found in _SUBMODULE.finditer(listed))
        yield from (path for path in paths if os.path.lexists(path / ".git"))


def _git(folder: Path, words: Sequence[str], variables: Mapping[str, str]) -> bytes:
    """The output of git; empty if it fails."""
    return ask_git(folder, words, variables) or b""


def ask_git(folder: Path, words: Sequence[str], variables: Mapping[str, str]) -> bytes | None:
    """The output of git with ``words``, which must only read; ``None`` if it fails. ``variables`` are the environment
    of commands. Git runs no program that the repository names, except those that :func:`git_programs` finds. Blocks.

    Raises:
        ToolError: git does not answer.
    """
    try:
        ran = subprocess.run(
            ["git", *words],  # noqa: S607 - the git that the command would run
            cwd=folder,
            env={**variables, **_switched_off((), variables), **NO_LOCKS},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_TIMEOUT,
            check=False,
        )
    except OSError:
        return None
    except subprocess.TimeoutExpired:
        raise ToolError(f"git did not read its configuration within {_TIMEOUT:g} s. Try again.") from None
    return ran.stdout if ran.returncode == 0 else None


def _switched_off(of_user: Iterable[tuple[str, str]], variables: Mapping[str, str]) -> Mapping[str, str]:
    """The variables with which git runs no program that a repository names, except those that are found by name."""
    users = list(of_user)
    programs = {**_PROGRAMS, **{key: value for key, value in users if key in _PROGRAMS}}
    helpers = [(key, value) for key, value in users if re.fullmatch(r"credential(?:\..*)?\.helper", key, re.DOTALL)]
    hooks = [(f"{key.removesuffix('.command')}.enabled", "false") for key, _ in users if _HOOK.fullmatch(key)]
    settings = [*_SETTINGS, *programs.items(), *helpers, *hooks]
    count = variables.get("GIT_CONFIG_COUNT", "")
    first = int(count) if count.isdecimal() else 0
    numbered = list(enumerate(settings, first))
    keys = {f"GIT_CONFIG_KEY_{number}": key for number, (key, _) in numbered}
    values = {f"GIT_CONFIG_VALUE_{number}": value for number, (_, value) in numbered}
    return {**_VARIABLES, **keys, **values, "GIT_CONFIG_COUNT": str(first + len(settings))}
