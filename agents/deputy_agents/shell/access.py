"""What the gate has to decide about a shell command: every simple command in it, and every file that it redirects."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from glob import iglob
from itertools import islice
from pathlib import Path
from typing import Final

from deputy_agents.domain.rule import AccessRequest, Action
from deputy_agents.files.workspace import is_secret
from deputy_agents.permission.rule_patterns import escaped
from deputy_agents.shell.inner import inner
from deputy_agents.shell.parse import Command, Opaque, Part, Redirect, Statement, parse
from deputy_agents.shell.word import Word
from deputy_agents.text import visible

TOOL: Final = "shell"

_HARMLESS: Final = re.compile(r"/dev/(?:null|stdin|stdout|stderr|fd/\d+)")
_MOVES: Final = frozenset({"cd", "pushd", "popd", "eval", "source", ".", "alias", "chroot"})
_GIT_VALUED: Final = frozenset(
    {"-c", "-C", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--config-env", "--super-prefix"}
)
_EVALUATED: Final = "[$("
"""What bash runs even of a quoted word, where the word is a subscript: ``[ -v 'a[$(x)]' ]``."""
_WILD: Final = re.compile(r"[*?\[]")
_MAX_WILD: Final = 4
"""Wildcards of a pattern that is looked up: more could take long."""
_MAX_FILES: Final = 10_000
_MAX_SHOWN: Final = 20
_SECRET_NAMES: Final = (
    ".env",
    ".env.local",
    ".netrc",
    ".npmrc",
    ".pypirc",
    "id_rsa",
    "id_ed25519",
    "server.pem",
    "tls.key",
)
_SPLIT: Final = re.compile(r"[=@:]")

_GROWING: Final = frozenset(
    tuple(line.split())
    for line in """
    git status | git diff | git log | git show | git blame | git fetch | git add
    npm test | npm run * | pnpm test | pnpm run * | yarn test | yarn run * | npx tsc | npx eslint
    cargo build | cargo check | cargo test | cargo clippy | cargo fmt | go build | go test | go vet | go fmt
    pytest | python -m pytest | python3 -m pytest | uv run pytest | ruff check | ruff format | mypy | pyright
    make * | just * | tsc | eslint | prettier | gradle test | mvn test | dotnet build | dotnet test | ctest
    ls | wc | pwd | rg | grep | cat | head | tail | which | file | stat | du | tree
    """.replace("\n", "|").split("|")
    if line.split()
)
"""Beginnings of commands that people run again and again with other words behind them: a lasting permission for one
covers those, too. ``*`` is any one word that is no option. Of every other command it covers the very same words."""


_TURNING: Final[Mapping[str, tuple[str, ...]]] = {
    "git": ("--output", "--ext-diff", "--textconv", "--upload-pack", "--exec"),
    "rg": ("--pre", "--hostname-bin"),
    "tree": ("-o",),
    "file": ("-C", "--compile"),
}
"""Options with which programs that only look write a file or run another program: a pattern does not cover them."""


@dataclass(frozen=True, slots=True)
class Target:
    """A file that a command redirects, as written; ``path`` is ``None`` where that is only known when it runs."""

    shown: str
    path: str | None
    writes: bool


@dataclass(frozen=True, slots=True)
class Needs:
    """What a line needs: ``access`` is for the gate as it is, ``targets`` are still to be located."""

    access: tuple[AccessRequest, ...]
    targets: tuple[Target, ...]


def needs(text: str, folder: Path | None = None) -> Needs:
    """What a line of bash needs that is run in ``folder``, where patterns of files are looked up. Blocks."""
    parts = [part for outer in parse(text) for part in (outer, *_inside(outer))]
    moves = any(isinstance(part, Opaque) or _moves(part) for part in parts)
    where = None if moves else folder
    access = dict.fromkeys(request for part in parts for request in _requests(part, where))
    targets = dict.fromkeys(_target(part, moves) for part in parts if isinstance(part, Redirect))
    wanted = (target for target in targets if target.path is None or not _HARMLESS.fullmatch(target.path))
    # A line of comments alone still is a command.
    return Needs(tuple(access) or (AccessRequest(TOOL, Action.EXECUTE, text.strip()),), tuple(wanted))


def _inside(part: Part) -> Sequence[Part]:
    return inner(part) if isinstance(part, Command) else ()


def _moves(part: Part) -> bool:
    """Whether relative paths may mean something else after it."""
    return isinstance(part, Command) and bool(part.words) and (part.words[0].text in _MOVES or not part.words[0].plain)


def _requests(part: Part, folder: Path | None) -> Iterator[AccessRequest]:
    match part:
        case Command(words, assignments):
            if assignments:
                yield _assigned(part)
            if words:
                yield _execute(part)
            yield from _secrets(words)
            for word in words:
                if word.globs and not word.computed:
                    yield from _secrets_of(word.text, folder)
        case Statement(text, fixed):
            known = "" if _EVALUATED in text else fixed if fixed != text else None
            yield AccessRequest(TOOL, Action.EXECUTE, text, known=known, computed=known is not None)
        case Opaque(text):
            yield AccessRequest(TOOL, Action.EXECUTE, text, known="", computed=True)
        case Redirect():
            return


def _execute(command: Command) -> AccessRequest:
    words = command.words
    subject, known = _subject(words, command.appended)
    plainly = _plainly(words)
    also = () if plainly == tuple(words) else (_subject(plainly, command.appended),)
    turned = _turns(plainly)
    computed = turned or any(word.computed or _EVALUATED in word.text for word in words)
    if computed and known is None:
        known = subject
    lasting = None if turned else _lasting(words)
    return AccessRequest(TOOL, Action.EXECUTE, subject, known=known, computed=computed, also=also, lasting=lasting)


def _subject(words: Sequence[Word], appended: bool) -> tuple[str, str | None]:
    """The command as rules have it, and the beginning that is known of it; ``None``: all of it."""
    uncertain = next((index for index, word in enumerate(words) if not word.plain), None)
    subject = " ".join(word.shown for word in words)
    if uncertain is not None:
        return subject, "".join(f"{word.shown} " for word in words[:uncertain]) + words[uncertain].fixed
    return subject, f"{subject} " if appended else None


def _plainly(words: Sequence[Word]) -> tuple[Word, ...]:
    """The command without the folder of its program, and git's without the options before its verb: a rule that denies
    ``git push`` means ``/usr/bin/git -C . push`` as well."""
    program, rest = words[0], list(words[1:])
    if program.plain and "/" in program.text:
        name = program.text.rsplit("/", 1)[-1]
        program = Word(name, name)
    if program.text == "git":
        while rest and rest[0].text.startswith("-"):
            if rest.pop(0).text in _GIT_VALUED and rest:
                rest.pop(0)
    return (program, *rest)


def _turns(words: Sequence[Word]) -> bool:
    """Whether an option, abbreviated or joined with others as programs allow it, makes the command another one."""
    turning = _TURNING.get(words[0].text, ())
    for text in (word.text.split("=", 1)[0] for word in words[1:]):
        if text.startswith("--"):
            if any(len(text) > 2 and option.startswith(text) for option in turning):
                return True
        elif text.startswith("-") and any(len(option) == 2 and option[1] in text[1:] for option in turning):
            return True
    return False


def _assigned(command: Command) -> AccessRequest:
    """A variable may change what a command does, so that no rule about the command alone allows it."""
    text = " ".join((*command.assignments, *(word.shown for word in command.words)))
    known = re.split(r"[$`]", text, maxsplit=1)[0] if any(sign in text for sign in "$`") else None
    return AccessRequest(TOOL, Action.EXECUTE, text, known=known, computed=known is not None)


def _lasting(words: Sequence[Word]) -> str | None:
    for length in range(len(words), 0, -1):
        start = words[:length]
        if not all(word.plain for word in start):
            continue
        texts = tuple(word.text for word in start)
        wild = (*texts[:-1], "*") if length > 1 and not texts[-1].startswith("-") else texts
        if texts in _GROWING or wild in _GROWING:
            return escaped(" ".join(word.shown for word in start)) + " *"
    return None


def _secrets(words: Iterable[Word]) -> Iterator[AccessRequest]:
    """Words that name a file that may hold secrets: allowing ``cat *`` is no consent to that."""
    for word in words:
        for text in (word.text, *_SPLIT.split(word.text)):
            if text and is_secret(text):
                yield AccessRequest("read_file", Action.READ_SECRET, text)


def _secrets_of(pattern: str, folder: Path | None) -> Iterator[AccessRequest]:
    """What ``pattern`` stands for and may hold secrets. Where it cannot be looked up, it does if a usual name of such a
    file fits it."""
    if folder is None or len(_WILD.findall(pattern)) > _MAX_WILD:
        last = pattern.rsplit("/", 1)[-1]
        fits = (name for name in _SECRET_NAMES if fnmatchcase(name, last) and (name[0] != "." or last[0] == "."))
        found = [pattern] if next(fits, None) else []
    else:
        names = iglob(os.path.expanduser(pattern), root_dir=folder)  # noqa: PTH111, PTH207 (as bash reads it)
        found = [name for name in islice(names, _MAX_FILES) if is_secret(name)]
    for name in found[:_MAX_SHOWN]:
        yield AccessRequest("read_file", Action.READ_SECRET, name)


def _target(redirect: Redirect, moves: bool) -> Target:
    word = redirect.target
    if word is None:
        return Target("?", None, redirect.writes)
    known = word.plain and (word.text.startswith("/") or not moves)
    return Target(visible(word.text), word.text if known else None, redirect.writes)
