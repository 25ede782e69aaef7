"""Parses a line of bash into the simple commands that it would run and the files that it redirects.

tree-sitter provides the structure. Syntax that it does not understand or is known to read differently from bash, and
every node type not listed here, becomes :class:`Opaque`: a wrong guess would let a command bypass the gate.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final, TypeAlias

from deputy_agents.shell.word import Word, read_word

if TYPE_CHECKING:
    from tree_sitter import Node, Parser


@dataclass(frozen=True, slots=True)
class Command:
    """A simple command with the ``assignments`` before it, as written. ``appended``: further words are added when it
    runs."""

    words: tuple[Word, ...]
    assignments: tuple[str, ...] = ()
    appended: bool = False


@dataclass(frozen=True, slots=True)
class Statement:
    """Something that bash executes itself: a test, a declaration, an assignment. ``fixed`` is the beginning of ``text``
    before the first part that is only known when it runs."""

    text: str
    fixed: str


@dataclass(frozen=True, slots=True)
class Redirect:
    """A file that is opened for a command; ``target`` is ``None`` if the word is not understood."""

    target: Word | None
    writes: bool


@dataclass(frozen=True, slots=True)
class Opaque:
    """Syntax that is not understood."""

    text: str


Part: TypeAlias = Command | Statement | Redirect | Opaque

_BLANK: Final = re.compile(rb"(?:[ \t]|\\\n)*")
_WHITESPACE: Final = re.compile(rb"(?:[ \t\n]|\\\n)*")
_UNSUPPORTED_CHARACTER: Final = re.compile(r"[^\t\n\x20-\x7e\x80-\U0010ffff]")
_LINE_CONTINUATION: Final = re.compile(r"(?<![ \t])\\\n")
"""A line continuation inside a word: bash removes it, tree-sitter reads it as a space."""
_CONTAINERS: Final = frozenset(
    """program list pipeline subshell compound_statement negated_command do_group if_statement elif_clause else_clause
    while_statement for_statement case_statement case_item function_definition redirected_statement
    command_substitution process_substitution""".split()  # noqa: SIM905 - words of a grammar
)
_TOKENS: Final = frozenset(
    """; ;; ;& ;;& && || | |& & ( ) { } ! $( <( >( ` if then else elif fi while until do done for in case esac
    function select""".split()  # noqa: SIM905
) | {"\n"}
_WORDS: Final = frozenset(
    """word string raw_string concatenation number simple_expansion expansion ansi_c_string translated_string
    arithmetic_expansion brace_expression extglob_pattern variable_name regex string_content special_variable_name
    arithmetic_expansion binary_expression unary_expression test_operator postfix_expression ternary_expression
    parenthesized_expression subscript array variable_assignment file_descriptor heredoc_body heredoc_content
    heredoc_start heredoc_end""".split()  # noqa: SIM905
)
_WORD_PARTS: Final = frozenset(
    {"command_name", "herestring_redirect", "file_redirect"}
    | {"declaration_command", "unset_command", "test_command", "variable_assignments"}
)
"""Nodes whose children are words."""
_WITH_WORDS: Final = frozenset({"for_statement", "case_statement", "case_item"})
"""Compound commands that have words of their own: what a loop variable becomes, what ``case`` compares."""
_HARMLESS_VARIABLE: Final = re.compile(r"(?!.*_proxy$)[a-z_][a-z0-9_]*")
"""Names that no program reads from its environment. Every other loop variable may change what a command does, as an
assignment of ``PATH`` or ``GIT_PAGER`` would."""
_STATEMENTS: Final = frozenset({"declaration_command", "unset_command", "test_command"})
_WRITING_OPERATORS: Final = frozenset({">", ">>", ">|", "&>", "&>>", "<>"})
_DUPLICATING_OPERATORS: Final = frozenset({">&", "<&", ">&-", "<&-"})
RESERVED: Final = frozenset(
    "! { } [[ ]] case coproc do done elif else esac fi for function if in select then until while".split()  # noqa: SIM905
)
"""Words that tree-sitter wrongly reads as command names in some cases."""
ASSIGNMENT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\[\w+\])?\+?=")
_ARITHMETIC: Final = re.compile(r"\$\(\((?:[\w\s+*/%<>=!&|^~?:,.-]|\$(?!\()|(?<!\$)[()])*\)\)")
_HEREDOC: Final = re.compile(rb"<<-?")


def parse(text: str) -> tuple[Part, ...]:
    """The parts of ``text``, in order. Takes milliseconds; the first call loads a native library."""
    if _UNSUPPORTED_CHARACTER.search(text) or _LINE_CONTINUATION.search(text):
        return (Opaque(text),)
    source = text.encode()
    root = _parser().parse(source).root_node
    try:
        found = tuple(_Reader(source).read(root))
    except RecursionError:
        return (Opaque(text),)
    complete = not root.has_error and _WHITESPACE.fullmatch(source[: root.start_byte] + source[root.end_byte :])
    return found if complete else (*found, Opaque(text))


@cache
def _parser() -> "Parser":
    import tree_sitter_bash
    from tree_sitter import Language, Parser  # a native library, loaded only if commands are run

    return Parser(Language(tree_sitter_bash.language()))


class _Reader:
    def __init__(self, source: bytes) -> None:
        self._source = source

    def read(self, node: "Node") -> Iterator[Part]:
        kind = node.type
        if kind == "comment" or (not node.is_named and kind in _TOKENS):
            return
        if node.is_error or node.is_missing:
            yield self._opaque(node)
        elif kind == "command":
            yield from self._command(node)
        elif kind in ("file_redirect", "herestring_redirect"):
            yield from self._redirect(node)
        elif kind == "heredoc_redirect":
            yield from self._heredoc(node)
        elif kind in _STATEMENTS or kind in ("variable_assignment", "variable_assignments"):
            yield from self._statement(node)
        elif kind in _CONTAINERS and not self._is_arithmetic(node):
            if kind in _WITH_WORDS and not self._has_literal_words(node):
                yield self._opaque(node)
            yield from self._container(node)
        elif kind in _WORDS:
            yield from self._substitutions(node)
        else:
            yield self._opaque(node)

    def _container(self, node: "Node") -> Iterator[Part]:
        at = node.start_byte
        for child in node.children:
            if not _WHITESPACE.fullmatch(self._source, at, child.start_byte) or self._is_glued_brace(child):
                yield self._opaque(node)
            yield from self.read(child)
            at = max(at, child.end_byte)
        if not _WHITESPACE.fullmatch(self._source, at, node.end_byte):
            yield self._opaque(node)

    def _has_literal_words(self, node: "Node") -> bool:
        """Whether the words of a loop or a ``case`` are literals, and its variable changes no command. Their values can
        reach places where bash evaluates them again (``${x@P}``, ``$((x))``), so no other word is understood."""
        for child in node.children:
            if child.type == "variable_name":
                if not _HARMLESS_VARIABLE.fullmatch(self._text(child)):
                    return False
            elif child.type in _WORDS:
                word = read_word(self._text(child))
                is_pattern = node.type == "case_item"
                if word is None or word.computed or (word.globs and not is_pattern) or re.search(r"[$`]", word.text):
                    return False
        return True

    def _command(self, node: "Node") -> Iterator[Part]:
        words: list[Word] = []
        assignments: list[str] = []
        at: int | None = None
        for child in node.children:
            spaced = at is None or (child.start_byte > at and _BLANK.fullmatch(self._source, at, child.start_byte))
            if not spaced:
                yield self._opaque(node)
                return
            at = child.end_byte
            if child.type in ("file_redirect", "herestring_redirect", "heredoc_redirect"):
                yield from self.read(child)
                continue
            yield from self._substitutions(child)
            if child.type == "variable_assignment" and not words and ASSIGNMENT.match(self._text(child)):
                assignments.append(self._text(child))
            elif child.type == "process_substitution":
                words.append(Word(self._text(child), "", globs=True, computed=True))
            elif (word := read_word(self._text(child))) is not None:
                words.append(word)
            else:
                yield self._opaque(node)
                return
        if words and words[0].text in RESERVED:
            yield self._opaque(node)
        yield Command(tuple(words), tuple(assignments))

    def _statement(self, node: "Node") -> Iterator[Part]:
        text = self._text(node)
        if node.type.startswith("variable_assignment") and not all(map(ASSIGNMENT.match, text.split())):
            yield self._opaque(node)
        yield Statement(text, re.split(r"[$`]", text, maxsplit=1)[0])
        yield from self._substitutions(node)

    def _redirect(self, node: "Node") -> Iterator[Part]:
        yield from self._substitutions(node)
        descriptor = _child(node, "file_descriptor")
        operator, target = next((child.type for child in node.children if not child.is_named), ""), node.children[-1]
        # bash takes one word as the target; further words belong to the command.
        expected = re.escape(operator.removesuffix("-")) + r"(-|[ \t]*[^\s].*)"
        text = self._text(node).removeprefix(self._text(descriptor) if descriptor else "")
        word = read_word(self._text(target))
        named_descriptor = descriptor is not None and not re.fullmatch(r"\d+", self._text(descriptor))
        if (
            named_descriptor
            or len(node.children) - (descriptor is not None) > 2
            or not re.fullmatch(expected, text, re.DOTALL)
        ):
            yield self._opaque(node)
        if operator == "<<<":
            if word is None or not word.plain:
                yield self._opaque(node)
            return
        if operator in _DUPLICATING_OPERATORS and (
            operator.endswith("-") or (word and re.fullmatch(r"\d+-?|-", word.text))
        ):
            return
        yield Redirect(word if target.is_named else None, operator in _WRITING_OPERATORS or operator == ">&")

    def _heredoc(self, node: "Node") -> Iterator[Part]:
        """A heredoc. Its node also contains the rest of its first line."""
        start, end = _child(node, "heredoc_start"), _child(node, "heredoc_end")
        if start is None or end is None or not self._ends_like_bash(node, start, end):
            yield self._opaque(node)
            return
        for child in node.children:
            if child.is_named and child.type not in ("heredoc_start", "heredoc_end", "heredoc_body"):
                yield from self.read(child)
            elif child.type == "heredoc_body":
                yield from self._substitutions(child)
        body = self._source[self._line_after(start) : end.start_byte]
        if not re.search(rb"['\"\\]", self._source[start.start_byte : start.end_byte]) and re.search(rb"[$`]", body):
            yield self._opaque(node)

    def _ends_like_bash(self, node: "Node", start: "Node", end: "Node") -> bool:
        """Whether bash ends the heredoc at the same place as tree-sitter, and it is the only one."""
        delimiter = read_word(self._text(start))
        first = self._source[node.start_byte : self._line_after(start)]
        if delimiter is None or len(_HEREDOC.findall(self._source)) != 1:
            return False
        tabs = first.startswith(b"<<-")
        at = self._line_after(start)
        while at < len(self._source):
            line = self._source[at:].split(b"\n", 1)[0]
            if (line.lstrip(b"\t") if tabs else line) == delimiter.text.encode():
                return at <= end.start_byte <= at + len(line)
            at += len(line) + 1
        return False

    def _line_after(self, node: "Node") -> int:
        found = self._source.find(b"\n", node.end_byte)
        return len(self._source) if found < 0 else found + 1

    def _substitutions(self, node: "Node") -> Iterator[Part]:
        """The commands that are run by substitutions in a word."""
        if node.type in ("command_substitution", "process_substitution"):
            yield from self._container(node)
            if self._source.startswith(b"`", node.start_byte) and "\\" in self._text(node):
                yield self._opaque(node)  # a backslash has another meaning there, such as a nested substitution
        elif node.type == "arithmetic_expansion" and not _ARITHMETIC.fullmatch(self._text(node)):
            yield self._opaque(node)  # bash may read its parentheses as those of commands
        elif node.is_named and node.type not in _WORDS and node.type not in _WORD_PARTS:
            yield self._opaque(node)
        else:
            for child in node.children:
                yield from self._substitutions(child)

    def _is_glued_brace(self, node: "Node") -> bool:
        """``{a,b}`` is not a block but expands to two words."""
        return node.type == "{" and self._source[node.end_byte : node.end_byte + 1] not in (b" ", b"\t", b"\n")

    def _is_arithmetic(self, node: "Node") -> bool:
        return bool(node.children) and node.children[0].type == "(("

    def _text(self, node: "Node") -> str:
        return self._source[node.start_byte : node.end_byte].decode()

    def _opaque(self, node: "Node") -> Opaque:
        return Opaque(self._text(node))


def _child(node: "Node", kind: str) -> "Node | None":
    return next((child for child in node.children if child.type == kind), None)
