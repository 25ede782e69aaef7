"""Commands that only read files of the workspace, and which files those are.

A command counts only if everything about it is known: the line has the plainest of syntaxes, which is read here a
second time, by other rules than those of the parser; the command and each of its options are in the table of reading
commands; its program is not one of the workspace; and every file that it may show can be named.
"""

import os
import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Final

from deputy_agents.domain.errors import ToolError
from deputy_agents.files.sensitive import is_secret, is_secret_folder
from deputy_agents.shell.coverage import OperandReader, count_git_options
from deputy_agents.shell.git_config import ask_git
from deputy_agents.shell.parse import parse
from deputy_agents.shell.part import Command, Redirect
from deputy_agents.shell.reading_commands import (
    HISTORY,
    NAMES_ONLY,
    SUMMARIES,
    WITH_VERSION,
    ReadingCommand,
    find_reading_command,
)
from deputy_agents.shell.scope import Scope
from deputy_agents.shell.word import Word

_TOKEN: Final = re.compile(
    r"""(?P<blank>[ \t]+)
    | (?P<operator>\|(?![|&])|&&)
    | (?<=[ \t]) (?P<redirect>2>(?:&1|/dev/null)(?=[ \t|&]|\Z))
    | (?P<word> (?: [A-Za-z0-9_./:%+,@=-] | (?<=[A-Za-z0-9_^~]) [~^] | \\[().!*] | '[^'\n]*' | "[^"$`\\!\n]*" )+
      | (?<=[ \t]) ! (?=[ \t]) )""",
    re.VERBOSE,
)
"""All that a line of reading commands may consist of."""
_PIECE: Final = re.compile(r"""\\(?P<escaped>.)|'(?P<raw>[^']*)'|"(?P<quoted>[^"]*)"|(?P<plain>[^\\'"]+)""")
_BUILTINS: Final = frozenset({"command", "echo", "false", "printf", "pwd", "true"})
_GIT_OPTIONS: Final = frozenset({"--no-pager", "-P"})
_SHIMS: Final = frozenset({"shims"})
"""Folders with programs that look for another version of themselves in the current folder."""
_MAX_FILES: Final = 100
"""Files of a line whose permissions are looked up one by one."""
_TIMEOUT: Final = 2.0
"""Seconds for a listing of the files that a command would show."""
_LINES_OF_SED: Final = re.compile(r"(?:\d+|\$)(?:,(?:\d+|\$|\+\d+))?p(?:;(?:\d+|\$)(?:,(?:\d+|\$|\+\d+))?p)*")
_ENVIRONMENT_IN_JQ: Final = re.compile(r"env", re.IGNORECASE)
_SIGNATURES: Final = re.compile(r"%G|%\(|signature", re.IGNORECASE)
"""Formats of Git that run another program, or may."""
_SELECTING: Final = frozenset({"-g", "--glob", "--iglob", "-t", "--type", "-T", "--type-not", "-d", "--max-depth"})
_WITHOUT_LINES: Final = frozenset(one.rstrip(":=[") for one in f"{HISTORY} {NAMES_ONLY}".split())
_FIND_FLAGS: Final = frozenset(
    """-a -and -o -or -not ! ( ) , -print -print0 -ls -prune -empty -depth -mount -xdev -true -false -readable -writable
    -executable -nouser -nogroup -daystart -noleaf -quit""".split()  # noqa: SIM905
)
_FIND_VALUED: Final = frozenset(
    """-name -iname -path -ipath -wholename -iwholename -regex -iregex -type -maxdepth -mindepth -size -mtime -mmin
    -atime -amin -ctime -cmin -newer -anewer -cnewer -perm -links -inum -user -group -uid -gid -printf -regextype -used
    -samefile""".split()  # noqa: SIM905
)
_FIND_FILES: Final = frozenset({"-newer", "-anewer", "-cnewer", "-samefile"})


@dataclass(frozen=True, slots=True)
class Reading:
    """What a command reads: ``files``, and all ``folders`` with everything in them, as absolute paths."""

    files: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()


class _NotReading(Exception):
    """The command is not known to only read."""


def reading_commands(
    text: str, scope: Scope, variables: Mapping[str, str], *, git: bool = True
) -> Mapping[Command, Reading]:
    """The commands in the line ``text`` that only read. ``variables`` are the environment of the line. ``git``: the
    repositories that the line uses name no program that Git would run. Blocks."""
    written = _commands_of(text.strip())
    if written is None or scope.start is None:
        return {}
    parts = parse(text)
    commands = [part for part in parts if isinstance(part, Command)]
    others = (part for part in parts if not isinstance(part, Command | Redirect))
    targets = [part.target for part in parts if isinstance(part, Redirect)]
    if any(others) or any(target is None or target.text != os.devnull for target in targets):
        return {}
    if [[word.text for word in one.words] for one in commands] != written or any(one.assignments for one in commands):
        return {}
    found: dict[Command, Reading] = {}
    for command in commands:
        try:
            found[command] = _Reader(command, scope, variables, git).read()
        except (_NotReading, ToolError, OSError):
            continue
    return found


def _commands_of(line: str) -> list[list[str]] | None:
    """The words of each command of a line that has only literal words, ``|`` and ``&&``."""
    commands: list[list[str]] = [[]]
    at, glued = 0, False
    while at < len(line):
        token = _TOKEN.match(line, at)
        if token is None or (glued and token["word"]):
            return None
        if token["operator"]:
            commands.append([])
        elif token["word"]:
            pieces = [
                piece for found in _PIECE.finditer(token["word"]) for piece in found.groups() if piece is not None
            ]
            commands[-1].append("".join(pieces))
        glued = bool(token["redirect"])
        at = token.end()
    return commands if all(commands) else None


@dataclass(slots=True)
class _Reader:
    """Reads one command; every doubt raises."""

    command: Command
    scope: Scope
    variables: Mapping[str, str]
    git: bool
    files: dict[str, None] = field(default_factory=dict[str, None])
    folders: dict[str, None] = field(default_factory=dict[str, None])

    def read(self) -> Reading:
        words, at = self.command.words, self.command.at
        _check(not self.command.appended and words and all(word.plain for word in words) and None not in at.folders)
        texts = [word.text for word in words]
        name = texts[0]
        _check(not any("\0" in text for text in texts) and self._is_of_system(name))
        if texts[1:] == ["--version"] and name in WITH_VERSION:
            return Reading()
        before = count_git_options(words) if name == "git" else 0
        _check(all(text in _GIT_OPTIONS for text in texts[1 : 1 + before]))
        known = find_reading_command((name, *texts[1 + before :]))
        if known is None:
            raise _NotReading
        match name:
            case "sed":
                self._sed(texts[1:])
            case "date":
                self._date(texts[1:])
            case "find":
                self._find(texts[1:])
            case _:
                self._usual(known, before)
        _check(len(self.files) <= _MAX_FILES)
        return Reading(tuple(self.files), tuple(self.folders))

    # -- by the table ----------------------------------------------------------------------------------------------

    def _usual(self, known: ReadingCommand, before: int) -> None:
        words, start = self.command.words, before + len(known.known.words)
        reader = OperandReader(known.known, words, start, self.scope, self.command.at.folders)
        _check(not reader.read())
        name = words[0].text
        further = [word.text for word in words[start:]]
        if name == "git":
            _check(self.git and not any(map(_SIGNATURES.search, further)))
        if name == "jq":
            _check(not any(map(_ENVIRONMENT_IN_JQ.search, further)))
        if known.content:
            self._shows([word.text for word in reader.paths])
        if known.folders:
            self._searches([word.text for word in reader.paths], further)
        if known.changes:
            self._shows_changes(known.known.words[1], further, [word.text for word in reader.paths])

    def _shows(self, paths: Iterable[str]) -> None:
        """Each of ``paths`` may be a file that is shown, and is no folder."""
        for path in self._absolute(path for path in paths if path != "-"):
            _check(not path.is_dir())
            self.files[str(path)] = None

    def _absolute(self, paths: Iterable[str]) -> Iterable[Path]:
        listed = list(paths)
        for folder in self.command.at.folders:
            base = self.scope.resolve(folder)
            if base is None:
                raise _NotReading
            yield from (base / path for path in listed)

    # -- programs --------------------------------------------------------------------------------------------------

    def _is_of_system(self, name: str) -> bool:
        """Whether bash finds the program ``name`` outside the workspace, and it is the usual one."""
        if "/" in name or f"BASH_FUNC_{name}%%" in self.variables or "BASH_ENV" in self.variables:
            return False
        if name in _BUILTINS:
            return True
        for entry in self.variables.get("PATH", "").split(os.pathsep):
            if not Path(entry).is_absolute():
                return False
            file = Path(entry, name)
            if not os.path.lexists(file):
                continue
            real = Path(os.path.realpath(file))
            inside = any(real.is_relative_to(root) or file.is_relative_to(root) for root in self.scope.roots)
            inside = inside or any(Path(os.path.realpath(entry)).is_relative_to(root) for root in self.scope.roots)
            usual = not _SHIMS & {*file.parts, *real.parts}
            return usual and not inside and real.is_file() and os.access(real, os.X_OK)
        return False

    # -- commands with a syntax of their own -----------------------------------------------------------------------

    def _sed(self, words: Sequence[str]) -> None:
        """``sed -n 10,20p file``."""
        _check(len(words) >= 2 and words[0] == "-n")
        rest = words[2:] if words[1] == "-e" else words[1:]
        _check(rest and _LINES_OF_SED.fullmatch(rest[0]) and not any(word.startswith("-") for word in rest[1:]))
        self._check_inside(rest[1:])
        self._shows(rest[1:])

    def _date(self, words: Sequence[str]) -> None:
        _check(all(word in ("-u", "-R", "-I", "--utc") or word.startswith("+") for word in words))

    def _find(self, words: Sequence[str]) -> None:
        """``find`` without actions that write or run anything."""
        starts = 0
        while starts < len(words) and not words[starts].startswith(("-", "(", "!", ",")):
            starts += 1
        self._check_inside(words[:starts])
        at = starts
        while at < len(words):
            if words[at] in _FIND_FLAGS:
                at += 1
                continue
            _check(words[at] in _FIND_VALUED and at + 1 < len(words))
            if words[at] in _FIND_FILES:
                self._check_inside(words[at + 1 : at + 2])
            at += 2

    def _check_inside(self, paths: Iterable[str]) -> None:
        _check(all(self.scope.is_inside(Word(path, path), self.command.at.folders) for path in paths))

    # -- files that are found --------------------------------------------------------------------------------------

    def _searches(self, paths: Sequence[str], further: Sequence[str]) -> None:
        """``rg`` searches every file below ``paths`` that it does not ignore: none of them may be secret."""
        _check("RIPGREP_CONFIG_PATH" not in self.variables)
        options: list[str] = []
        for option, value in pairwise([*further, ""]):
            name = option.partition("=")[0] if option.startswith("--") else option[:2]
            if option == "--":
                break
            if name in _SELECTING:
                attached = "=" in option if option.startswith("--") else len(option) > 2
                options += [option] if attached else [option, value]
        for base in self._absolute(["."]):
            listed = _output(["rg", "--no-config", "--files", "--null", *options, "--", *paths], base, self.variables)
            _check_names(listed.split("\0"))
        for path in self._absolute(paths or ["."]):
            (self.folders if path.is_dir() else self.files)[str(path)] = None

    def _shows_changes(self, subcommand: str, further: Sequence[str], operands: Sequence[str]) -> None:
        """``git`` shows changed lines of the files that it lists with the same words."""
        options = [word for word in further if word.startswith("-")]
        revisions = further[: further.index("--")] if "--" in further else further
        for operand in operands:
            _check(":" not in operand)
            if operand in revisions:
                self._check_revision(operand)
        summarized = subcommand == "log" or any(option.partition("=")[0] in SUMMARIES for option in options)
        if summarized and all(map(_shows_no_lines, options)):
            return
        if "-s" in options or "--no-patch" in options:
            return
        ended = further.index("--") if "--" in further else len(further)
        names_only = ["--name-only", "--no-renames", "--no-relative", "-z"]
        names_only += [] if subcommand == "diff" else ["--format="]
        kept = [word for word in further[:ended] if word not in ("--exit-code", "--graph")]
        words = [subcommand, *kept, *names_only, *further[ended:]]
        for base in self._absolute(["."]):
            top = ask_git(base, ["rev-parse", "--show-toplevel"], self.variables)
            listed = ask_git(base, words, self.variables)
            if not top or listed is None:
                raise _NotReading
            names = [name for name in os.fsdecode(listed).replace("\n", "\0").split("\0") if name]
            _check_names(names)
            folder = Path(os.fsdecode(top.removesuffix(b"\n")))
            if len(names) > _MAX_FILES:
                self.folders[str(folder)] = None
            else:
                self.files |= dict.fromkeys(str(folder / name) for name in names)

    def _check_revision(self, operand: str) -> None:
        """``operand`` is a path, or names commits: an object could be the content of any file."""
        for base in self._absolute(["."]):
            if os.path.lexists(base / operand):
                continue
            for name in filter(None, re.split(r"\.{2,3}", operand)):
                kind = ask_git(base, ["cat-file", "-t", name.removeprefix("^")], self.variables)
                _check(kind is not None and kind.strip() in (b"commit", b"tag"))


def _check(holds: object) -> None:
    if not holds:
        raise _NotReading


def _check_names(names: Iterable[str]) -> None:
    _check(not any(is_secret(name) or is_secret_folder(name) for name in names if name))


def _shows_no_lines(option: str) -> bool:
    """Whether ``git log`` with this option shows no line of a file."""
    name = option.partition("=")[0] if option.startswith("--") else option[:2]
    return name in _WITHOUT_LINES or option[1:].isdecimal()


def _output(command: Sequence[str], folder: Path, variables: Mapping[str, str]) -> str:
    """The output of a program that lists files; raises if it does not in a short time."""
    try:
        ran = subprocess.run(
            command,
            cwd=folder,
            env=dict(variables),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_TIMEOUT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise _NotReading from None
    _check(ran.returncode in (0, 1))
    return os.fsdecode(ran.stdout)
