"""The requests for edits that the offline model accepts, and their grammar.

====================================  =============================================
``replace "TEXT" with "TEXT"``        every occurrence; also ``change "TEXT" to "TEXT"``
``rename NAME to NAME``               whole words only; also ``replace NAME with NAME``
``set NAME to VALUE``                 the literal assigned to a name; also ``change NAME to VALUE``
====================================  =============================================

Each may end with ``in PATH``. A VALUE is a number, a quoted string, or one of true, false and null. All else that asks
for a change needs a language model.
"""

import json
import re
from dataclasses import dataclass
from enum import StrEnum

from deputy_agents.model.offline.words import is_path

_MAX_LINE = 400


class EditKind(StrEnum):
    REPLACE = "Replace"
    RENAME = "Rename"
    SET = "Set"


@dataclass(frozen=True, slots=True)
class EditRequest:
    """Change ``old`` to ``new`` in ``path`` (relative, or ``None`` for everywhere). For ``SET``, ``old`` is a name and
    ``new`` a literal as in JSON."""

    kind: EditKind
    old: str
    new: str
    path: str | None = None

    def __str__(self) -> str:
        """A sentence that :func:`edit_request` parses."""
        joint = "with" if self.kind is EditKind.REPLACE else "to"
        new = self.new if self.kind is EditKind.SET else _quoted(self.new)
        where = f" in {_quoted(self.path)}" if self.path else ""
        return f"{self.kind} {_quoted(self.old)} {joint} {new}{where}"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


_TEXT = r"\"(?:[^\"\\]|\\.)*\"|'[^'\n]*'|`[^`\n]*`|“[^”]*”|‘[^’]*’|«[^»]*»"
_NAME = r"[^\W\d]\w*(?:[.\-][^\W\d]\w*)*"
_NUMBER = r"[-+]?(?:0[xXbBoO][\da-fA-F_]+|\d[\d_]*(?:\.\d+)?(?:[eE][-+]?\d+)?)"
_POLITE = (
    r"\s*(?:(?:please|hey|ok(?:ay)?|now|then|could|can|would|will|you|i|we|want|need|like|to|let'?s|go|ahead|and)"
    r"[\s,]+)*"
)
_FILLER = (
    r"(?:(?:all|every|each|any|occurrences?|instances?|uses?|usages?|of|the|a|value|name|word|text|string|term|phrase|"
    r"identifier|function|class|method|variable|constant|module|parameter|field|setting|option)\s+)*"
)
_WHERE = (
    r"(?:\s+(?:everywhere|throughout.*|across.*|(?:in|inside|within|under)\s+"
    r"(?:(?:the\s+)?(?:file|folder|directory)\s+)?(?P<path>{text}|\S+?)(?:\s+(?:file|folder|directory))?"
    r"|in\s+(?:all|every|the|this|my)\b.*))?\s*(?:please)?\s*[.!?]?\s*"
).replace("{text}", _TEXT)
_VALUE = rf"{_TEXT}|{_NUMBER}|true|false|null|none|nil"
_PLAIN_VALUE = rf"`[^`\n]*`|{_NUMBER}|true|false|null|none|nil"
_CHANGE = "change|update|increase|decrease|raise|lower|reduce|bump"
_FROM = rf"(?:\s+from\s+(?:{_VALUE}))?"


def _form(sentence: str) -> re.Pattern[str]:
    return re.compile(f"{_POLITE}{sentence}{_WHERE}", re.IGNORECASE)


_WORD = f"{_TEXT}|{_NAME}"
_SET = rf"(?:{_CHANGE})\s+{_FILLER}"
_FORMS = (
    (EditKind.SET, _form(rf"set\s+{_FILLER}(?P<old>{_TEXT}|{_NAME}){_FROM}\s*(?:\bto\b|=)\s*(?P<new>{_VALUE})")),
    (EditKind.SET, _form(rf"{_SET}(?P<old>{_NAME}|`[^`\n]*`){_FROM}\s+to\s+(?P<new>{_PLAIN_VALUE})")),
    (EditKind.SET, _form(rf"{_SET}(?P<old>{_NAME}){_FROM}\s+to\s+(?P<new>{_VALUE})")),
    (EditKind.SET, _form(rf"{_SET}(?P<old>{_TEXT}){_FROM}\s+to\s+(?P<new>{_NUMBER}|true|false|null)")),
    (EditKind.RENAME, _form(rf"rename\s+{_FILLER}(?P<old>{_WORD})\s+(?:to|into|as)\s+(?P<new>{_WORD})")),
    (EditKind.RENAME, _form(rf"replace\s+{_FILLER}(?P<old>{_NAME})\s+(?:with|by)\s+{_FILLER}(?P<new>{_NAME})")),
    (EditKind.REPLACE, _form(rf"replace\s+{_FILLER}(?P<old>{_TEXT}|\S+)\s+(?:with|by)\s+(?P<new>{_TEXT}|\S+?)")),
    (EditKind.REPLACE, _form(rf"(?:change|turn)\s+{_FILLER}(?P<old>{_TEXT})\s+(?:to|into)\s+(?P<new>{_TEXT})")),
    (EditKind.REPLACE, _form(rf"substitute\s+(?P<new>{_TEXT})\s+for\s+(?P<old>{_TEXT})")),
)
_LITERAL_WORDS = {"true": "true", "false": "false", "null": "null", "none": "null", "nil": "null"}
_NO_PATH = frozenset({"all", "every", "the", "this", "my", "each", "any"})
_PRONOUNS = frozenset({"it", "this", "that", "them", "these", "those", "everything", "something", "anything"})


def edit_request(task: str) -> EditRequest | None:
    """The edit that ``task`` asks for, and nothing else; ``None`` if it is none, or none that this grammar has."""
    line = task.strip()
    if "\n" in line or len(line) > _MAX_LINE:
        return None
    return next(filter(None, (_parse(kind, form.fullmatch(line)) for kind, form in _FORMS)), None)


def _parse(kind: EditKind, match: re.Match[str] | None) -> EditRequest | None:
    if match is None or match["old"].casefold() in _PRONOUNS or (match["path"] or "").casefold() in _NO_PATH:
        return None
    old = _unquoted(match["old"])
    new = _literal(match["new"]) if kind is EditKind.SET else _unquoted(match["new"])
    if not old or new is None or old == new:
        return None
    names = {EditKind.REPLACE: (), EditKind.RENAME: (old, new), EditKind.SET: (old,)}[kind]
    if not all(re.fullmatch(_NAME, name) for name in names) or (kind is EditKind.RENAME and any(map(is_path, names))):
        return None
    return EditRequest(kind, old, new, match["path"] and _unquoted(match["path"]))


def _literal(text: str) -> str | None:
    """A literal of the grammar as in JSON."""
    plain = text[1:-1] if text[:1] == text[-1:] == "`" else text
    if re.fullmatch(_NUMBER, plain):
        return plain
    if word := _LITERAL_WORDS.get(plain.casefold()):
        return word
    return _quoted(_unquoted(text)) if plain is text else None


def _unquoted(text: str) -> str:
    if text[:1] == '"' and text[-1:] == '"' and len(text) > 1:
        try:
            return str(json.loads(text))
        except ValueError:
            return text[1:-1]
    if len(text) > 1 and (text[0], text[-1]) in {("'", "'"), ("`", "`"), ("“", "”"), ("‘", "’"), ("«", "»")}:
        return text[1:-1]
    return text
