"""What bash's own commands and assignments do to the rest of a line: they can change which program a later command
runs, or run a value as code."""

import re
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from shlex import quote
from typing import Final

from deputy_agents.shell.evaluation import tested_names
from deputy_agents.shell.word import Word, read_word


class Effect(IntEnum):
    """What a command or assignment does besides running the program that its words name."""

    NONE = 0
    LINE = 1
    """Sets a variable or changes the shell, so that later commands may do something else: only the complete line
    decides what runs."""
    UNKNOWN = 2
    """May run what no word of the line names."""


HARMLESS_VARIABLE: Final = re.compile(r"(?!.*_proxy$|npm_)[a-z_][a-z0-9_]*")
"""Names that no program reads from its environment. Every other variable may change what a command does, as an
assignment of ``PATH`` or ``GIT_PAGER`` would."""
_MEANINGFUL: Final = re.compile(
    r"BASH\w*|SHELLOPTS|ENV|PS\d|PROMPT_COMMAND|S?RANDOM|SECONDS|LINENO|EPOCH\w*|HIST\w*|OPT(?:IND|ARG|ERR)|DIRSTACK"
    r"|COMP_?\w+|FUNC\w+|GROUPS|IFS|MAPFILE|PIPESTATUS|POSIXLY_CORRECT|REPLY|TMOUT|COPROC|histchars|auto_resume|_"
)
"""Variables that bash itself reads, calculates with or runs."""
_ASSIGNMENT: Final = re.compile(r"(?P<name>[A-Za-z_]\w*)(?:\[(?P<subscript>[^]]*)\])?\+?=(?P<value>.*)", re.DOTALL)
_IDENTIFIER: Final = re.compile(r"[A-Za-z_]\w*")
_DECLARED: Final = re.compile(r"(?P<name>[A-Za-z_]\w*)(?:\+?=(?P<value>.*))?", re.DOTALL)
_NUMBERS: Final = frozenset({"$!", "$?", "$#", "$$", '"$!"', '"$?"', '"$#"', '"$$"'})
_INERT_OPTION: Final = re.compile(r"[-+][euxv]+o?|pipefail|errexit|nounset|xtrace|verbose")
_ALIKE: Final = frozenset(
    """: [ bg break builtin caller cd command continue dirs disown echo eval exit false fg help kill logout popd pushd
    pwd return shift suspend test time times true type ulimit umask""".split()  # noqa: SIM905 - builtins of a shell
)
"""Builtins that do not change what later commands mean. What others such as ``eval`` run is found elsewhere, and a
change of the folder is followed elsewhere."""


SPECIAL: Final = frozenset(
    ". : break continue eval exec exit export readonly return set shift source times trap unset".split()  # noqa: SIM905
)
"""Builtins after which assignments before them stay, in POSIX shells."""


def assignment_effect(source: str, lasting: bool = True) -> Effect:
    """The effect of an assignment, as written. Not ``lasting``: it is only for the command after it."""
    found = _ASSIGNMENT.fullmatch(source)
    if found is None:
        return Effect.UNKNOWN
    name, subscript, value = found["name"], found["subscript"], read_word(found["value"])
    if (subscript is not None and not subscript.isdecimal()) or (value is None and "[" in found["value"]):
        return Effect.UNKNOWN
    if _MEANINGFUL.fullmatch(name) and (value is None or _has_substitution(value) or "[" in value.text):
        return Effect.UNKNOWN
    literal = value is not None and not _has_substitution(value)
    return Effect.NONE if literal and (not lasting or HARMLESS_VARIABLE.fullmatch(name)) else Effect.LINE


def test_effect(source: str) -> Effect:
    """The effect of a test in ``[ ]`` or ``[[ ]]``, as written."""
    if tested_names(source) is None:
        return Effect.UNKNOWN
    return Effect.LINE if re.search(r"[$`]|=~", source) else Effect.NONE


def command_effect(words: Sequence[Word]) -> Effect:
    """The effect of a command with these words, if it is one of bash itself."""
    computed = any(word.computed for word in words)
    least = Effect.LINE if computed or (words and not words[0].plain and words[0].text != "[") else Effect.NONE
    name = words[0].text if words else ""
    if name not in BUILTINS or name in _ALIKE - {"[", "test"}:
        return least
    return max(least, _EFFECTS.get(name, _unknown)(words[1:]))


def _has_substitution(word: Word) -> bool:
    """Whether the value contains characters that run commands if bash evaluates it again."""
    return word.computed or any(sign in word.text for sign in "$`")


def _unknown(words: Sequence[Word]) -> Effect:
    del words
    return Effect.UNKNOWN


def _line(words: Sequence[Word]) -> Effect:
    del words
    return Effect.LINE


def _replaces_shell(words: Sequence[Word]) -> Effect:
    """Without a command, ``exec`` redirects the files of all later commands."""
    return Effect.NONE if words and not words[0].text.startswith("-") else Effect.LINE


def _test(words: Sequence[Word]) -> Effect:
    shown = [word.text if word.computed else quote(word.text) for word in words]
    return test_effect(" ".join(("[", *(shown[:-1] if words and words[-1].text == "]" else shown), "]")))


def _reads(words: Sequence[Word]) -> Effect:
    """``read x``: assigns what is read. A name with a subscript is evaluated."""
    odd = any((word.computed and word.text not in _NUMBERS) or "[" in word.text for word in words)
    return Effect.UNKNOWN if odd else Effect.LINE


def _waits(words: Sequence[Word]) -> Effect:
    options = [word for word in words if word.text.startswith("-")]
    effect = _reads(words)
    return effect if effect is Effect.UNKNOWN or any("p" in option.text for option in options) else Effect.NONE


def _prints(words: Sequence[Word]) -> Effect:
    if not words or words[0].text == "--" or not words[0].fixed.startswith("-"):
        # The first word could be -v with a subscript only if nothing of it is known.
        return Effect.UNKNOWN if words and words[0].computed and not words[0].fixed else Effect.NONE
    return _reads(words[:2])


def _declares(words: Sequence[Word], evaluates_value: bool = False) -> Effect:
    """``export x=y``. ``evaluates_value``: ``declare`` reads ``(…)`` as an array if the variable is one."""
    strongest = Effect.LINE
    for word in words:
        text = word.text
        if text.startswith("-") and word.plain:
            if set(text) - set("-rxgp"):
                return Effect.UNKNOWN
            continue
        found = _DECLARED.fullmatch(text)
        if found is None or (word.computed and "=" not in word.fixed):
            return Effect.UNKNOWN
        value = found["value"] or ""
        if _has_substitution(word) and (evaluates_value or _MEANINGFUL.fullmatch(found["name"])):
            return Effect.UNKNOWN
        if value.startswith("(") or (_MEANINGFUL.fullmatch(found["name"]) and "[" in value):
            return Effect.UNKNOWN
    return strongest


def _declares_and_evaluates(words: Sequence[Word]) -> Effect:
    return _declares(words, evaluates_value=True)


def _unsets(words: Sequence[Word]) -> Effect:
    names = words[1:] if words and words[0].text == "-v" else words
    known = all(word.plain and _IDENTIFIER.fullmatch(word.text) for word in names)
    return Effect.LINE if known else Effect.UNKNOWN


def _sets(words: Sequence[Word]) -> Effect:
    if words and all(word.plain and _INERT_OPTION.fullmatch(word.text) for word in words):
        return Effect.NONE
    first = words[0].text if words and words[0].plain else ""
    return Effect.LINE if first in ("--", "-a", "+a") and (len(words) == 1 or first == "--") else Effect.UNKNOWN


def _hashes(words: Sequence[Word]) -> Effect:
    return Effect.LINE if [word.text for word in words] == ["-r"] else Effect.UNKNOWN


def _lists_jobs(words: Sequence[Word]) -> Effect:
    return Effect.UNKNOWN if any(word.computed or word.text.startswith("-x") for word in words) else Effect.NONE


_EFFECTS: Final[Mapping[str, Callable[[Sequence[Word]], Effect]]] = {
    **dict.fromkeys(("test", "["), _test),
    **dict.fromkeys(("read", "mapfile", "readarray", "getopts"), _reads),
    **dict.fromkeys(("export", "readonly"), _declares),
    **dict.fromkeys(("declare", "typeset", "local"), _declares_and_evaluates),
    **dict.fromkeys(("source", ".", "trap"), _line),
    "exec": _replaces_shell,
    "printf": _prints,
    "wait": _waits,
    "unset": _unsets,
    "set": _sets,
    "hash": _hashes,
    "jobs": _lists_jobs,
}
"""Builtins with an effect that is known. That of all others is unknown."""
BUILTINS: Final = (
    _ALIKE
    | _EFFECTS.keys()
    | frozenset("alias bind compgen complete compopt enable fc history let shopt unalias".split())  # noqa: SIM905
)
