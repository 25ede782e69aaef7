"""Commands that the words of another command mention: an unknown program may run them, as in ``foo git push`` and
``foo -c 'git push'``. A rule that denies ``git push`` then asks."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from deputy_agents.shell.part import Command, Statement
from deputy_agents.shell.word import Word

_SEPARATORS: Final = re.compile(r"[\s;&|<>(){}\[\]'\"`\\$=:,!@]+")
_RUN_NOTHING: Final = frozenset(
    tuple(line.split())
    for line in """
    : | [ | apt install | apt-get install | basename | brew install | cargo add | cargo install | cat | cd | chmod
    chown | cmp | conda install | cp | cut | date | df | diff | dirname | dnf install | du | echo | egrep | exit
    false | fgrep | gem install | gh issue | gh pr | git add | git branch | git checkout | git commit | git merge
    git mv | git restore | git rm | git stash | git status | git switch | git tag | go get | grep | head | kill | ln
    ls | md5sum | mkdir | mv | npm install | pip install | pip3 install | pnpm add | poetry add | popd | printf
    pushd | pwd | readlink | realpath | rg | rm | rmdir | seq | sha256sum | sleep | sort | stat | tail | tee | test
    touch | tr | true | type | uniq | uv add | wc | which | yarn add
    """.replace("\n", "|").split("|")
    if line.split()
)
"""Beginnings of commands that run no other command that their operands name."""
_RUNS: Final = re.compile(
    r"--(?:pre|hostname-bin|co|com[\w-]*|ext-diff|upload-pack|exec|script-shell)(?:=.*)?"
    r"|(?:-o|--option=)?[A-Za-z]+::[^\s=]*=.*",
    re.DOTALL,
)
"""Options with which some of them do."""
_ATTACHED: Final = re.compile(r"-[A-Za-z](?=.)")
"""A short option whose value follows it in the same word, as in ``git rebase -x'git push'``."""
_WINDOW: Final = 30
"""Words of a command of which several beginnings are tried."""
_WITH_SUBCOMMANDS: Final = frozenset(
    """apt apt-get brew bun bundle cargo conda dnf docker dotnet gem gh git go gradle helm kubectl mvn nix npm pdm pip
    pip3 pipenv pixi pnpm podman poetry rustup svn systemctl uv yarn""".split()  # noqa: SIM905 - names of programs
)
"""Programs whose first operand is one of their own commands: ``git rm`` does not run ``rm``."""


def mentioned_in_command(command: Command) -> tuple[str, ...]:
    """The commands that ``command`` mentions, as texts of words that are separated by one space. Any part of a text may
    be a command."""
    texts = [text for assignment in command.assignments for text in _variants([assignment.partition("=")[2]])]
    if not command.words:
        return _unique(texts)
    name, rest = command.words[0].text.rsplit("/", 1)[-1], command.words[1:]
    runs = any(_RUNS.fullmatch(word.text) for word in rest)
    if (name,) in _RUN_NOTHING and not runs:
        return _unique(texts)
    count = _count_of_options(rest)
    options, operands = rest[:count], rest[count:]
    settings = [token for text in (*texts, *_variants(_texts(options))) for token in text.split(" ") if token]
    texts += _variants(_texts(options))
    # An option may have a value, so any of the words after the options may be the program's own command. A setting
    # may define such a command.
    starts = [_texts(rest[index : index + _WINDOW]) for index in range(1, count + 1) if index < len(rest)]
    starts += [[setting, *_texts(operands[:_WINDOW])] for setting in settings]
    texts.append(" ; ".join(" ".join((name, *words)) for words in starts))
    if not operands or runs or (name, operands[0].text) not in _RUN_NOTHING:
        own = 1 if name in _WITH_SUBCOMMANDS else 0
        texts += _variants(_texts(operands[own:]))
        texts.append(" ".join(word.shown for word in operands[own:]))
        texts += _variants([command.at.piped]) + _variants([command.at.redirected])
    return _unique(texts)


def mentioned_in_statement(statement: Statement) -> tuple[str, ...]:
    """The commands that assigned values mention: other programs may run them, as Git does with ``GIT_PAGER``."""
    return _unique(text for word in statement.words for text in _variants([word.partition("=")[2]]))


def _count_of_options(words: Sequence[Word]) -> int:
    """The number of words before the first operand, if every option has a value."""
    count = 0
    while count < len(words) and words[count].text.startswith("-"):
        has_value = "=" not in words[count].text and count + 1 < len(words)
        count += 2 if has_value and not words[count + 1].text.startswith("-") else 1
    return count


def _texts(words: Iterable[Word]) -> list[str]:
    return [word.text for word in words]


def _variants(words: Sequence[str]) -> list[str]:
    """``words`` as one text: as they are, without punctuation, without the folders of programs, and without short
    options before their values."""
    text = " ".join(" ".join(words).split())
    tokens = [token for token in _SEPARATORS.split(text) if token]
    names = [token.rsplit("/", 1)[-1] for token in tokens]
    values = [_ATTACHED.sub("", token, count=1).rsplit("/", 1)[-1] for token in tokens]
    return [text, " ".join(tokens), " ".join(names), " ".join(values)]


def _unique(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text for text in texts if text))
