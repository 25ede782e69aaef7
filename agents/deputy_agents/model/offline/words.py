"""Rules for the words of a request: its keywords, and whether it asks for a replacement."""

import json
import re
from dataclasses import dataclass

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
_MAX_LINE = 400
_ENDING = 3
_GREETING = re.compile(
    r"\W*(hi|hello|hey|hallo|good (morning|afternoon|evening|day)|thanks?( you)?( very much)?|bye|help|test|ping)"
    r"\b[\w ]{0,20}\W*",
    re.IGNORECASE,
)


def is_greeting(task: str) -> bool:
    """Whether ``task`` is empty or only a greeting, thanks or a request for help."""
    return not task.strip() or _GREETING.fullmatch(task.strip()) is not None


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


# -- replacements --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Replacement:
    """Replace ``old`` with ``new`` in ``path`` (relative, or ``None`` for everywhere). With ``whole_words``, longer
    names that contain ``old`` stay unchanged."""

    old: str
    new: str
    path: str | None = None
    whole_words: bool = False

    def __str__(self) -> str:
        """A sentence that :func:`replacement` parses."""
        verb, joint = ("Rename", "to") if self.whole_words else ("Replace", "with")
        where = f" in {json.dumps(self.path, ensure_ascii=False)}" if self.path else ""
        old, new = (json.dumps(text, ensure_ascii=False) for text in (self.old, self.new))
        return f"{verb} {old} {joint} {new}{where}"


_TEXT = r"\"(?:[^\"\\]|\\.)*\"|'[^'\n]*'|`[^`\n]*`|“[^”]*”|‘[^’]*’|«[^»]*»"
_POLITE = (
    r"\s*(?:(?:please|hey|ok(?:ay)?|now|then|could|can|would|will|you|i|we|want|need|like|to|let'?s|go|ahead|and)"
    r"[\s,]+)*"
)
_FILLER = (
    r"(?:(?:all|every|each|any|occurrences?|instances?|uses?|usages?|of|the|a|name|word|text|string|term|phrase|identifier|"
    r"function|class|method|variable|constant|module|parameter|field)\s+)*"
)
_WHERE = (
    r"(?:\s+(?:everywhere|throughout.*|across.*|(?:in|inside|within|under)\s+"
    r"(?:(?:the\s+)?(?:file|folder|directory)\s+)?(?P<path>{text}|\S+?)(?:\s+(?:file|folder|directory))?"
    r"|in\s+(?:all|every|the|this|my)\b.*))?\s*(?:please)?\s*[.!?]?\s*"
).replace("{text}", _TEXT)


def _form(verbs: str, first: str, joint: str, second: str, plain: str) -> re.Pattern[str]:
    return re.compile(
        rf"{_POLITE}(?P<verb>{verbs})\s+{_FILLER}(?P<{first}>{_TEXT}|{plain})\s+(?:{joint})\s+{_FILLER}"
        rf"(?P<{second}>{_TEXT}|{plain}){_WHERE}",
        re.IGNORECASE,
    )


_FORMS = (
    _form("replace", "old", "with|by", "new", r"\S.*?"),
    _form("rename", "old", "to|into|as", "new", r"\S+?"),
    _form("change|turn", "old", "to|into", "new", r"\S+?"),
    _form("substitute|use", "new", "for|instead of|in place of", "old", r"\S+?"),
)
_IDENTIFIER = re.compile(r"[^\W\d]\w*")
_NO_PATH = frozenset({"all", "every", "the", "this", "my", "each", "any"})


def replacement(task: str) -> Replacement | None:
    """The replacement that ``task`` asks for, or ``None``."""
    line = task.strip().partition("\n")[0][:_MAX_LINE]
    for form in _FORMS:
        if (match := form.fullmatch(line)) is None:
            continue
        old, new = _unquoted(match["old"]), _unquoted(match["new"])
        raw_path = match["path"]
        if raw_path is not None and raw_path.casefold() in _NO_PATH:
            continue
        if not old or old == new:
            return None
        path = None if raw_path is None else _unquoted(raw_path)
        rename = match["verb"].casefold() == "rename" and _IDENTIFIER.fullmatch(old) is not None
        return Replacement(old, new, path, whole_words=rename)
    return None


def _unquoted(text: str) -> str:
    if text[:1] == '"' and text[-1:] == '"' and len(text) > 1:
        try:
            return str(json.loads(text))
        except ValueError:
            return text[1:-1]
    if len(text) > 1 and (text[0], text[-1]) in {("'", "'"), ("`", "`"), ("“", "”"), ("‘", "’"), ("«", "»")}:
        return text[1:-1]
    return text
