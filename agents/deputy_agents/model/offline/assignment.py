"""Literals that are assigned to a name, and where they stand in a text."""

import ast
import re
from collections.abc import Iterator, Sequence

from deputy_agents.model.offline.syntax import is_python, long_texts, parse_python

Span = tuple[int, int]
"""Start and end of a literal in a text, in characters."""

_STRING = r"\"(?:[^\"\\]|\\.)*\"|'[^'\\]*'"
_LINE = re.compile(
    r"(?P<before>\s*(?:[\w<>\[\]*&]+\s+){0,4}[\"']?)(?P<name>[^\W\d][\w.\-]*)"
    r"[\"']?\s*(?::\s*[\w<>\[\] ,|?]+?\s*)?(?::=|=|:)\s*"
    rf"(?P<value>{_STRING}|[-+]?\d[\w.]*|true|false|null|none|nil)\s*[,;]?\s*(?:(?:\#|//|--).*)?",
    re.IGNORECASE,
)
_SECTION = re.compile(r"\s*\[+\s*([\w.\-]+)\s*\]+\s*(?:\#.*)?")
_BLOCK = re.compile(r"\s*(?:[\w<>]+\s+){0,4}[\"']?([^\W\d][\w.\-]*)[\"']?\s*[:={(]")


def assigned_literals(path: str, text: str, name: str) -> list[Span]:
    """The literals that are assigned to ``name`` in the file ``path``. A dotted name also names what is around it: a
    class, a section, or an object."""
    if is_python(path):
        return sorted(_in_python(text, name))
    texts = long_texts(path, text)
    return [span for span in _in_lines(text, name) if not any(start < span[0] < end for start, end in texts)]


def _in_python(text: str, name: str) -> Iterator[Span]:
    try:
        tree = parse_python(text)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return
    starts = _line_starts(text)
    open_nodes: list[tuple[ast.AST, tuple[str, ...]]] = [(tree, ())]
    while open_nodes:
        node, scope = open_nodes.pop()
        inner = (*scope, node.name) if isinstance(node, ast.ClassDef) else scope
        open_nodes += [(child, inner) for child in ast.iter_child_nodes(node)]
        if isinstance(node, ast.Assign | ast.AnnAssign) and (value := node.value) is not None and _is_literal(value):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(_names((*scope, *_parts(target)), name) for target in targets):
                yield (
                    _offset(text, starts, value.lineno, value.col_offset),
                    _offset(text, starts, value.end_lineno or value.lineno, value.end_col_offset or value.col_offset),
                )


def _is_literal(node: ast.expr) -> bool:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        return isinstance(node.operand, ast.Constant)
    return isinstance(node, ast.Constant) and node.value is not ...


def _parts(target: ast.expr) -> tuple[str, ...]:
    """The parts of an assigned name, or nothing: ``self.limit`` and ``limit`` have some."""
    parts: list[str] = []
    while isinstance(target, ast.Attribute):
        parts.append(target.attr)
        target = target.value
    return (*([target.id] if isinstance(target, ast.Name) else ["?"]), *reversed(parts))


def _names(parts: Sequence[str], name: str) -> bool:
    wanted = name.split(".")
    return list(parts[-len(wanted) :]) == wanted


def _line_starts(text: str) -> list[int]:
    return [0, *(match.end() for match in re.finditer("\n", text))]


def _offset(text: str, starts: Sequence[int], line: int, column: int) -> int:
    """The place of a byte ``column`` of a ``line``."""
    start = starts[line - 1]
    end = starts[line] if line < len(starts) else len(text)
    return start + len(text[start:end].encode()[:column].decode())


def _in_lines(text: str, name: str) -> Iterator[Span]:
    lines = text.split("\n")
    for index, start in enumerate(_line_starts(text)):
        match = _LINE.fullmatch(lines[index])
        if match and (match["name"] == name or _names((*_around(lines, index), match["name"]), name)):
            yield start + match.start("value"), start + match.end("value")


def _around(lines: Sequence[str], index: int) -> list[str]:
    """The names of the blocks around a line: those of lines before it with less indentation, and of the section."""
    indent = _indent(lines[index])
    names: list[str] = []
    for line in reversed(lines[:index]):
        if section := _SECTION.fullmatch(line):
            return [*section[1].split("."), *names]
        if line.strip() and _indent(line) < indent:
            indent = _indent(line)
            names[:0] = [block[1]] if (block := _BLOCK.match(line)) else []
    return names


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
