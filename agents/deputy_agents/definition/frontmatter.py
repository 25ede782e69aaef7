"""Splits a Markdown file into its frontmatter's fields and its body.

The frontmatter should be YAML. Files in the wild often are not quite: a description with a colon in it, a tab, a
dialogue over many lines. Those are cut at the lines that begin with a known field, and each piece is read by itself,
as YAML if it is and as text if not. Aliases, tags and anchors mean nothing here, so no file can make more of itself
than it is long.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite
from typing import TypeAlias

from deputy_agents.domain.errors import DeputyError

Value: TypeAlias = "str | int | float | bool | list[Value] | dict[str, Value] | None"

MAX_NODES = 2000
MAX_DEPTH = 32
MAX_HEAD = 64 * 1024
"""Characters of frontmatter."""


class FrontmatterError(DeputyError):
    """A file has no frontmatter that could be read; ``line`` counts from 1."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line = line


@dataclass(frozen=True, slots=True)
class Field:
    """One field. ``source`` is the text after its colon as it stands in the file; where the piece is no YAML,
    ``value`` is that text and ``fault`` says why."""

    value: Value
    line: int
    source: str
    fault: str = ""

    @property
    def text(self) -> str:
        """The value as a text: ``123`` and ``[draft]`` as they were written."""
        return self.value if isinstance(self.value, str) else _unquoted(self.source)

    @property
    def prose(self) -> str:
        """The value as a text for people, who do not write comments in it: YAML would end ``Fix issue #12`` before
        the number."""
        plain = self.source[:1] not in ("|", ">", "'", '"')
        return _unquoted(self.source) if plain and " #" in self.source else self.text


@dataclass(frozen=True, slots=True)
class Frontmatter:
    """``fields`` by name, folded as :func:`folded` does; ``repeated`` are those that stand there again, unread.
    ``body_line`` is the first line of the body, counted from 1."""

    fields: Mapping[str, Field]
    repeated: Mapping[str, int]
    body: str
    body_line: int


def folded(name: str) -> str:
    """``maxIterations``, ``max-iterations`` and ``max_iterations`` are one name."""
    return re.sub(r"[\s_-]", "", name).lower()


def read(text: str, known: Callable[[str], bool]) -> Frontmatter:
    """The parts of ``text``; ``known`` says of a folded name whether it is one that a line may begin with.

    Raises:
        FrontmatterError: there is no frontmatter, or it is too large.
    """
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    first, end = _fences(lines)
    head = lines[first:end]
    if sum(map(len, head)) > MAX_HEAD:
        raise FrontmatterError(first + 1, f"the frontmatter is longer than {MAX_HEAD} characters")
    try:
        pieces = _whole(head)
    except _NotYaml:
        pieces = _by_line(head, known)
    fields: dict[str, Field] = {}
    repeated: dict[str, int] = {}
    for name, field in pieces:
        placed = Field(field.value, field.line + first + 1, field.source, field.fault)
        if fields.setdefault(folded(name), placed) is not placed:
            repeated[name] = placed.line
    return Frontmatter(fields, repeated, "\n".join(lines[end + 1 :]).strip(), end + 2)


def _fences(lines: Sequence[str]) -> tuple[int, int]:
    """Index of the first line after the opening fence, and that of the closing one."""
    start = next((index for index, line in enumerate(lines) if line.strip()), 0)
    if lines[start].rstrip() != "---":
        raise FrontmatterError(start + 1, "it must start with a frontmatter between two lines of '---'")
    for index in range(start + 1, len(lines)):
        if lines[index].rstrip() == "---":
            return start + 1, index
    raise FrontmatterError(start + 1, "the frontmatter has no closing line of '---'")


# -- line by line ----------------------------------------------------------------------------------------------------

_FIELD = re.compile(r"([A-Za-z][\w-]*)[ \t]*:(.*)", re.DOTALL)


def _by_line(head: Sequence[str], known: Callable[[str], bool]) -> Iterator[tuple[str, Field]]:
    starts: list[tuple[int, str]] = []
    for index, line in enumerate(head):
        found = _FIELD.match(line)
        if found is None or not known(folded(found[1])):
            continue
        # An example in a description may quote fields; one that had its line already is part of the quotation.
        in_prose = bool(starts) and starts[-1][1] == "description"
        if not (in_prose and folded(found[1]) in {name for _, name in starts}):
            starts.append((index, folded(found[1])))
    for (start, name), (end, _) in pairwise([*starts, (len(head), "")]):
        yield name, _piece(head[start:end], start)


def _piece(lines: Sequence[str], start: int) -> Field:
    source = _source(lines)
    try:
        (_, field), *rest = _whole([line.expandtabs(2) for line in lines])
        if rest:
            raise _NotYaml("it is more than one field")
    except _NotYaml as error:
        return Field(_unquoted(source), start, source, str(error))
    return Field(field.value, start, source)


def _source(lines: Sequence[str]) -> str:
    return "\n".join([lines[0].partition(":")[2].strip(), *lines[1:]]).strip()


def _unquoted(text: str) -> str:
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" and text.count(text[0]) in (2, 3):
        return text[1:-1]  # three: an apostrophe; more: several quotations
    marker, line_end, rest = text.partition("\n")
    if line_end and re.fullmatch(r"[|>][+-]?\d?", marker.strip()):
        return "\n".join(line.strip() for line in rest.split("\n"))
    return text


# -- YAML ------------------------------------------------------------------------------------------------------------


class _NotYaml(Exception):
    """The text is no mapping in the part of YAML that is read here."""


@dataclass(frozen=True, slots=True)
class _Token:
    """A YAML event: ``kind`` is the name of its class without the ``Event``."""

    kind: str
    line: int
    value: str = ""
    plain: bool = False


def _whole(head: Sequence[str]) -> list[tuple[str, Field]]:
    """The fields of a head that is YAML.

    Raises:
        _NotYaml: it is not.
    """
    tokens = _tokens("\n".join(head))
    if next(tokens).kind != "MappingStart":
        raise _NotYaml("there are no fields")
    tree = _Tree(tokens)
    found = list(tree.pairs(depth=1))
    if next(tokens).kind != "DocumentEnd" or next(tokens).kind != "StreamEnd":
        raise _NotYaml("it is more than one document")
    return [
        (name, Field(value, line, _source(head[line : max(end, line + 1)])))
        for (name, value, line), (_, _, end) in pairwise([*found, ("", None, len(head))])
    ]


def _tokens(text: str) -> Iterator[_Token]:
    from ruamel.yaml import YAML  # late: a server answers `initialize` before it reads a definition
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    try:
        for event in YAML(typ="safe", pure=True).parse(text):  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
            kind = type(event).__name__.removesuffix("Event")  # pyright: ignore[reportUnknownArgumentType]
            if kind not in ("StreamStart", "DocumentStart"):
                value, implicit = getattr(event, "value", ""), getattr(event, "implicit", None)  # pyright: ignore[reportUnknownArgumentType]
                line: int = event.start_mark.line  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
                yield _Token(kind, line, str(value), isinstance(implicit, tuple) and bool(implicit[0]))  # pyright: ignore[reportUnknownArgumentType]
    except MarkedYAMLError as error:
        raise _NotYaml(str(error.problem or error.context or "no YAML")) from None  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
    except (YAMLError, ValueError, TypeError, LookupError, AttributeError, OverflowError) as error:
        # The scanner meets some texts with other exceptions than its own.
        raise _NotYaml(str(error).partition("\n")[0] or "no YAML") from None


class _Tree:
    """Builds values from tokens, within bounds."""

    def __init__(self, tokens: Iterator[_Token]) -> None:
        self._tokens = tokens
        self._nodes = 0

    def pairs(self, depth: int) -> Iterator[tuple[str, Value, int]]:
        """The rest of a mapping whose start was read: key, value, and line of the key."""
        while (key := next(self._tokens)).kind != "MappingEnd":
            if key.kind != "Scalar":
                raise _NotYaml("a name of a field is no text")
            yield key.value, self._value(next(self._tokens), depth), key.line

    def _value(self, token: _Token, depth: int) -> Value:
        self._nodes += 1
        if depth > MAX_DEPTH or self._nodes > MAX_NODES:
            raise _NotYaml(f"it nests deeper than {MAX_DEPTH} or holds more than {MAX_NODES} values")
        match token.kind:
            case "Scalar":
                return _scalar(token.value) if token.plain else token.value
            case "SequenceStart":
                return list(self._items(depth + 1))
            case "MappingStart":
                return {name: value for name, value, _ in self.pairs(depth + 1)}
            case _:
                raise _NotYaml("an alias (*) has no meaning here")

    def _items(self, depth: int) -> Iterator[Value]:
        while (token := next(self._tokens)).kind != "SequenceEnd":
            yield self._value(token, depth)


_WORDS: Mapping[str, Value] = {"": None, "~": None, "null": None, "true": True, "false": False}
_INTEGER = re.compile(r"[-+]?[0-9]{1,18}")
_DECIMAL = re.compile(r"[-+]?([0-9]+(?:\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]{1,3})?")


def _scalar(text: str) -> Value:
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _DECIMAL.fullmatch(text) and isfinite(float(text)) else text
