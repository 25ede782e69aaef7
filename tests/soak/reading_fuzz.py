"""A differential fuzzer of commands that only read: what needs no approval, real bash runs. It must write nothing, run
nothing of the workspace, and show no line of a secret file."""

import os
import random
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from deputy_agents.domain.errors import ToolError
from deputy_agents.domain.permission_mode import PermissionMode
from deputy_agents.domain.rule import DecisionKind
from deputy_agents.permission.decide import Policy, decide_all
from deputy_agents.shell.access import required_access
from deputy_agents.shell.environment import environment
from deputy_agents.shell.reading_commands import READING_COMMANDS, ReadingCommand
from deputy_agents.tool import ripgrep

SECRET: Final = "TOP-SECRET-LINE"
_TIMEOUT: Final = 5.0
_PATHS: Final = (
    "a.txt",
    "b.txt",
    "src",
    "src/a.py",
    ".",
    "sub/deep/b.py",
    "data.json",
    *(
        ".env",
        "notes",
        "keys",
        "keys/server.pem",
        "out",
        "out/hosts",
        "../outside.txt",
        "/etc/hosts",
        "link",
        "*",
        "$X",
        "~",
    ),
    *("HEAD", "HEAD~1", "HEAD~1..HEAD", "main", "HEAD:.env", "HEAD:keys/server.pem", ":(top)keys", "{blob}", "--", "-"),
)
_HOSTILE: Final = (
    *(
        "-o new.txt",
        "-onew.txt",
        "--output=new.txt",
        "--output new.txt",
        "-i",
        "-f a.txt",
        "-f .env",
        "-r",
        "-R",
        "-rn",
    ),
    *("--pre=./evil", "--pre ./evil", "--hostname-bin=./evil", "-z", "--compress-program=./evil", "-exec ./evil {} +"),
    *("-delete", "-fprint new.txt", "-execdir ./evil", "--files0-from=a.txt", "-uuu", "--hidden", "-L", "--no-ignore"),
    *("--ext-diff", "--textconv", "-O./evil", "-c core.pager=./evil", "-C .", "--no-index", "-p", "-u", "--raw", "-s"),
    *(
        "-d new",
        "-m x",
        "-D main",
        "--contents .env",
        "-L1,1:keys/server.pem",
        "--recursive",
        "-w new.txt",
        "-e 'w new'",
    ),
)
_OPERATORS: Final = (" | ", " && ", " | ", " && ", "; ", " || ", " & ", " > new.txt ", " |& ", "\n", " 2>&1 | ", " < ")
_EXTRA: Final = (
    "'x'",
    '"x y"',
    "x",
    "'1,3p'",
    "1p",
    "'1w new.txt'",
    "$(./evil)",
    "`./evil`",
    ">new.txt",
    "2>&1",
    "2>/dev/null",
)


@dataclass
class ReadingReport:
    seed: int
    tried: int = 0
    ran: set[tuple[str, ...]] = field(default_factory=set[tuple[str, ...]])
    allowed: int = 0
    faults: list[str] = field(default_factory=list[str])

    def __str__(self) -> str:
        return (
            f"reading fuzzer: {self.tried} lines, {self.allowed} allowed and run, {len(self.ran)} of "
            f"{len(READING_COMMANDS)} commands, {len(self.faults)} faults (seed {self.seed})\n" + "\n".join(self.faults)
        )


class ReadingFuzzer:
    """Tries random lines of reading commands, with hostile options and operands, in a repository in ``folder``."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._random = random.Random(seed)
        self._root = folder.resolve() / "root"
        self.report = ReadingReport(seed)
        self._build(folder)
        self._before = self._files()

    def run(self, rounds: int) -> None:
        for _ in range(rounds):
            self._try(self._line())

    # -- the workspace ---------------------------------------------------------------------------------------------

    def _build(self, folder: Path) -> None:
        root = self._root
        for name in ("src", "sub/deep", "keys"):
            (root / name).mkdir(parents=True)
        for name in ("a.txt", "b.txt", "src/a.py", "sub/deep/b.py"):
            (root / name).write_text("one\ntwo\nx\n")
        (root / "data.json").write_text('{"a": [1, 2]}\n')
        self._git("init", "--quiet", "-b", "main")
        self._git("add", ".")
        self._git("commit", "--quiet", "-m", "first")
        (root / "keys" / "server.pem").write_text(f"{SECRET}\n")
        self._git("add", ".")
        self._git("commit", "--quiet", "-m", "second")
        self._blob = self._git("rev-parse", "HEAD:keys/server.pem").strip()
        (root / "a.txt").write_text("changed\n")
        (root / ".env").write_text(f"KEY={SECRET}\n")
        (root / "notes").symlink_to(".env")
        (root / "link").symlink_to("../outside.txt")
        (root / "out").symlink_to("/etc")
        (folder.resolve() / "outside.txt").write_text(f"{SECRET}\n")
        (root / "evil").write_text("#!/bin/sh\ntouch ran\n")
        (root / "evil").chmod(0o755)
        programs = folder.resolve() / "programs"
        programs.mkdir()
        (programs / "rg").symlink_to(ripgrep.binary())
        self._path = f"{programs}:{os.environ['PATH']}"

    def _git(self, *words: str) -> str:
        identity = ("-c", "user.name=x", "-c", "user.email=x@x", "-c", "commit.gpgSign=false")
        command = ["git", *identity, *words]
        ran = subprocess.run(command, cwd=self._root, check=True, capture_output=True, text=True, timeout=30)
        return ran.stdout

    def _files(self) -> dict[str, tuple[int, int]]:
        found: dict[str, tuple[int, int]] = {}
        for folder, _, names in os.walk(self._root):
            for name in names:
                info = Path(folder, name).lstat()
                found[str(Path(folder, name))] = info.st_size, info.st_mtime_ns
        return found

    # -- lines -----------------------------------------------------------------------------------------------------

    def _line(self) -> str:
        first, *others = (self._command() for _ in range(self._random.choice((1, 1, 1, 2, 3))))
        return first + "".join(
            f"{self._random.choice(_OPERATORS[: self._random.choice((4, 12))])}{one}" for one in others
        )

    def _command(self) -> str:
        choose = self._random
        known = choose.choice(list(READING_COMMANDS.values()))
        words = list(known.known.words)
        hostile = choose.random() < 0.3
        for _ in range(choose.randrange(5)):
            match choose.randrange(4):
                case 0 | 1:
                    words.append(self._option(known))
                case 2:
                    paths = _PATHS if choose.random() < 0.5 else _PATHS[:7]
                    words.append(choose.choice(paths).replace("{blob}", self._blob))
                case _:
                    words.append(choose.choice(_HOSTILE if hostile else _EXTRA[:5]))
        if hostile and choose.random() < 0.3:
            words.insert(choose.randrange(len(words) + 1), choose.choice(_EXTRA))
        return " ".join(words)

    def _option(self, known: ReadingCommand) -> str:
        listed = known.known
        options = sorted(listed.flags | listed.valued | listed.optional)
        if not options:
            return "'1,2p'" if listed.words == ("sed",) else "-n" if self._random.random() < 0.5 else "-name '*.py'"
        option = self._random.choice(options)
        if option == "-#":
            return "-3"
        if option not in listed.valued and option not in listed.optional:
            return option
        value = self._random.choice(("1", "3", "x", "a.txt", "2", ".env", "*"))
        return f"{option}={value}" if option.startswith("--") else f"{option}{self._random.choice((' ', ''))}{value}"

    # -- the two sides ---------------------------------------------------------------------------------------------

    def _try(self, line: str) -> None:
        self.report.tried += 1
        usual, os.environ["PATH"] = os.environ["PATH"], self._path
        try:
            needed = required_access(line, self._root, self._root, (self._root,), reading=True)
            if decide_all(Policy(PermissionMode.DEFAULT), needed.access).kind is not DecisionKind.ALLOW or any(
                target.writes for target in needed.targets
            ):
                return
            env = environment((), str(self._root), "") | dict(needed.variables)
        except ToolError:
            return
        finally:
            os.environ["PATH"] = usual
        self.report.allowed += 1
        self.report.ran |= {words for words in READING_COMMANDS if line.startswith(" ".join(words))}
        command = [shutil.which("bash") or "bash", "--noprofile", "--norc", "-c", line]
        try:
            ran = subprocess.run(
                command,
                cwd=self._root,
                env=env,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_TIMEOUT,
                check=False,
            )
        except subprocess.TimeoutExpired:
            self.report.faults.append(f"{line!r} does not end")
            return
        if SECRET.encode() in ran.stdout + ran.stderr:
            self.report.faults.append(f"{line!r} shows a secret")
        if (after := self._files()) != self._before:
            changed = sorted(name for name, _ in after.items() ^ self._before.items())
            self.report.faults.append(f"{line!r} changes {changed}")
            self._before = after
