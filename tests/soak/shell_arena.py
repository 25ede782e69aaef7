"""A folder in which real bash runs lines, with programs that record how they were run."""

import os
import re
import select
import shutil
import signal
import stat
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

RECORDERS: Final = ("ok1", "ok2", "exact", "canary", "deny1", "deny2")
_REAL: Final = ("env", "nice", "timeout", "nohup", "setsid", "xargs", "find", "cat", "sh", "bash")
_RECORD: Final = """#!{sh}
record() {{ printf '%s\\0' '{own}' "$PWD" "$#" "$@"; export -p; printf '\\0'; }}
record "$@" >> {records}/$$
{then}
"""
_THEN: Final = {
    "ok2": "exit 1",
    "wrap": 'while [ "${1#-}" != "$1" ]; do shift; done; [ "$1" = 5 ] && shift; exec "$@"',
    "wrapc": 'exec sh -c "$1"',
}
_EXPORTED: Final = re.compile(r"export (\w+)(?:=((?:'[^']*'|\"[^\"]*\"|[^'\"\n])*))?\n")
_VOLATILE: Final = frozenset({"PWD", "OLDPWD", "SHLVL", "_", "LINES", "COLUMNS"})
_TIMEOUT: Final = 1.5


@dataclass(frozen=True, slots=True)
class Run:
    """A program that a line ran: its file, arguments, folder and environment, as far as it differs from the usual."""

    program: str
    args: tuple[str, ...]
    folder: str
    env: tuple[tuple[str, str | None], ...]

    @property
    def name(self) -> str:
        return self.program.rsplit("/", 1)[-1]


@dataclass(frozen=True, slots=True)
class Trace:
    """What a line did. ``written`` are the files that it changed, relative to the folder of all."""

    runs: tuple[Run, ...]
    written: frozenset[str]


class Arena:
    """``workspace`` is the folder of lines. Its sub-folder ``evil`` has programs with the usual names."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.workspace = root / "workspace"
        self.programs = root / "programs"
        self._records = root.with_name(root.name + "-records")
        self._env = {
            "PATH": str(self.programs),
            "HOME": str(root / "home"),
            "LANG": "C.UTF-8",
            "PAGER": "cat",
            "GIT_PAGER": "cat",
        }
        self._bash = shutil.which("bash")
        assert self._bash is not None, "bash runs the commands of agents, and these tests"
        self._build()
        self._before = self._files()

    def run(self, line: str) -> Trace:
        """What ``line`` does in a fresh folder."""
        ended, held = os.pipe()
        process = subprocess.Popen(
            [self._bash or "", "--noprofile", "--norc", "-c", line],
            cwd=self.workspace,
            env=self._env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            pass_fds=[held],
        )
        os.close(held)
        # Everything that the line starts holds the pipe, also in the background.
        select.select([ended], [], [], _TIMEOUT)
        os.close(ended)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return Trace(self._take_runs(), self._take_written())

    def _build(self) -> None:
        for folder in ("workspace/out", "workspace/sub", "workspace/evil", "home", "programs"):
            (self._root / folder).mkdir(parents=True, exist_ok=True)
        self._records.mkdir(exist_ok=True)
        for name in ("a.txt", "b.txt", "sub/a.txt"):
            (self.workspace / name).write_text("a\n")
        (self.workspace / "a.sh").write_text("ok1 sourced\n")
        for name in _REAL:
            if found := shutil.which(name):
                (self.programs / name).symlink_to(found)
        for name in (*RECORDERS, "wrap", "wrapc"):
            for folder in (self.programs, self.workspace / "evil"):
                own, then = folder / name, _THEN.get(name, "echo a b")
                own.write_text(_RECORD.format(sh=shutil.which("sh"), records=self._records, own=own, then=then))
                own.chmod(0o755)

    def _take_runs(self) -> tuple[Run, ...]:
        runs: list[Run] = []
        for file in sorted(self._records.iterdir()):
            fields = file.read_text(errors="replace").split("\0")[:-1]
            file.unlink()
            while len(fields) > 3:
                program, folder, count = fields[0], fields[1], int(fields[2])
                args, env = fields[3 : 3 + count], fields[3 + count] if len(fields) > 3 + count else ""
                del fields[: 4 + count]
                runs.append(Run(program, tuple(args), self._shown(folder), self._changes(env)))
        return tuple(runs)

    def _shown(self, folder: str) -> str:
        return folder.replace(str(self._root), "")

    def _changes(self, exported: str) -> tuple[tuple[str, str | None], ...]:
        """The variables that differ from the usual; removing one leaves nothing that a program could read."""
        env = {name: _unquoted(value) for name, value in _EXPORTED.findall(exported)}
        names = {name for name in env if name not in _VOLATILE and env[name] != self._env.get(name)}
        return tuple(sorted((name, env[name]) for name in names))

    def _files(self) -> Mapping[str, tuple[bytes, int]]:
        found: dict[str, tuple[bytes, int]] = {}
        for folder, _, names in os.walk(self._root):
            for name in names:
                path = Path(folder, name)
                info = path.lstat()
                content = path.read_bytes() if stat.S_ISREG(info.st_mode) and path.parent != self.programs else b""
                found[str(path.relative_to(self._root))] = content, info.st_mtime_ns if not content else 0
        return found

    def _take_written(self) -> frozenset[str]:
        after = self._files()
        names = {name for name in after.keys() | self._before.keys() if after.get(name) != self._before.get(name)}
        if names:
            self._restore()
        return frozenset(names)

    def _restore(self) -> None:
        for child in self._root.iterdir():
            if child.is_dir() and not child.is_symlink():
                shutil.rmtree(child)
            else:
                child.unlink()
        self._build()
        self._before = self._files()


def _unquoted(value: str) -> str:
    """The value as ``export -p`` of a POSIX shell shows it."""
    return "".join(
        raw or quoted or plain for raw, quoted, plain in re.findall(r"'([^']*)'|\"([^\"]*)\"|([^'\"]+)", value)
    )
