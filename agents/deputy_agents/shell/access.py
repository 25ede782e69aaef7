"""The access that a shell command requires: one request per simple command and per redirected file."""

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
from deputy_agents.permission.rule_patterns import escape_pattern
from deputy_agents.shell.inner import inner
from deputy_agents.shell.parse import Command, Opaque, Part, Redirect, Statement, parse
from deputy_agents.shell.word import Word
from deputy_agents.text import visible

TOOL: Final = "shell"

_HARMLESS_FILES: Final = re.compile(r"/dev/(?:null|stdin|stdout|stderr|fd/\d+)")
_CHANGE_FOLDER: Final = frozenset({"cd", "pushd", "popd", "eval", "source", ".", "alias", "chroot"})
_GIT_OPTIONS_WITH_VALUE: Final = frozenset(
    {"-c", "-C", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--config-env", "--super-prefix"}
)
_EVALUATED: Final = "[$("
"""A substitution that bash runs even in a quoted word if the word is a subscript: ``[ -v 'a[$(x)]' ]``."""
_WILDCARD: Final = re.compile(r"[*?\[]")
_MAX_WILDCARDS: Final = 4
"""Wildcards of a pattern that is expanded; with more, the expansion could take long."""
_MAX_FILES: Final = 10_000
_MAX_SECRETS: Final = 20
_SECRET_NAMES: Final = (
    ".env",
    ".env.local",
    ".netrc",
    ".npmrc",
    ".pypirc",
    "id_rsa",
    "id_ed25519",
    "kubeconfig",
    "terraform.tfstate",
    ".vault-token",
    "server.pem",
    "tls.key",
)
_SPLIT: Final = re.compile(r"[=@:]")

_EXTENSIBLE: Final = frozenset(
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
"""Beginnings of commands that users often repeat with other further words; a lasting approval covers any further words.
``*`` is any one word that is not an option. For every other command, a lasting approval covers exactly the same
words."""


_UNSAFE_OPTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "git": ("--output", "--ext-diff", "--textconv", "--upload-pack", "--exec"),
    "rg": ("--pre", "--hostname-bin"),
    "tree": ("-o",),
    "file": ("-C", "--compile"),
}
"""Options with which otherwise read-only programs write a file or run another program; no pattern covers them."""


@dataclass(frozen=True, slots=True)
class RedirectTarget:
    """A file that a command redirects, as written; ``path`` is ``None`` if it is only known when the command runs."""

    shown: str
    path: str | None
    writes: bool


@dataclass(frozen=True, slots=True)
class RequiredAccess:
    """What a line requires: ``access`` is complete; ``targets`` must still be located in the workspace."""

    access: tuple[AccessRequest, ...]
    targets: tuple[RedirectTarget, ...]


def required_access(text: str, folder: Path | None = None) -> RequiredAccess:
    """The access required by a line of bash in ``folder``, in which file patterns are expanded. Blocks."""
    parts = [part for outer in parse(text) for part in (outer, *_inner_parts(outer))]
    folder_changes = any(isinstance(part, Opaque) or _changes_folder(part) for part in parts)
    where = None if folder_changes else folder
    access = dict.fromkeys(request for part in parts for request in _requests(part, where))
    targets = dict.fromkeys(_target(part, folder_changes) for part in parts if isinstance(part, Redirect))
    relevant = (target for target in targets if target.path is None or not _HARMLESS_FILES.fullmatch(target.path))
    # A line with only comments is still a command.
    return RequiredAccess(tuple(access) or (AccessRequest(TOOL, Action.EXECUTE, text.strip()),), tuple(relevant))


def _inner_parts(part: Part) -> Sequence[Part]:
    return inner(part) if isinstance(part, Command) else ()


def _changes_folder(part: Part) -> bool:
    """Whether relative paths may have another meaning after it."""
    return (
        isinstance(part, Command)
        and bool(part.words)
        and (part.words[0].text in _CHANGE_FOLDER or not part.words[0].plain)
    )


def _requests(part: Part, folder: Path | None) -> Iterator[AccessRequest]:
    match part:
        case Command(words, assignments):
            if assignments:
                yield _with_assignments(part)
            if words:
                yield _execute(part)
            yield from _secrets_named(words)
            for word in words:
                if word.globs and not word.computed:
                    yield from _secrets_matching(word.text, folder)
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
    normalized = _normalized(words)
    also = () if normalized == tuple(words) else (_subject(normalized, command.appended),)
    unsafe = _has_unsafe_option(normalized)
    computed = unsafe or any(word.computed or _EVALUATED in word.text for word in words)
    if computed and known is None:
        known = subject
    lasting = None if unsafe else _lasting_pattern(words)
    return AccessRequest(TOOL, Action.EXECUTE, subject, known=known, computed=computed, also=also, lasting=lasting)


def _subject(words: Sequence[Word], appended: bool) -> tuple[str, str | None]:
    """The command as the subject of rules, and its known beginning; ``None`` if all of it is known."""
    uncertain = next((index for index, word in enumerate(words) if not word.plain), None)
    subject = " ".join(word.shown for word in words)
    if uncertain is not None:
        return subject, "".join(f"{word.shown} " for word in words[:uncertain]) + words[uncertain].fixed
    return subject, f"{subject} " if appended else None


def _normalized(words: Sequence[Word]) -> tuple[Word, ...]:
    """The command without the folder of its program and, for git, without the options before the subcommand: a rule
    that denies ``git push`` also applies to ``/usr/bin/git -C . push``."""
    program, rest = words[0], list(words[1:])
    if program.plain and "/" in program.text:
        name = program.text.rsplit("/", 1)[-1]
        program = Word(name, name)
    if program.text == "git":
        while rest and rest[0].text.startswith("-"):
            if rest.pop(0).text in _GIT_OPTIONS_WITH_VALUE and rest:
                rest.pop(0)
    return (program, *rest)


def _has_unsafe_option(words: Sequence[Word]) -> bool:
    """Whether the command has one of ``_UNSAFE_OPTIONS``, also abbreviated or combined with other options."""
    unsafe = _UNSAFE_OPTIONS.get(words[0].text, ())
    for text in (word.text.split("=", 1)[0] for word in words[1:]):
        if text.startswith("--"):
            if any(len(text) > 2 and option.startswith(text) for option in unsafe):
                return True
        elif text.startswith("-") and any(len(option) == 2 and option[1] in text[1:] for option in unsafe):
            return True
    return False


def _with_assignments(command: Command) -> AccessRequest:
    """The command including its assignments: a variable may change what a command does, so a rule about the command
    without them does not allow it."""
    text = " ".join((*command.assignments, *(word.shown for word in command.words)))
    known = re.split(r"[$`]", text, maxsplit=1)[0] if any(sign in text for sign in "$`") else None
    return AccessRequest(TOOL, Action.EXECUTE, text, known=known, computed=known is not None)


def _lasting_pattern(words: Sequence[Word]) -> str | None:
    for length in range(len(words), 0, -1):
        start = words[:length]
        if not all(word.plain for word in start):
            continue
        texts = tuple(word.text for word in start)
        wild = (*texts[:-1], "*") if length > 1 and not texts[-1].startswith("-") else texts
        if texts in _EXTENSIBLE or wild in _EXTENSIBLE:
            return escape_pattern(" ".join(word.shown for word in start)) + " *"
    return None


def _secrets_named(words: Iterable[Word]) -> Iterator[AccessRequest]:
    """Access to files that may hold secrets and that ``words`` name; a rule ``cat *`` does not allow it."""
    for word in words:
        for text in (word.text, *_SPLIT.split(word.text)):
            if text and is_secret(text):
                yield AccessRequest("read_file", Action.READ_SECRET, text)


def _secrets_matching(pattern: str, folder: Path | None) -> Iterator[AccessRequest]:
    """Access to files that may hold secrets and that ``pattern`` matches. If the pattern cannot be expanded, it is
    compared with the usual names of such files."""
    if folder is None or len(_WILDCARD.findall(pattern)) > _MAX_WILDCARDS:
        last = pattern.rsplit("/", 1)[-1]
        matching = (name for name in _SECRET_NAMES if fnmatchcase(name, last) and (name[0] != "." or last[0] == "."))
        found = [pattern] if next(matching, None) else []
    else:
        names = iglob(os.path.expanduser(pattern), root_dir=folder)  # noqa: PTH111, PTH207 - as bash expands it
        found = [name for name in islice(names, _MAX_FILES) if is_secret(name)]
    for name in found[:_MAX_SECRETS]:
        yield AccessRequest("read_file", Action.READ_SECRET, name)


def _target(redirect: Redirect, folder_changes: bool) -> RedirectTarget:
    word = redirect.target
    if word is None:
        return RedirectTarget("?", None, redirect.writes)
    known = word.plain and (word.text.startswith("/") or not folder_changes)
    return RedirectTarget(visible(word.text), word.text if known else None, redirect.writes)
