"""The rules that keep the code base easy to walk: size, layout and vocabulary."""

import ast
import re
import subprocess
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("agents/deputy_agents", "server/deputy_server", "protocol/deputy_protocol")
CORE = ROOT / PACKAGES[0]

MAX_METHODS, MAX_ATTRIBUTES, MAX_FUNCTION, MAX_FILE, MAX_ROOT_MODULES = 30, 15, 60, 450, 5
ENDINGS = ("s", "r", "d", "er", "ed", "ing")

NEVER = (
    r"doors?",
    r"verdicts?",
    r"intake",
    r"mend(?:s|ed|ing)?",
    r"spoil(?:s|ed|t)?",
    r"kids?",
    r"(?:take|takes|took|taken|taking) back",
    r"(?:is|are|was|were) told",
    r"(?:told|tells?) of",
    r"none of this list",
    r"of its own accord",
    r"in one go",
    r"as things are",
    r"as it stands",
    r"be it",
    r"whom",
    r"waiting (?:words|prompts?)",
    r"pictures?",
)
"""Words and phrases that users and readers do not meet: each has a plain one, see the vocabulary in CONTRIBUTING.md."""

NEVER_IN_NAMES = frozenset(
    {"door", "doors", "verdict", "verdicts", "intake", "mend", "mended", "spoil", "kid", "kids", "told", "picture"}
    | {"outlook", "hooking"}
)
"""Words that no public name in the packages has."""


def _sources() -> list[Path]:
    return sorted(file for package in PACKAGES for file in (ROOT / package).rglob("*.py"))


def _name(file: Path) -> str:
    return file.relative_to(ROOT).as_posix()


@pytest.fixture(scope="module")
def trees() -> dict[str, ast.Module]:
    return {_name(file): ast.parse(file.read_text("utf-8")) for file in _sources()}


def _classes(trees: dict[str, ast.Module]) -> Iterator[tuple[str, ast.ClassDef]]:
    for name, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                yield f"{name}:{node.lineno} {node.name}", node


def _methods(node: ast.ClassDef) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [part for part in node.body if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef)]


def _attributes(node: ast.ClassDef) -> set[str]:
    """What instances carry: assigned to ``self`` anywhere in the class."""
    return {
        part.attr
        for method in _methods(node)
        for part in ast.walk(method)
        if isinstance(part, ast.Attribute)
        and isinstance(part.ctx, ast.Store)
        and isinstance(part.value, ast.Name)
        and part.value.id == "self"
    }


def test_no_class_has_too_many_methods_or_attributes(trees: dict[str, ast.Module]) -> None:
    methods = {place: len(_methods(node)) for place, node in _classes(trees)}
    attributes = {place: len(_attributes(node)) for place, node in _classes(trees)}
    assert {place: count for place, count in methods.items() if count > MAX_METHODS} == {}
    assert {place: count for place, count in attributes.items() if count > MAX_ATTRIBUTES} == {}


def test_no_function_and_no_file_is_too_long(trees: dict[str, ast.Module]) -> None:
    functions = {
        f"{name}:{node.lineno} {node.name}": (node.end_lineno or 0) - node.lineno + 1
        for name, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    files = {_name(file): len(file.read_text("utf-8").splitlines()) for file in _sources()}
    assert {place: length for place, length in functions.items() if length > MAX_FUNCTION} == {}
    assert {file: length for file, length in files.items() if length > MAX_FILE} == {}


def test_every_folder_states_what_belongs_there_and_holds_no_code_in_its_init(trees: dict[str, ast.Module]) -> None:
    folders = {name: tree for name, tree in trees.items() if name.endswith("__init__.py")}
    silent = [name for name, tree in folders.items() if not ast.get_docstring(tree)]
    coded = [name for name, tree in folders.items() if len(tree.body) > 1 and not name.startswith("protocol/")]
    assert (silent, coded) == ([], [])
    assert {file.parent for file in _sources()} == {ROOT / Path(name).parent for name in folders}


def test_few_modules_lie_at_the_root_of_the_core() -> None:
    loose = sorted(file.stem for file in CORE.glob("*.py") if file.stem != "__init__")
    assert len(loose) <= MAX_ROOT_MODULES, loose


def test_no_two_modules_of_a_folder_differ_by_an_ending_only() -> None:
    folders = {file.parent for file in _sources()}
    stems = {folder: sorted(file.stem for file in folder.glob("*.py")) for folder in folders}
    alike = [
        f"{_name(folder)}: {one}, {other}"
        for folder, names in stems.items()
        for one, other in combinations(names, 2)
        if other.removeprefix(one) in ENDINGS or other.removeprefix(one.removesuffix("e")) in ENDINGS
    ]
    assert alike == []


def test_public_names_speak_the_vocabulary(trees: dict[str, ast.Module]) -> None:
    names = {
        (name, node.name)
        for name, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_")
    }
    words = {(file, name): set(re.findall(r"[a-z]+|[A-Z][a-z]*", name)) for file, name in names}
    odd = {place for place, parts in words.items() if {part.lower() for part in parts} & NEVER_IN_NAMES}
    # `pictures` is a field of the wire and of stored events, and keeps its name.
    assert {(file, name) for file, name in odd if name != "pictures"} == set()


def _documents() -> Iterator[Path]:
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, timeout=30).stdout
    for name in listing.decode().split("\0"):
        if name.endswith(".md") or name == "editors/vscode/package.json":
            yield ROOT / name


def _strings(trees: dict[str, ast.Module]) -> Iterator[tuple[str, str]]:
    """Texts of the packages, docstrings among them: users see the first in editors and terminals, readers the
    others."""
    for name, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
                yield f"{name}:{node.lineno}", node.value


def _in_editors() -> Iterator[tuple[str, str]]:
    """Lines of the editors' sources with a text in them."""
    for folder, ending in (("editors/nvim", "lua"), ("editors/vscode/src", "ts"), ("editors/vscode/webview", "ts")):
        for file in sorted((ROOT / folder).rglob(f"*.{ending}")):
            for number, line in enumerate(file.read_text("utf-8").splitlines(), 1):
                if re.search(r"[\"'`].* .*[\"'`]", line):
                    yield f"{_name(file)}:{number}", line


def test_docs_and_strings_speak_the_vocabulary(trees: dict[str, ast.Module]) -> None:
    never = re.compile(rf"\b(?:{'|'.join(NEVER)})\b", re.IGNORECASE)
    # Quoted code is no text; `pictures` is a field of the wire, and keeps its name.
    quoted = re.compile(r"``[^`]*``|`[^`\s]*`|\$\{[^}]*\}|\bpictures (?:=|:|\?)|[.\"]pictures|pictures[:?=]")
    lines = [
        (f"{_name(file)}:{number}", line)
        for file in _documents()
        for number, line in enumerate(file.read_text("utf-8").splitlines(), 1)
    ]
    texts = [*lines, *_strings(trees), *_in_editors()]
    found = [f"{place}: {match[0]}" for place, text in texts if (match := never.search(quoted.sub("", text)))]
    assert found == []
