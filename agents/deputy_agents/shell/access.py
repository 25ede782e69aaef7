"""The access that a shell command requires: one request per simple command and per redirected file.

What decides about a command besides its words is part of its subject: a folder other than that of the session
(``cd sub && make test``), and its input, unless that is only data for it (``python3 < script.py``).
"""

import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from pathlib import Path
from typing import Final

from deputy_agents.domain.rule import AccessRequest, Action
from deputy_agents.permission.rule_patterns import escape_pattern
from deputy_agents.shell.coverage import Coverage, count_git_options, cover, program_name
from deputy_agents.shell.environment import environment
from deputy_agents.shell.git_config import NO_LOCKS, GitCall, GitPrograms, git_programs
from deputy_agents.shell.inner import is_transparent
from deputy_agents.shell.line import Line, LinePart, parts_of
from deputy_agents.shell.mentioned import mentioned_in_command, mentioned_in_statement
from deputy_agents.shell.part import Command, Computed, Opaque, Redirect, Statement
from deputy_agents.shell.reading import Reading, reading_commands
from deputy_agents.shell.scope import Scope
from deputy_agents.shell.surroundings import CHANGE_FOLDER, Folder, entered_folder
from deputy_agents.shell.word import Word
from deputy_agents.text import visible

TOOL: Final = "shell"

_HARMLESS_FILES: Final = re.compile(r"/dev/(?:null|stdin|stdout|stderr|fd/\d+)")
_EVALUATED: Final = "[$("
"""A substitution that bash runs even in a quoted word if the word is a subscript: ``[ -v 'a[$(x)]' ]``."""
_AS_USER: Final = frozenset({"sudo", "doas"})
_GIT_REPOSITORY: Final = frozenset({"-C", "--git-dir", "--work-tree"})
_APPENDED: Final = "..."
"""Stands for words that a program such as ``xargs`` appends."""


@dataclass(frozen=True, slots=True)
class RedirectTarget:
    """A file that a command redirects, as written; ``path`` is ``None`` if it is only known when the command runs."""

    shown: str
    path: str | None
    writes: bool


@dataclass(frozen=True, slots=True)
class RequiredAccess:
    """What a line requires: ``access`` is complete; ``targets``, and ``folders`` of which everything is read, must
    still be located in the workspace. ``variables`` are set when the line runs without being asked about: Git then runs
    no program that the workspace names. ``line`` is the access for all of a line that is not understood."""

    access: tuple[AccessRequest, ...]
    targets: tuple[RedirectTarget, ...]
    folders: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    line: AccessRequest | None = None

    def part(self, request: AccessRequest) -> AccessRequest:
        """``request`` as one that the line requires."""
        return request if self.line in (None, request) else replace(request, part_of=self.line)


def required_access(
    text: str,
    folder: Path | None = None,
    session: Path | None = None,
    roots: Sequence[Path] = (),
    passed: Iterable[str] = (),
    *,
    reading: bool = False,
) -> RequiredAccess:
    """The access required by a line of bash in ``folder``, in a session whose folder is ``session`` and whose workspace
    consists of ``roots``. ``passed`` are names of environment variables that the user passes to commands. ``reading``:
    commands that are known to only read are distinguished from others. Blocks.

    Raises:
        ToolError: git does not answer, or the line is too long to decide about it.
    """
    scope = Scope.of(folder, session, roots)
    parts, passed = parts_of(text), tuple(passed)
    commands = [part for part in parts if isinstance(part, Command) and part.words]
    git = git_programs(list(_git_calls(commands, scope)), passed) if any(map(_is_git, commands)) else GitPrograms()
    understood = not any(isinstance(part, Opaque | Line | Computed | Statement) for part in parts)
    read: Mapping[Command, Reading] = {}
    if reading and understood and folder is not None:
        read = reading_commands(text, scope, environment(passed, str(folder), ""), git=not git.named)
    is_opaque = any(isinstance(part, Opaque) for part in parts)
    reader = _Reader(text.strip(), scope, is_opaque, read.keys())
    entering = [command for command in commands if _enters(command, scope)]
    access = dict.fromkeys(request for part in parts if part not in entering for request in reader.requests(part))
    access |= dict.fromkeys(_named_by_git(program) for program in git.named)
    if _is_deferred(commands) or (git.variables and any(map(_changes_environment, commands))):
        access[_whole(text.strip())] = None
    folder_changes = reader.is_opaque or any(map(_changes_folder, commands))
    targets = dict.fromkeys(_target(part, folder_changes) for part in parts if isinstance(part, Redirect))
    targets |= dict.fromkeys(RedirectTarget(file, file, writes=False) for one in read.values() for file in one.files)
    folders = dict.fromkeys(folder for one in read.values() for folder in one.folders)
    relevant = (target for target in targets if target.path is None or not _HARMLESS_FILES.fullmatch(target.path))
    # A line with only comments is still a command.
    complete = tuple(access) or (AccessRequest(TOOL, Action.EXECUTE, text.strip()),)
    entered = tuple((" ".join(word.shown for word in command.words), None) for command in entering)
    variables = {**git.variables, **NO_LOCKS} if git.variables and read else git.variables
    required = RequiredAccess(tuple(_also(complete, entered)), tuple(relevant), tuple(folders), variables)
    if not is_opaque:
        return required
    line = next(one for one in required.access if replace(one, also=()) == reader.opaque_line())
    required = replace(required, line=line)
    return replace(required, access=tuple(map(required.part, required.access)))


@dataclass(frozen=True, slots=True)
class _Reader:
    """Finds the access that the parts of ``line`` require. ``is_opaque``: parts of it are not understood. ``read`` are
    the commands that only read."""

    line: str
    scope: Scope
    is_opaque: bool
    read: Collection[Command]

    def requests(self, part: LinePart) -> Iterator[AccessRequest]:
        match part:
            case Command(words, assignments):
                if assignments:
                    yield _with_assignments(part)
                if words:
                    yield from self._execute(part)
                yield from self._secrets(part)
            case Statement(text, fixed):
                known = "" if _EVALUATED in text else fixed if fixed != text else None
                computed = known is not None
                mentioned = mentioned_in_statement(part)
                yield AccessRequest(TOOL, Action.EXECUTE, text, known=known, computed=computed, mentioned=mentioned)
            case Line():
                yield _whole(self._line_in_folder())
            case Opaque():
                yield self.opaque_line()
            case Redirect() | Computed():
                return

    def opaque_line(self) -> AccessRequest:
        """The access for all of the line if it is not understood."""
        return AccessRequest(TOOL, Action.EXECUTE, self._line_in_folder(), known="", computed=True)

    def _line_in_folder(self) -> str:
        shown = self.scope.shown("")
        return f"cd {shlex.quote(shown)} && {self.line}" if shown else self.line

    def _execute(self, command: Command) -> Iterator[AccessRequest]:
        """One request for each folder in which the command may run. If a folder is only known when it runs, the
        complete line decides."""
        if None in command.at.folders and not cover(command.words, ("",), self.scope).only_prints:
            request = self._in_folder(command, "")
            yield replace(_whole(self.line), also=((request.subject, request.known), *request.also), lasting=None)
        for folder in command.at.folders:
            if folder is not None:
                yield self._in_folder(command, folder)

    def _in_folder(self, command: Command, folder: Folder) -> AccessRequest:
        words, at = command.words, command.at
        coverage = cover(words, [folder], self.scope)
        is_data = not at.has_input or coverage.is_filter or is_transparent(words)
        shown = "" if coverage.only_prints else self.scope.shown(folder)
        before = f"cd {shlex.quote(shown)} && " if shown else ""
        before, after = (before, "") if is_data else (f"{before}{at.piped}", at.redirected)
        normalized = _normalized(words)
        plain = dict.fromkeys(
            _subject(one, command.appended, loose=loose) for loose in (False, True) for one in (words, normalized)
        )
        variants = [(f"{before}{text}{after}", known if known is None else before + known) for text, known in plain]
        subject, known = variants[0]
        computed = any(word.computed or _EVALUATED in word.text for word in words)
        return AccessRequest(
            TOOL,
            Action.READ_COMMAND if command in self.read else Action.EXECUTE,
            subject,
            known=subject if computed and known is None else known,
            computed=computed,
            also=tuple(dict.fromkeys((*variants[1:], *(plain if before or after else ())))),
            mentioned=mentioned_in_command(command),
            spelled=subject if not is_data else before + self._spelled(command, coverage),
            lasting=self._lasting(command, coverage, before) if is_data else None,
        )

    def _spelled(self, command: Command, coverage: Coverage) -> str:
        if command.appended and coverage.known and not coverage.only_prints:
            return _subject(command.words, appended=True)[0]
        return " ".join(word.shown for word in command.words[: coverage.spelled])

    def _lasting(self, command: Command, coverage: Coverage, before: str) -> str | None:
        if not coverage.lasting or command.appended:
            return None
        start = " ".join(word.shown for word in command.words[: coverage.lasting])
        return f"{escape_pattern(before + start)} *"

    def _secrets(self, command: Command) -> Iterator[AccessRequest]:
        """Access to files that may hold secrets and that the words name; a rule ``cat *`` does not allow it."""
        folders: Sequence[Folder] = (None,) if self.is_opaque else command.at.folders
        for word in command.words:
            for name in self.scope.secrets(word, folders):
                yield AccessRequest("read_file", Action.READ_SECRET, name)


def _enters(command: Command, scope: Scope) -> bool:
    """Whether it only enters a folder of the workspace. That is part of the subjects of the commands after it."""
    folder = entered_folder(command.words)
    word = command.words[-1]
    return folder is not None and not command.assignments and scope.is_inside(word, command.at.folders)


def _also(access: Iterable[AccessRequest], entered: tuple[tuple[str, None], ...]) -> Iterable[AccessRequest]:
    """Requests for the same text become one. Rules about entering a folder apply to what runs there."""
    merged: dict[AccessRequest, AccessRequest] = {}
    for request in access:
        key = replace(request, also=())
        runs = request.action in (Action.EXECUTE, Action.READ_COMMAND)
        also = (*merged.get(key, request).also, *request.also, *(entered if runs else ()))
        merged[key] = replace(merged.get(key, request), also=tuple(dict.fromkeys(also)))
    return merged.values()


def _whole(line: str) -> AccessRequest:
    return AccessRequest(TOOL, Action.EXECUTE, line, spelled=line)


def _is_deferred(commands: Sequence[Command]) -> bool:
    """Whether a command may run elsewhere or with another input than at its place in the line: in a trap, or after
    ``exec < file``."""
    names = {program_name(command.words[0]) for command in commands}
    moved = bool(names & CHANGE_FOLDER) or any(one.at.folders != ("",) or one.at.has_input for one in commands)
    redirected = any(program_name(one.words[0]) == "exec" and one.at.redirected for one in commands)
    return ("trap" in names and moved) or redirected


def _changes_environment(command: Command) -> bool:
    """Whether what it runs may not have the variables of the line, and so not the settings for Git."""
    has_options = any(word.text.startswith("-") for word in command.words[1:2])
    name = program_name(command.words[0])
    return name in _AS_USER or (has_options and name in ("env", "exec"))


def _changes_folder(command: Command) -> bool:
    """Whether relative paths may have another meaning after it."""
    return command.words[0].text in CHANGE_FOLDER or not command.words[0].plain


def _is_git(command: Command) -> bool:
    return program_name(command.words[0]) == "git"


def _git_calls(commands: Iterable[Command], scope: Scope) -> Iterator[GitCall]:
    found: dict[GitCall, None] = {}
    for command in filter(_is_git, commands):
        count = count_git_options(command.words)
        options = [word.text for word in command.words[1 : 1 + count] if word.plain]
        following = command.words[1 + count : 2 + count]
        subcommand = following[0].text if following and following[0].plain else ""
        for folder in command.at.folders:
            if (path := scope.resolve(folder)) is not None and path.is_dir():
                found[GitCall(path, tuple(_repository_options(options)), subcommand)] = None
    yield from found


def _repository_options(options: Sequence[str]) -> Iterator[str]:
    for option, value in zip_longest(options, options[1:], fillvalue=""):
        if option in _GIT_REPOSITORY:
            yield from (option, value)
        elif option.startswith(tuple(f"{name}=" for name in _GIT_REPOSITORY)):
            yield option


def _named_by_git(program: str) -> AccessRequest:
    """A program that the configuration of a repository names, as if the line had run it."""
    return AccessRequest(TOOL, Action.EXECUTE, program, spelled=program)


def _subject(words: Sequence[Word], appended: bool, *, loose: bool = False) -> tuple[str, str | None]:
    """The command as the subject of rules, and its known beginning; ``None`` if all of it is known. ``loose``: without
    the quotes around literals that bash would expand, as in most rules that deny."""
    uncertain = next((index for index, word in enumerate(words) if not word.plain), None)
    texts = [word.loose if loose else word.shown for word in words]
    subject = " ".join(texts)
    shown = f"{subject} {_APPENDED}" if appended else subject
    if uncertain is not None:
        return shown, "".join(f"{text} " for text in texts[:uncertain]) + words[uncertain].fixed
    return shown, f"{subject} " if appended else None


def _normalized(words: Sequence[Word]) -> tuple[Word, ...]:
    """The command without the folder of its program and, for git, without the options before the subcommand: a rule
    that denies ``git push`` also applies to ``/usr/bin/git -C . push``, ``git-push`` and ``/usr/bin/gi? push``."""
    name = program_name(words[0])
    if not words[0].plain:
        text, fixed = words[0].text, words[0].fixed
        folder = text.rfind("/") + 1
        return (replace(words[0], text=text[folder:], fixed=fixed[folder:], source=""), *words[1:])
    if name.startswith("git-"):
        return (Word("git", "git"), Word(name[4:], name[4:]), *words[1:])
    return (Word(name, name), *words[1 + (count_git_options(words) if name == "git" else 0) :])


def _with_assignments(command: Command) -> AccessRequest:
    """The command including its assignments: a variable may change what a command does, so a rule about the command
    without them does not allow it."""
    text = " ".join((*command.assignments, *(word.shown for word in command.words)))
    # With the space, so that ``X=*`` does not allow the command after ``X=``.
    spelled = " ".join((*command.assignments, "")) if command.words else text
    known = re.split(r"[$`]", text, maxsplit=1)[0] if any(sign in text for sign in "$`") else None
    return AccessRequest(TOOL, Action.EXECUTE, text, known=known, computed=known is not None, spelled=spelled)


def _target(redirect: Redirect, folder_changes: bool) -> RedirectTarget:
    word = redirect.target
    if word is None:
        return RedirectTarget("?", None, redirect.writes)
    known = word.plain and (word.text.startswith("/") or not folder_changes)
    return RedirectTarget(visible(word.text), word.text if known else None, redirect.writes)
