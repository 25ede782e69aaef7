"""Commands that run other commands: ``timeout 5 rm x`` also runs ``rm x``."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from deputy_agents.shell.parse import ASSIGNMENT, RESERVED, parse
from deputy_agents.shell.part import Command, Opaque, Part
from deputy_agents.shell.surroundings import HERE
from deputy_agents.shell.word import Word


@dataclass(frozen=True, slots=True)
class _Wrapper:
    """The syntax of a program that runs another command. ``flags`` are options without a value, ``valued`` options with
    one, ``operands`` the number of words before the command. ``settings`` matches assignments that can precede the
    command. ``appends``: the program adds words to it. ``script`` is an option after the operands whose value is a line
    of shell. With the options ``shows``, the command is only described."""

    flags: frozenset[str] = frozenset()
    valued: frozenset[str] = frozenset()
    operands: int = 0
    settings: re.Pattern[str] | None = None
    appends: bool = False
    script: str = ""
    shows: frozenset[str] = frozenset()


_ANY_NAME: Final = re.compile(r"[^=]*=")


def _wrapper(
    flags: str = "",
    valued: str = "",
    operands: int = 0,
    settings: re.Pattern[str] | None = None,
    appends: bool = False,
    script: str = "",
    shows: str = "",
) -> _Wrapper:
    flag_set, valued_set, shows_set = (frozenset(options.split()) for options in (flags, valued, shows))
    return _Wrapper(flag_set, valued_set, operands, settings, appends, script, shows_set)


_WRAPPERS: Final[Mapping[str, _Wrapper]] = {
    "command": _wrapper("-p", shows="-v -V"),
    "builtin": _wrapper(),
    "exec": _wrapper("-c -l", "-a"),
    "nohup": _wrapper(),
    "setsid": _wrapper("-c -f -w --ctty --fork --wait"),
    "time": _wrapper("-p", settings=ASSIGNMENT),
    "nice": _wrapper("", "-n --adjustment"),
    "ionice": _wrapper("-t", "-c -n"),
    "chrt": _wrapper("-b -f -i -o -r", "", 1),
    "taskset": _wrapper("-c", "", 1),
    "stdbuf": _wrapper("", "-i -o -e"),
    "timeout": _wrapper("-v --foreground --preserve-status --verbose", "-k -s --kill-after --signal", 1),
    "env": _wrapper("- -i --ignore-environment", "-u --unset", settings=_ANY_NAME),
    "sudo": _wrapper("-n -E -H -b -k", "-u -g -p -C -T --user --group", settings=_ANY_NAME),
    "doas": _wrapper("-n", "-u -C"),
    "xargs": _wrapper("-0 -r -t --null --no-run-if-empty", "-n -P -L -d -a -E -s", appends=True),
    "busybox": _wrapper(),
    "caffeinate": _wrapper("-d -i -m -s -u", "-t -w"),
    "flock": _wrapper("-s -x -n -u", "-w -E", 1, script="-c"),
}
_POSIX_SHELLS: Final = frozenset({"sh", "dash", "ash"})
_OTHER_SHELLS: Final = frozenset({"zsh", "ksh", "mksh"})
_SHELLS: Final = _POSIX_SHELLS | _OTHER_SHELLS | {"bash"}
_SHELL_FLAGS: Final = frozenset("ceuvxfnhC")
"""Options of shells with which they read a line as usual, and no other file than it names."""
_NOT_POSIX: Final = re.compile(
    r"\[\[|\(\(|<<<|\$['\"]|\|&|[<>]\(|&>|>&(?!\s*[\d&-])|\b(?:function|select|coproc)\b|\+=|[?*+@!]\("
)
"""Syntax that other shells may read as commands or redirections: ``[[ a || b ]]`` runs ``b``."""
_FIND_RUNS: Final = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_UNANALYZED: Final = frozenset(
    """
    coproc parallel watch strace ltrace gdb unshare nsenter chroot proot fakeroot bwrap firejail script expect entr
    su runuser setpriv systemd-run at batch fish csh tcsh pwsh
    """.split()  # noqa: SIM905 - as a list it would fill a page
)
"""Programs that run a command in ways that are not analyzed here."""
_RUN_ARGUMENTS: Final = frozenset(
    """
    asdf bun bundle bunx conda direnv docker dotenv hatch i386 kubectl linux32 linux64 mise nerdctl nix npm npx pdm
    pipenv pixi pnpm podman poetry rbenv rye setarch ssh uv uvx volta x86_64 xvfb-run yarn
    """.split()  # noqa: SIM905 - as a list it would fill a page
)
"""Programs that run their arguments as a command: computed ones could become any."""
_CALLBACK_BUILTINS: Final = frozenset({"mapfile", "readarray", "compgen", "complete"})
"""Builtins that run the value of ``-C``."""
_MAX_COMMANDS_OF_FIND: Final = 8
"""Commands of one ``find`` that are read: each may be part of those before it."""
_MAX_DEPTH: Final = 10
"""Commands within commands that are read; with more, the line is not understood."""
_NOT_FILES: Final = ("/dev/", "/proc/")
"""Folders whose entries are not regular files: a script there may be the input of the command."""


def inner(command: Command) -> tuple[Part, ...]:
    """Everything that ``command`` runs in addition to itself, at every depth."""
    return tuple(_all_inner(command))


def _all_inner(command: Command, depth: int = 0) -> Iterator[Part]:
    if depth > _MAX_DEPTH:
        yield _opaque(command.words)
        return
    for part in _direct_inner(command):
        if isinstance(part, Command):
            run = replace(part, at=command.at.around(part.at))
            yield run
            yield from _all_inner(run, depth + 1)
        else:
            yield part


def _direct_inner(command: Command) -> Iterator[Part]:
    words = command.words
    name = words[0].text.rsplit("/", 1)[-1] if words and words[0].plain else ""
    if name in _WRAPPERS:
        yield from _from_wrapper(_WRAPPERS[name], command)
    elif name == "eval":
        yield from _from_script(_operands(words))
    elif name in _SHELLS:
        yield from _from_shell(name, command)
    elif name == "trap" and len(_operands(words)) > 1:
        yield from _from_script(_operands(words)[:1])
    elif name == "alias":
        yield from _from_alias(words)
    elif name == "find":
        yield from _from_find(command)
    elif name in _UNANALYZED or _runs_its_input(name, words) or _runs_computed_words(name, words):
        yield _opaque(words)


def is_transparent(words: Sequence[Word]) -> bool:
    """Whether the command reads its input only as far as the command does that it runs."""
    name = words[0].text.rsplit("/", 1)[-1] if words[0].plain else ""
    return name in _WRAPPERS or name in ("eval", "cd", "pushd", "popd")


def _opaque(words: Sequence[Word]) -> Opaque:
    return Opaque(" ".join(word.shown for word in words))


def _operands(words: Sequence[Word]) -> Sequence[Word]:
    return words[2:] if len(words) > 1 and words[1].text == "--" else words[1:]


def _runs_its_input(name: str, words: Sequence[Word]) -> bool:
    if name in ("source", "."):
        return not words[1:] or not words[1].plain or words[1].text.startswith(_NOT_FILES)
    return name in _CALLBACK_BUILTINS and any(word.text.startswith("-C") or not word.plain for word in words)


def _runs_computed_words(name: str, words: Sequence[Word]) -> bool:
    return name in _RUN_ARGUMENTS and any(word.computed for word in words)


def _from_alias(words: Sequence[Word]) -> Iterator[Part]:
    for word in words[1:]:
        _, equals, text = word.text.partition("=")
        if not word.plain:
            yield _opaque(words)
        elif equals:
            yield from parse(text)


def _from_wrapper(wrapper: _Wrapper, command: Command) -> Iterator[Part]:
    words = list(command.words[1:])
    while words and words[0].text.startswith("-"):
        option = words.pop(0)
        if option.text == "--":
            break
        if option.text in wrapper.shows:
            return
        if not option.plain or not _consume_option(wrapper, option.text, words):
            yield _opaque(command.words)
            return
    taken = words[: wrapper.operands]
    words = words[wrapper.operands :]
    if wrapper.script and words and words[0].text == wrapper.script:
        yield from _from_script(words[1:2])
        return
    settings: list[str] = []
    while wrapper.settings and words and wrapper.settings.match(words[0].text):
        settings.append(words.pop(0).shown)
    if not all(word.plain for word in taken) or (words and words[0].text in RESERVED):
        yield _opaque(command.words)
    if words:
        yield Command(tuple(words), tuple(settings), wrapper.appends or command.appended)
    elif command.appended or wrapper.appends:
        yield _opaque(command.words)


def _consume_option(wrapper: _Wrapper, option: str, following: list[Word]) -> bool:
    """Whether the option is known; removes its value, if any, from ``following``."""
    if option in wrapper.flags:
        return True
    if option in wrapper.valued:
        return bool(following) and following.pop(0).plain
    name, equals, _ = option.partition("=")
    if equals:
        return name in wrapper.valued
    # -n5: a value attached to its option.
    return not option.startswith("--") and option[:2] in wrapper.valued


def _from_shell(name: str, command: Command) -> Iterator[Part]:
    """``bash -c '...'`` runs a text; ``bash file`` runs a file, which is a command like any other; a shell with neither
    runs its input."""
    words = command.words
    rest = list(words[1:])
    runs_text = False
    while rest and rest[0].text.startswith(("-", "+")):
        option = rest.pop(0)
        if option.text == "--":
            break
        if not option.plain or set(option.text[1:]) - _SHELL_FLAGS or option.text in ("-", "+"):
            yield _opaque(words)
            return
        runs_text = runs_text or (option.text.startswith("-") and "c" in option.text)
    if rest and runs_text:
        yield from _from_script(rest[:1])
        if name in _OTHER_SHELLS or (name in _POSIX_SHELLS and _NOT_POSIX.search(rest[0].text)):
            yield _opaque(words)
    elif not rest or command.appended or not rest[0].plain or rest[0].text.startswith(_NOT_FILES):
        yield _opaque(words)


def _from_find(command: Command) -> Iterator[Part]:
    words = command.words
    many = sum(word.text in _FIND_RUNS for word in words) > _MAX_COMMANDS_OF_FIND
    if command.appended or many:
        yield _opaque(words)
    if many:
        return
    for index, word in enumerate(words):
        if not word.plain:
            if word.computed:
                yield _opaque(words)
        elif word.text in _FIND_RUNS:
            run: list[Word] = []
            for following in words[index + 1 :]:
                if following.text == ";" or (following.text == "+" and run and run[-1].text == "{}"):
                    break
                run.append(_with_placeholder(following))
            if run:
                folders = (None,) if word.text.endswith("dir") else HERE.folders
                yield Command(tuple(run), at=replace(HERE, folders=folders))


def _with_placeholder(word: Word) -> Word:
    """``find`` replaces ``{}`` with the names that it finds."""
    if "{}" not in word.text:
        return word
    return replace(word, fixed=word.text.split("{}")[0], globs=True)


def _from_script(words: Sequence[Word]) -> Iterator[Part]:
    """What is run by ``words`` as a command line."""
    text = " ".join(word.text for word in words)
    if all(word.plain for word in words):
        yield from parse(text)
    else:
        yield Opaque(text)
