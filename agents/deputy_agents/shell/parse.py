"""Parses a line of bash into the simple commands that it would run and the files that it redirects.

tree-sitter provides the structure. Syntax that it does not understand or is known to read differently from bash, and
every node type not listed here, becomes :class:`Opaque`: a wrong guess would let a command bypass the gate.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Final

from deputy_agents.domain.errors import ToolError
from deputy_agents.shell.builtin import HARMLESS_VARIABLE, Effect, assignment_effect
from deputy_agents.shell.evaluation import calculated_names, is_plain_expansion, tested_names
from deputy_agents.shell.nodes import first_child, leading
from deputy_agents.shell.part import Command, Computed, Opaque, Part, Redirect, Statement
from deputy_agents.shell.surroundings import Surroundings, SurroundingsTracker
from deputy_agents.shell.word import Word, read_word

if TYPE_CHECKING:
    from tree_sitter import Node, Parser


MAX_PARTS: Final = 500
"""Commands, redirections and other parts of a line that the gate decides about."""
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
_SUBSHELLS: Final = frozenset({"subshell", "command_substitution", "process_substitution"})
_LOOPS: Final = frozenset({"for_statement", "while_statement", "function_definition"})
_PROVIDES_INPUT: Final = re.compile(r"0(?!</dev/null$)|\d*<(?!\s*/dev/null$)")
_FURTHER_WORDS: Final = _WORDS - {"heredoc_start", "heredoc_end", "heredoc_body"} | {
    "command_substitution",
    "process_substitution",
}
_NOT_WORDS: Final = frozenset({"do_group", "case_item", "compound_statement", "comment"})
_STATEMENTS: Final = frozenset({"declaration_command", "unset_command", "test_command"})
_WRITING_OPERATORS: Final = frozenset({">", ">>", ">|", "&>", "&>>", "<>"})
_DUPLICATING_OPERATORS: Final = frozenset({">&", "<&", ">&-", "<&-"})
RESERVED: Final = frozenset(
    "! { } [[ ]] case coproc do done elif else esac fi for function if in select then until while".split()  # noqa: SIM905
)
"""Words that tree-sitter wrongly reads as command names in some cases."""
ASSIGNMENT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\[\w+\])?\+?=")
_DUPLICATED_FILE: Final = re.compile(r"[\w./:@%+,=-]+")
"""The target of ``>&`` if it is a file. bash expands such a word twice, so it must have no special characters."""
_HEREDOC: Final = re.compile(rb"<<-?")


def parse(text: str) -> tuple[Part, ...]:
    """The parts of ``text``, in order. Takes milliseconds; the first call loads a native library.

    Raises:
        ToolError: there are too many.
    """
    if _UNSUPPORTED_CHARACTER.search(text) or _LINE_CONTINUATION.search(text):
        return (Opaque(text),)
    source = text.encode()
    root = _parser().parse(source).root_node
    try:
        found = tuple(islice(_Reader(source).read(root), MAX_PARTS + 1))
    except RecursionError:
        return (Opaque(text),)
    check_count(found)
    complete = not root.has_error and _WHITESPACE.fullmatch(source[: root.start_byte] + source[root.end_byte :])
    return found if complete else (*found, Opaque(text))


def check_count(parts: Sequence[object]) -> None:
    """Raises ToolError: a line has too many ``parts`` to decide about them."""
    if len(parts) > MAX_PARTS:
        raise ToolError(f"The line has more than {MAX_PARTS} parts. Run it in several calls, or write a script.")


@cache
def _parser() -> "Parser":
    import tree_sitter_bash
    from tree_sitter import Language, Parser  # a native library, loaded only if commands are run

    return Parser(Language(tree_sitter_bash.language()))


class _Reader:
    def __init__(self, source: bytes) -> None:
        self._source = source
        self._tracker = SurroundingsTracker()

    def read(self, node: "Node") -> Iterator[Part]:
        kind = node.type
        if kind == "comment" or (not node.is_named and kind in _TOKENS):
            if kind == "&":
                self._tracker.enter(self._tracker.folders)  # a command in the background enters no folder here
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
            if kind in _WITH_WORDS:
                yield from self._own_words(node)
            if kind == "function_definition":
                yield self._opaque(node)  # it changes what a name runs
            yield from self._compound(node)
        elif kind in _WORDS:
            yield from self._substitutions(node)
        else:
            yield self._opaque(node)

    def _compound(self, node: "Node") -> Iterator[Part]:
        """A compound command, which may have surroundings of its own."""
        tracker = self._tracker
        if node.type == "redirected_statement":
            with tracker.input(redirected=self._input_of(node)):
                yield from self._container(node)
        elif node.type in _SUBSHELLS:
            yield from self._subshell(node)
        elif node.type in _LOOPS:
            yield from self._repeated(node)
        elif node.type == "pipeline":
            yield from self._pipeline(node)
        elif node.type == "list":
            yield from self._list(node)
        else:
            yield from self._container(node)
            if node.type != "compound_statement":
                tracker.enter(tracker.folders)  # it may succeed without running its last command

    def _subshell(self, node: "Node") -> Iterator[Part]:
        is_output = self._source.startswith(b">(", node.start_byte)
        with self._tracker.subshell(f"{self._text(node)} | " if is_output else ""):
            yield from self._container(node)

    def _repeated(self, node: "Node") -> Iterator[Part]:
        """A loop or function: its beginning may run in the folder that its end enters."""
        before = self._tracker.folders
        parts = list(self._container(node))
        if set(self._tracker.folders) == set(before):
            yield from parts
            return
        self._tracker.enter((None,))
        for part in parts:
            yield replace(part, at=replace(part.at, folders=(None,))) if isinstance(part, Command) else part

    def _pipeline(self, node: "Node") -> Iterator[Part]:
        """A pipeline. tree-sitter reads ``a && b >c | d`` as ``(a && b >c) | d``, bash as ``a && (b >c | d)``."""
        tracker, first = self._tracker, node.children[0]
        folders = tracker.folders
        body = leading(first)
        misread = body.type == "list"
        start = body.children[-1].start_byte if misread else node.start_byte

        def read(child: "Node") -> Iterator[Part]:
            nonlocal folders
            if misread and child == first:
                yield from self.read(child)
                folders = tracker.last_operand
            elif child.is_named:
                with tracker.subshell(self._source[start : child.start_byte].decode()):
                    tracker.enter(folders)
                    yield from self.read(child)
                    if misread and tracker.folders != folders:
                        folders = (None,)  # it may end with ``&& cd x``, which is not in the pipeline

        yield from self._container(node, read)
        if folders == (None,):
            tracker.enter(folders)
        if misread:
            tracker.last_operand = folders

    def _list(self, node: "Node") -> Iterator[Part]:
        operator = ""

        def read(child: "Node") -> Iterator[Part]:
            nonlocal operator
            operator = operator if child.is_named else child.type
            with self._tracker.after(operator) if operator and child.is_named else nullcontext():
                yield from self.read(child)

        yield from self._container(node, read)

    def _input_of(self, node: "Node") -> str:
        """The redirections among the children of ``node`` that provide input."""
        return "".join(f" {self._redirected_input(child)}" for child in node.children if self._redirected_input(child))

    def _redirected_input(self, node: "Node") -> str:
        if node.type == "heredoc_redirect":
            start, end = first_child(node, "heredoc_start"), first_child(node, "heredoc_end")
            if start is None or end is None:
                return self._text(node)
            body = self._source[self._line_after(start) : end.end_byte].decode()
            # Words after the beginning belong to the command.
            words = "".join(f" {self._text(child)}" for child in node.children if child.type in _FURTHER_WORDS)
            return f"{self._source[node.start_byte : start.end_byte].decode()}{words}\n{body}"
        text = self._text(node) if node.type in ("file_redirect", "herestring_redirect") else ""
        return text if _PROVIDES_INPUT.match(text) else ""

    def _container(self, node: "Node", read: "Callable[[Node], Iterator[Part]] | None" = None) -> Iterator[Part]:
        at = node.start_byte
        for child in node.children:
            if not _WHITESPACE.fullmatch(self._source, at, child.start_byte) or self._is_glued_brace(child):
                yield self._opaque(node)
            yield from (read or self.read)(child)
            at = max(at, child.end_byte)
        if not _WHITESPACE.fullmatch(self._source, at, node.end_byte):
            yield self._opaque(node)

    def _own_words(self, node: "Node") -> Iterator[Part]:
        """The words and the variable of a loop or a ``case``. What is no literal can reach places where bash evaluates
        it again (``${x@P}``, ``$((x))``), and a variable such as ``PATH`` changes what commands do."""
        given = first_child(node, "in") is not None and first_child(node, "select") is None
        if node.type == "for_statement" and not given and re.search(r"\(\(|\[", self._text(node)):
            yield self._opaque(node)  # the variable becomes an argument or what is read
        in_body = False
        for child in node.children:
            if child.type == "variable_name":
                yield from self._loop_variable(child)
            elif node.type == "case_item" and child.type == ")":
                in_body = True
            elif child.is_named and not in_body and child.type not in _NOT_WORDS:
                word = read_word(self._text(child))
                globs = word is not None and word.globs and node.type != "case_item"
                if word is None or word.computed or globs or re.search(r"[$`]", word.text):
                    yield Computed(self._text(child))

    def _loop_variable(self, node: "Node") -> Iterator[Part]:
        match assignment_effect(f"{self._text(node)}=$x"):
            case Effect.UNKNOWN:
                yield self._opaque(node)
            case _ if not HARMLESS_VARIABLE.fullmatch(self._text(node)):
                yield Computed(self._text(node))
            case _:
                pass

    def _command(self, node: "Node") -> Iterator[Part]:
        words: list[Word] = []
        assignments: list[str] = []
        end: int | None = None
        for child in node.children:
            spaced = end is None or (child.start_byte > end and _BLANK.fullmatch(self._source, end, child.start_byte))
            if not spaced:
                yield self._opaque(node)
                return
            end = child.end_byte
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
        at = self._tracker.current.around(Surroundings(redirected=self._input_of(node)))
        yield Command(tuple(words), tuple(assignments), at=at)
        self._tracker.run(words)

    def _statement(self, node: "Node") -> Iterator[Part]:
        text = self._text(node)
        if node.type.startswith("variable_assignment") and not self._are_assignments(node):
            yield self._opaque(node)
        if node.type == "test_command":
            words: tuple[str, ...] = (self._without_substitutions(node),)
            yield from self._test(node, words[0])
        elif node.type == "variable_assignment":
            words = (text,)
        else:
            words = tuple(self._text(child) for child in node.children)
        yield Statement(text, re.split(r"[$`]", text, maxsplit=1)[0], words)
        yield from self._substitutions(node)

    def _are_assignments(self, node: "Node") -> bool:
        """Whether bash reads the same assignments: a value begins right after its sign, and ends at a separator."""
        if node.type == "variable_assignments":
            return all(map(self._are_assignments, node.children))
        ends = [child.end_byte for child in node.children]
        glued = all(child.start_byte == end for child, end in zip(node.children[1:], ends, strict=False))
        separated = self._source[node.end_byte : node.end_byte + 1] in (b"", *map(bytes, zip(b" \t\n;&|)<>`")))
        return glued and separated and ASSIGNMENT.match(self._text(node)) is not None

    def _test(self, node: "Node", text: str) -> Iterator[Part]:
        names = tested_names(text)
        if names is None:
            yield self._opaque(node)
        elif names:
            yield Computed(text, names)

    def _without_substitutions(self, node: "Node") -> str:
        """The source of ``node`` with ``$x`` for each command substitution, whose output is as unknown."""
        if node.type == "command_substitution":
            return "$x"
        shown, at = "", node.start_byte
        for child in node.children:
            shown += self._source[at : child.start_byte].decode() + self._without_substitutions(child)
            at = child.end_byte
        return shown + self._source[at : node.end_byte].decode()

    def _redirect(self, node: "Node") -> Iterator[Part]:
        yield from self._substitutions(node)
        descriptor = first_child(node, "file_descriptor")
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
                yield Computed(self._text(node))
            return
        if operator in _DUPLICATING_OPERATORS:
            if operator.endswith("-") or (word and re.fullmatch(r"\d+-?|-", word.text)):
                return
            if word is None or not _DUPLICATED_FILE.fullmatch(word.text):
                yield self._opaque(node)
        yield Redirect(word if target.is_named else None, operator in _WRITING_OPERATORS or operator == ">&")

    def _heredoc(self, node: "Node") -> Iterator[Part]:
        """A heredoc. Its node also contains the rest of its first line."""
        start, end = first_child(node, "heredoc_start"), first_child(node, "heredoc_end")
        if start is None or end is None or not self._ends_like_bash(node, start, end):
            yield self._opaque(node)
            return
        for child in node.children:
            if child.type in _FURTHER_WORDS:
                yield self._opaque(node)  # they belong to the command before
            if child.is_named and child.type not in ("heredoc_start", "heredoc_end", "heredoc_body"):
                with self._tracker.subshell(f"{self._text(node.parent or node)}\n" if child.type == "pipeline" else ""):
                    yield from self.read(child)
            elif child.type == "heredoc_body":
                yield from self._substitutions(child)
        body = self._source[self._line_after(start) : end.start_byte]
        quoted = re.search(rb"['\"\\]", self._source[start.start_byte : start.end_byte])
        if not quoted and re.search(rb"[$`]", body):
            known = re.fullmatch(rb"(?:[^$`\\]|\$(?:\w+|\{\w+\}))*", body)
            yield Computed(self._text(node)) if known else self._opaque(node)
        # A line that is continued can neither begin nor end a heredoc.
        first = self._source[start.start_byte : self._line_after(start)]
        if first.endswith(b"\\\n") or (not quoted and b"\\\n" in self._source[start.end_byte :]):
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
            yield from self._subshell(node)
            if self._source.startswith(b"`", node.start_byte) and "\\" in self._text(node):
                yield self._opaque(node)  # a backslash has another meaning there, such as a nested substitution
        elif node.type == "arithmetic_expansion":
            names = calculated_names(self._text(node))
            if names is None:
                yield self._opaque(node)  # bash may read its parentheses as those of commands
                yield from self._substitutions_within(node)
            elif names:
                yield Computed(self._text(node), names)
        elif node.type == "expansion" and not is_plain_expansion(self._text(node)):
            yield self._opaque(node)
            yield from self._substitutions_within(node)
        elif node.is_named and node.type not in _WORDS and node.type not in _WORD_PARTS:
            yield self._opaque(node)
        else:
            yield from self._substitutions_within(node)

    def _substitutions_within(self, node: "Node") -> Iterator[Part]:
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
