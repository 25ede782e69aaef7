"""Whether a text is still valid after an edit: parsed where this knows the language, and compared token by token
elsewhere."""

import ast
import json
import re
import tomllib
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

_PROSE = frozenset({".md", ".markdown", ".txt", ".rst", ".adoc", ".log"})
_PROSE_NAMES = frozenset({"readme", "license", "licence", "copying", "notice", "authors", "changelog", "changes"})
_SOURCE_NAME = "deputy_offline_model_source"
_NESTING = 100


def is_prose(path: str) -> bool:
    """Whether any text is valid in the file ``path``."""
    file = PurePosixPath(path.casefold())
    return file.suffix in _PROSE or file.name in _PROSE_NAMES


def is_python(path: str) -> bool:
    return PurePosixPath(path.casefold()).suffix in {".py", ".pyi"}


def syntax_problem(path: str, before: str, after: str) -> str | None:
    """Why ``after`` must not replace ``before`` in the file ``path``; ``None`` if it is as valid as before."""
    if is_prose(path):
        return None
    check = _CHECKS.get(PurePosixPath(path.casefold()).suffix)
    if check is not None and _error(check, before) is None:
        error = _error(check, after)
        return None if error is None else f"it would no longer be valid ({error})"
    if _tokens(before) != _tokens(after):
        return "I cannot check that it would still be valid"
    return None


def _error(check: Callable[[str], object], text: str) -> str | None:
    try:
        check(text.removeprefix("\ufeff"))
    except SyntaxError as error:
        return f"{error.msg}, line {error.lineno}" if error.lineno else error.msg
    except (ValueError, OverflowError, MemoryError, RecursionError) as error:
        return str(error).partition("\n")[0] or "too complex"
    return None


def parse_python(text: str) -> ast.Module:
    """
    Raises:
        SyntaxError, ValueError, MemoryError, RecursionError: ``text`` is not valid, or too complex.
    """
    # Warnings about the user's source are not for this process. The filter is for this name alone: others stay.
    warnings.filterwarnings("ignore", module=_SOURCE_NAME)
    return ast.parse(text, f"{_SOURCE_NAME}.py")


def _check_python(text: str) -> None:
    compile(parse_python(text), f"{_SOURCE_NAME}.py", "exec", dont_inherit=True)


def _distinct(pairs: list[tuple[str, object]]) -> Mapping[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key occurs twice")
    return found


def _check_json(text: str) -> None:
    json.loads(text, object_pairs_hook=_distinct, parse_constant=_reject_constant)


def _reject_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def _check_yaml(text: str) -> None:
    from ruamel.yaml.error import YAMLError  # late: most turns edit no YAML

    anchors: set[str] = set()
    keys: list[tuple[set[str] | None, int]] = []  # of each open mapping, with the number of its nodes; None: a sequence
    try:
        for event in _yaml_events(text):
            kind = type(event).__name__
            if kind == "AliasEvent" and event.anchor not in anchors:
                raise ValueError(f"there is no anchor {event.anchor}")
            if kind == "DocumentStartEvent":
                anchors.clear()
            elif kind.endswith(("ScalarEvent", "AliasEvent", "StartEvent")) and keys:
                seen, nodes = keys[-1]
                keys[-1] = (seen, nodes + 1)
                if seen is not None and nodes % 2 == 0 and kind == "ScalarEvent":
                    if event.value in seen:
                        raise ValueError("a key occurs twice")
                    seen.add(event.value)
            if kind != "AliasEvent" and getattr(event, "anchor", None):
                anchors.add(event.anchor)
            if kind in {"MappingStartEvent", "SequenceStartEvent"}:
                keys.append((set() if kind == "MappingStartEvent" else None, 0))
                if len(keys) > _NESTING:
                    raise ValueError("too deeply nested")
            elif kind in {"MappingEndEvent", "SequenceEndEvent"}:
                keys.pop()
    except YAMLError as error:
        raise ValueError(str(error).partition("\n")[0]) from None


def _yaml_events(text: str) -> Iterator[Any]:
    from ruamel.yaml import YAML

    return YAML(typ="safe", pure=True).parse(text)  # pyright: ignore[reportUnknownMemberType]


# -- texts of several lines ----------------------------------------------------------------------------------------


def long_texts(path: str, text: str) -> list[tuple[int, int]]:
    """Where the strings of several lines in TOML or YAML start and end: what stands in them assigns nothing."""
    suffix = PurePosixPath(path.casefold()).suffix
    if suffix == ".toml":
        found = [match.span() for match in _TOML_STRING.finditer(text)]
    elif suffix in {".yaml", ".yml"} and _error(_check_yaml, text) is None:
        scalars = [event for event in _yaml_events(text) if type(event).__name__ == "ScalarEvent"]
        found = [(event.start_mark.index, event.end_mark.index) for event in scalars]
    else:
        return []
    return [(start, end) for start, end in found if "\n" in text[start:end].rstrip("\n")]


_TOML_STRING = re.compile(r"\"{3}(?:[^\\]|\\.)*?\"{3}|'{3}.*?'{3}|\"(?:[^\"\\\n]|\\.)*\"|'[^'\n]*'|#[^\n]*", re.DOTALL)


_CHECKS: Mapping[str, Callable[[str], object]] = {
    ".py": _check_python,
    ".pyi": _check_python,
    ".json": _check_json,
    ".ipynb": _check_json,
    ".toml": tomllib.loads,
    ".yaml": _check_yaml,
    ".yml": _check_yaml,
}

_TOKEN = re.compile(
    r"(?P<space>\s+)|(?P<number>\d[\w.]*)|(?P<word>[^\W\d]\w*)|(?P<string>\"(?:[^\"\\\n]|\\.)*\")|(?P<other>.)",
    re.DOTALL,
)
_NUMBERS = (
    ("decimal", re.compile(r"(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE]\d+)?()")),
    ("zeros", re.compile(r"0[0-7]+()")),
    ("grouped", re.compile(r"[1-9]\d{0,2}(?:_\d{3})+()")),
    ("hexadecimal", re.compile(r"0[xX][\da-fA-F]+()")),
    ("version", re.compile(r"\d+(?:\.\d+){2,}()")),
    ("decimal", re.compile(r"(?:0|[1-9]\d*)(?:\.\d+)?([^\W\d_]+)")),
)
"""Spellings of numbers, which not every language has in common; the group is what must stay, such as a unit."""
_LITERALS = frozenset({"true", "false", "null", "none", "nil"})
_KEYWORDS = """
abstract and as asm assert async auto await begin bool break case catch chan char class const continue def default
defer delete do done double elif else elseif elsif end enum esac except export extends extern fallthrough fi final
finally fixed float fn for from func function global go goto if impl implements import in include inline instanceof
int interface is lambda let local long loop match mod module move mut namespace new not of operator or package pass
private protected pub public raise range redo ref register repeat rescue restrict retry return select self short
signed sizeof static struct super switch synchronized template then this throw throws trait try type typedef typename
typeof undef union unless unsafe unsigned until use using var virtual void volatile when where while with yield
"""
_RESERVED = frozenset(_KEYWORDS.split())


def _tokens(text: str) -> list[str]:
    """The kinds of the tokens of ``text``, in any common language. Names, numbers, and strings in double quotes without
    anything that a language could expand are alike; everything else differs."""
    return list(_kinds(text))


def _kinds(text: str) -> Iterable[str]:
    for match in _TOKEN.finditer(text):
        kind, token = str(match.lastgroup), match[0]
        if kind == "word":
            lowered = token.casefold()
            yield "literal" if lowered in _LITERALS else lowered if lowered in _RESERVED else kind
        elif kind == "string":
            yield token if re.search(r"[\\${}%#&<>]", token) else kind
        elif kind == "number":
            yield next((name + match[1] for name, form in _NUMBERS if (match := form.fullmatch(token))), token)
        else:
            yield token
