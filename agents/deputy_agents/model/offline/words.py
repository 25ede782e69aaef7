"""Rules for the words of a request: its keywords, and whether it asks for more than a search."""

import re
from collections.abc import Sequence

_COMMON = """
a about above add after again all also an and any anyone are around as ask at be because been before being best
both build but by called calls can change changes cite class classes code could create defined definition
definitions delete describe did do docs documentation does doing done each else every everything explain file
files find first fix for from function functions get gets give given go goes going got had handle handled
handles happen happens has have help here how i if implement implementation implemented improve in into is it
its just know let like line lines list look make many may me method methods might module modules more most my
need new no not of off on one only optimise optimize or other our out over overview package packages please
project question range ranges refactor remove rename replace repo repository run same search see should show so
some summarize summary tell test tests than thanks that the their them then there these they thing things this
those to too two under up update us usage usages used uses using variable variables very want was way we were
what when where whether which while who whole why will with within without work works workspace would write you
your
"""
_STOP_WORDS = frozenset(_COMMON.split())
_QUOTED = re.compile(r"\"([^\"\n]{2,80})\"|`([^`\n]{2,80})`|“([^”\n]{2,80})”|(?<!\w)'([^'\n]{2,80})'(?!\w)")
_WORD = re.compile(r"[^\W\d][\w]*(?:[.\-/][\w]+)*")
_CODE_LIKE = re.compile(r"_|\d|[./]|[a-z][A-Z]")
_MAX_WORDS = 4
_ENDING = 3
_ASKS_FOR_A_CHANGE = re.compile(
    r"\W*((please|can|could|would|will|you|i|we|want|need|like|to|let'?s|just|now)\W+)*"
    r"(add|adapt|adjust|build|change|clean|commit|convert|create|decrease|delete|deploy|document|edit|extract|fix|format|"
    r"generate|implement|improve|increase|inline|insert|install|make|merge|migrate|move|optimi[sz]e|port|publish|raise|"
    r"refactor|reduce|remove|rename|reorder|replace|rewrite|run|set|simplify|sort|split|substitute|swap|test|translate|"
    r"turn|undo|update|upgrade|use|write)\b",
    re.IGNORECASE,
)
_GREETING = re.compile(
    r"\W*(hi|hello|hey|hallo|good (morning|afternoon|evening|day)|thanks?( you)?( very much)?|bye|help|test|ping)"
    r"\b[\w ]{0,20}\W*",
    re.IGNORECASE,
)


def is_greeting(task: str) -> bool:
    """Whether ``task`` is empty or only a greeting, thanks or a request for help."""
    return not task.strip() or _GREETING.fullmatch(task.strip()) is not None


def asks_for_a_change(task: str) -> bool:
    """Whether ``task`` asks to change or to run something."""
    return _ASKS_FOR_A_CHANGE.match(task) is not None


def keywords(task: str) -> tuple[str, ...]:
    """At most four words or quoted phrases of ``task``, those that look like code first."""
    plain = [word for word in _WORD.findall(_QUOTED.sub(" ", task)) if _is_specific(word)]
    ranked = sorted(plain, key=lambda word: (_CODE_LIKE.search(word) is None, -min(len(word), 8)))
    found = {word.casefold(): word for word in reversed([*quoted(task), *ranked])}
    distinct = (word for key, word in reversed(found.items()) if not any(_inflects(key, other) for other in found))
    return tuple(distinct)[:_MAX_WORDS]


def quoted(task: str) -> tuple[str, ...]:
    """The quoted words and phrases of ``task``."""
    return tuple(next(filter(None, match.groups())) for match in _QUOTED.finditer(task))[:_MAX_WORDS]


def _inflects(word: str, other: str) -> bool:
    """A search for ``other`` finds ``word`` too: ``decided`` after ``decide``."""
    return word != other and word.startswith(other) and len(word) - len(other) <= _ENDING


def _is_specific(word: str) -> bool:
    return len(word) > 2 and word.casefold() not in _STOP_WORDS


def loosened(words: tuple[str, ...]) -> tuple[str, ...]:
    """Parts and stems of ``words``, for a second search: ``parseConfigFiles`` becomes ``parse``, ``Config`` and
    ``File``."""
    parts = [part for word in words for part in re.split(r"[\W\d_]+|(?<=[a-z])(?=[A-Z])", word)]
    stems = (re.sub(r"(?<=\w{4})(ings?|ed|ers?|ions?|ies|es|s)$", "", part) for part in parts)
    return tuple(dict.fromkeys(stem for stem in stems if _is_specific(stem)))[:6]


def escaped(text: str) -> str:
    """``text`` as a regular expression that matches it literally in all common engines."""
    return re.sub(r"([\\.+*?()|\[\]{}^$#&\-~])", r"\\\1", text)


# -- paths and names -----------------------------------------------------------------------------------------------

_FILES = """
adoc bash cfg conf cpp cs css el go gradle hpp html ini ipynb java js json jsx kt lock lua md mjs php py pyi rb rs rst
scss sh sql svg swift toml ts tsx txt vim xml yaml yml zsh
"""
_SUFFIXES = frozenset(_FILES.split())


def is_path(word: str) -> bool:
    """Whether ``word`` is written like the path of a file, and not like a name with dots."""
    return "/" in word or word.rpartition(".")[2].casefold() in _SUFFIXES


def search_names(words: Sequence[str]) -> tuple[str, ...]:
    """What to search for: the words that are no paths, and the last part of names with dots. Without any, the names of
    the files."""
    names = [part for word in words if not is_path(word) for part in (word, *_last_part(word))]
    return tuple(dict.fromkeys(names)) or tuple(word.rpartition("/")[2].partition(".")[0] or word for word in words)


def _last_part(word: str) -> tuple[str, ...]:
    last = word.rpartition(".")[2]
    return (last,) if _WORD.fullmatch(word) and "." in word and len(last) > 2 else ()
