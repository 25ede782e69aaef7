"""Splits a Markdown file into the fields of its frontmatter and its body.

The frontmatter should be YAML. Many real files are not quite: a description contains a colon or a tab, or is a dialogue
over many lines. Such a frontmatter is split at the lines that start with a known field name. Each piece is then read as
YAML, or as plain text if it is not YAML. Aliases are rejected, tags and anchors are ignored: the values of a file are
never larger than the file.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import isfinite
from typing import Any, TypeAlias

from deputy_agents.domain.errors import DeputyError

Value: TypeAlias = "str | int | float | bool | list[Value] | dict[str, Value] | None"

MAX_NODES = 2000
MAX_DEPTH = 32
MAX_HEAD = 64 * 1024
"""Characters of frontmatter."""


class FrontmatterError(DeputyError):
    """A file has no readable frontmatter; ``line`` counts from 1."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line = line


@dataclass(frozen=True, slots=True)
class Field:
    """One field. ``source`` is the text after its colon, unchanged. If the field is not YAML, ``value`` is that text
    and ``yaml_error`` is the reason."""

    value: Value
    line: int
    source: str
    yaml_error: str = ""

    @property
    def text(self) -> str:
        """The value as text, with the spelling of the file: ``123``, ``[draft]``."""
        return self.value if isinstance(self.value, str) else _unquoted(self.source)

    @property
    def prose(self) -> str:
        """The value as prose, in which ``#`` does not start a comment: YAML ends ``Fix issue #12`` before the
        number."""
        plain = self.source[:1] not in ("|", ">", "'", '"')
        return _unquoted(self.source) if plain and " #" in self.source else self.text


@dataclass(frozen=True, slots=True)
class Frontmatter:
    """``fields`` are keyed by normalized name. ``repeated`` maps the names of repeated fields, as written, to the line
    of the repetition, which is ignored. ``body_line`` is the first line of the body. Lines count from 1."""

    fields: Mapping[str, Field]
    repeated: Mapping[str, int]
    body: str
    body_line: int


def normalize_name(name: str) -> str:
    """Map ``maxIterations``, ``max-iterations`` and ``max_iterations`` to one name."""
    return re.sub(r"[\s_-]", "", name).lower()


def read(text: str, is_known: Callable[[str], bool]) -> Frontmatter:
    """Split ``text``. ``is_known`` returns whether a normalized name is a field name that can start a line.

    Raises:
        FrontmatterError: there is no frontmatter, or it is too large.
    """
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    first, end = _find_fences(lines)
    head = lines[first:end]
    if sum(map(len, head)) > MAX_HEAD:
        raise FrontmatterError(first + 1, f"the frontmatter is longer than {MAX_HEAD} characters")
    try:
        found = _parse_yaml(head)
    except _NotYaml:
        found = _parse_by_line(head, is_known)
    fields: dict[str, Field] = {}
    repeated: dict[str, int] = {}
    for name, field in found:
        placed = replace(field, line=field.line + first + 1)
        if fields.setdefault(normalize_name(name), placed) is not placed:
            repeated[name] = placed.line
    return Frontmatter(fields, repeated, "\n".join(lines[end + 1 :]).strip(), end + 2)


_NO_FENCE = (
    "the file must start with a line '---', then lines such as 'description: Reviews changes', then a line '---', "
    "then the prompt"
)
_NOT_CLOSED = "the frontmatter that starts here has no end: write a line '---' after its last field"


def _find_fences(lines: Sequence[str]) -> tuple[int, int]:
    """The index of the first line after the opening fence, and of the closing fence."""
    start = next((index for index, line in enumerate(lines) if line.strip()), 0)
    if lines[start].rstrip() != "---":
        raise FrontmatterError(start + 1, _NO_FENCE)
    for index in range(start + 1, len(lines)):
        if lines[index].rstrip() == "---":
            return start + 1, index
    raise FrontmatterError(start + 1, _NOT_CLOSED)


# -- line by line ----------------------------------------------------------------------------------------------------

_FIELD = re.compile(r"([A-Za-z][\w-]*)[ \t]*:(.*)", re.DOTALL)


def _parse_by_line(head: Sequence[str], is_known: Callable[[str], bool]) -> Iterator[tuple[str, Field]]:
    starts: list[tuple[int, str]] = []
    for index, line in enumerate(head):
        found = _FIELD.match(line)
        if found is None or not is_known(normalize_name(found[1])):
            continue
        # A description may quote other fields: a field that has its own line already is part of the quotation.
        in_description = bool(starts) and starts[-1][1] == "description"
        if not (in_description and normalize_name(found[1]) in {name for _, name in starts}):
            starts.append((index, normalize_name(found[1])))
    for (start, name), (end, _) in pairwise([*starts, (len(head), "")]):
        yield name, _parse_piece(head[start:end], start)


def _parse_piece(lines: Sequence[str], start: int) -> Field:
    source = _source(lines)
    try:
        (_, field), *rest = _parse_yaml([line.expandtabs(2) for line in lines])
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
    """The text is not a mapping in the supported part of YAML."""


_Node: TypeAlias = Any
"""A node of ruamel.yaml, which does not annotate the members of its nodes."""


def _parse_yaml(head: Sequence[str]) -> list[tuple[str, Field]]:
    """The fields of a frontmatter that is YAML.

    Raises:
        _NotYaml: it is not.
    """
    root = _compose("\n".join(head))
    reader = _NodeReader()
    if root is None or root.id != "mapping":
        raise _NotYaml("there are no fields")
    found = [(name, reader.value(node, 1), line) for name, node, line in reader.pairs(root)]
    return [
        (name, Field(value, line, _source(head[line : max(end, line + 1)])))
        for (name, value, line), (_, _, end) in pairwise([*found, ("", None, len(head))])
    ]


def _compose(text: str) -> _Node | None:
    from ruamel.yaml import YAML  # late: a server answers `initialize` before it reads a definition
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    yaml: Any = YAML(typ="safe", pure=True)
    yaml.composer.warn_double_anchors = False
    try:
        return yaml.compose(text)
    except MarkedYAMLError as error:
        raise _NotYaml(str(error.problem or error.context or "no YAML")) from None  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
    except (YAMLError, ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError) as error:
        # The library raises other exceptions than its own for some texts.
        raise _NotYaml(str(error).partition("\n")[0] or "no YAML") from None


class _NodeReader:
    """Converts composed nodes to values, within bounds. A node that is reached twice is an alias."""

    def __init__(self) -> None:
        self._seen: set[int] = set()

    def pairs(self, mapping: _Node) -> Iterator[tuple[str, _Node, int]]:
        """The name, value and line (from 0) of each field."""
        for key, node in mapping.value:
            if key.id != "scalar":
                raise _NotYaml("a field name is not text")
            yield key.value, node, key.start_mark.line

    def value(self, node: _Node, depth: int) -> Value:
        if id(node) in self._seen:
            raise _NotYaml("aliases (*) are not supported")
        self._seen.add(id(node))
        if depth > MAX_DEPTH or len(self._seen) > MAX_NODES:
            raise _NotYaml(f"it nests deeper than {MAX_DEPTH} or holds more than {MAX_NODES} values")
        match node.id:
            case "sequence":
                return [self.value(item, depth + 1) for item in node.value]
            case "mapping":
                return {name: self.value(item, depth + 1) for name, item, _ in self.pairs(node)}
            case _:
                plain = node.style is None and node.ctag.handle is None
                return _scalar(node.value) if plain else node.value


_WORDS: Mapping[str, Value] = {"": None, "~": None, "null": None, "true": True, "false": False}
_INTEGER = re.compile(r"[-+]?[0-9]{1,18}")
_DECIMAL = re.compile(r"[-+]?([0-9]+(?:\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]{1,3})?")


def _scalar(text: str) -> Value:
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _DECIMAL.fullmatch(text) and isfinite(float(text)) else text
