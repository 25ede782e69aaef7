"""How much of a command a rule must spell out, because its wildcards cover only what is known to be harmless."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Final

from deputy_agents.files.sensitive import protected_part
from deputy_agents.shell.known_commands import WITH_SUBCOMMANDS, KnownCommand, Operands, find_command
from deputy_agents.shell.scope import Scope, may_select_secrets
from deputy_agents.shell.surroundings import Folder
from deputy_agents.shell.word import Word

_NUMBER: Final = re.compile(r"-\d+")
_NAME: Final = re.compile(r"[\w./%:+,~^@-]+")
_URL: Final = re.compile(r"https://[\w.-]+(?::\d+)?/[\w./~-]*")
_GIT_FLAGS: Final = frozenset(
    {"--no-pager", "-P", "--no-optional-locks", "--literal-pathspecs", "--no-replace-objects"}
)
"""Options of git before its subcommand that are harmless."""
_GIT_VALUED: Final = frozenset(
    {"-c", "-C", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--config-env", "--super-prefix"}
)
_SELECTING: Final = frozenset({"-g", "--glob", "--iglob"})
"""Options of ``rg`` with a glob that also selects hidden files."""
_JQ_MODULES: Final = re.compile(r"(?<![.\w$])(?:import|include|modulemeta)\b")
"""Words of ``jq`` that read further files."""
_WITHOUT_TEXT: Final = re.compile(r"-[^-]*e.*|--regexp.*|--files|--type-list", re.DOTALL)
"""Options after which the first operand is a path and no text."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """``spelled`` is the number of words that a rule must spell out. ``lasting`` is the number of words at the start of
    the rule for a lasting approval; 0 if it is exactly the command. ``is_filter``: the input of the command is data
    that cannot change what it does. ``known``: the entry in the table of known commands."""

    spelled: int = 0
    lasting: int = 0
    is_filter: bool = False
    known: KnownCommand | None = None

    @property
    def only_prints(self) -> bool:
        """Whether any words are harmless in any folder."""
        return self.known is not None and self.known.operands is Operands.ANY


def cover(words: Sequence[Word], folders: Sequence[Folder], scope: Scope) -> Coverage:
    """What a rule with a wildcard covers of a command that runs in one of ``folders``. Blocks."""
    name = program_name(words[0])
    before = count_git_options(words) if name == "git" else 0
    texts = [name, *(word.text if word.plain else "\0" for word in words[1 + before :])]
    known = find_command(tuple(texts))
    if known is None:
        return Coverage(_through_subcommand(words) if name in WITH_SUBCOMMANDS else 0)
    start = before + len(known.words)
    options = words[1 : 1 + before]
    unlisted = max((index for index, word in enumerate(options, 1) if word.text not in _GIT_FLAGS), default=0)
    reader = OperandReader(known, words, start, scope, folders if not options else _folders_of_git(options, folders))
    problems = reader.read()
    is_filter = known.is_filter and not reader.unknown_options and not unlisted
    plain = words[0].plain and words[0].text == name and not options
    lasting = start if known.lasting and plain and not problems else 0
    spelled = max((unlisted, *problems)) + 1 if unlisted or problems else 0
    return Coverage(spelled, lasting, is_filter, known)


def program_name(word: Word) -> str:
    """The name of a program without its folder."""
    return word.text.rsplit("/", 1)[-1] if word.plain else "\0"


def count_git_options(words: Sequence[Word]) -> int:
    """The number of words between ``git`` and its subcommand."""
    at = 1
    while at < len(words) and words[at].text.startswith("-"):
        at += 2 if words[at].text in _GIT_VALUED else 1
    return min(at, len(words)) - 1


def _through_subcommand(words: Sequence[Word]) -> int:
    """The number of words up to the first one that is not an option."""
    return next((index for index, word in enumerate(words) if index and not word.text.startswith("-")), 0) + 1


def _folders_of_git(options: Sequence[Word], folders: Sequence[Folder]) -> Sequence[Folder]:
    return folders if all(word.text in _GIT_FLAGS for word in options) else (None,)


@dataclass(slots=True)
class OperandReader:
    """Reads the further words of a known command, which begin at ``start``. ``paths`` are then its operands that are no
    text."""

    known: KnownCommand
    words: Sequence[Word]
    start: int
    scope: Scope
    folders: Sequence[Folder]
    unknown_options: int = 0
    paths: list[Word] = field(default_factory=list[Word])

    def read(self) -> list[int]:
        """The indexes of the words that are not known to be harmless."""
        kind, found, operands, at, ended = self.known.operands, list[int](), 0, self.start, False
        texts = 1 if kind is Operands.TEXT_AND_PATHS else 0
        while at < len(self.words) and kind is not Operands.ANY:
            word, used = self.words[at], 1
            if word.plain and word.text == "--" and not ended:
                ended = True
                found += [at] if kind is Operands.NONE else []
            elif self._may_be_option(word, ended=ended):
                used = 0 if ended or not word.plain else self._count_option(at)
                texts = 0 if _WITHOUT_TEXT.fullmatch(word.text) else texts
                self.unknown_options += not used
                found += [] if used else [at]
            else:
                is_text = operands < texts and not word.computed
                self.paths += [] if is_text else [word]
                is_harmless = is_text or self._is_harmless(word, operands)
                found += [] if is_harmless and not self._reads_modules(word) else [at]
                operands += 1
            at += used or 1
        return found

    def _may_be_option(self, word: Word, *, ended: bool) -> bool:
        if word.plain:
            return word.text.startswith("-") and word.text != "-"
        return (not ended and not word.fixed and word.text[:1] in "*?[") or word.fixed.startswith("-")

    def _count_option(self, at: int) -> int:
        """The number of words of the option at ``at``, with its value; 0 if it is not a known one."""
        known, text = self.known, self.words[at].text
        if _NUMBER.fullmatch(text) and "-#" in known.flags:
            return 1
        name, equals, value = text.partition("=")
        if text.startswith("--") or known.single_dash:
            name = name[1:] if known.single_dash and name.startswith("--") else name
            if equals:
                listed = name in known.valued or name in known.optional
                return 1 if listed and self._is_harmless_value(name, value) else 0
            return 1 if name in known.flags | known.optional else self._count_with_value(at, name)
        for position, letter in enumerate(text[1:], 1):
            option, rest = f"-{letter}", text[position + 1 :]
            if option in known.optional:
                return 1 if self._is_harmless_value(option, rest) else 0
            if option in known.valued and rest:
                return 1 if self._is_harmless_value(option, rest.removeprefix("=")) else 0
            if option not in known.flags:
                return self._count_with_value(at, option)
        return 1

    def _count_with_value(self, at: int, name: str) -> int:
        if name not in self.known.valued or at + 1 >= len(self.words):
            return 0
        value = self.words[at + 1]
        is_option = value.text.startswith("-") and not _NUMBER.fullmatch(value.text)
        return 2 if value.plain and not is_option and self._is_harmless_value(name, value.text) else 0

    def _is_harmless_value(self, option: str, text: str) -> bool:
        if self.known.words == ("rg",) and option in _SELECTING and may_select_secrets(text):
            return False
        return not text or self.scope.is_inside(Word(text, text), self.folders)

    def _reads_modules(self, word: Word) -> bool:
        return self.known.words == ("jq",) and _JQ_MODULES.search(word.text) is not None

    def _is_harmless(self, word: Word, before: int) -> bool:
        """Whether a word is an operand that a wildcard covers; ``before`` is the number of operands before it."""
        kind, text = self.known.operands, word.text
        if kind is Operands.NONE or (kind is Operands.ONE and before):
            return False
        if kind is Operands.URL and not _is_usual_clone(word):
            return False
        if kind is Operands.URL and not before and _URL.fullmatch(text):
            return True
        if not self.scope.is_inside(word, self.folders):
            return False
        if kind in (Operands.NAMES, Operands.REMOTE, Operands.URL):
            is_address = kind is not Operands.NAMES and (":" in text if not before else "::" in text)
            return word.plain and bool(_NAME.fullmatch(text)) and not is_address
        return True


def _is_usual_clone(word: Word) -> bool:
    """Whether a clone from or into ``word`` cannot create a folder that other programs obey, such as ``.vscode``."""
    folder = PurePath(word.text.rstrip("/").removesuffix(".git"))
    hidden = any(part.startswith(".") for part in folder.parts)
    return word.plain and not hidden and protected_part(folder / "any") is None
