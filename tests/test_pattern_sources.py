"""Regular expressions that backtrack are compiled from text of the source only. What users, workspaces, models and
clients write goes to ``deputy_agents/patterns``, which matches in linear time."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("protocol/deputy_protocol", "agents/deputy_agents", "server/deputy_server")

OF_RE = {"compile", "match", "search", "fullmatch", "sub", "subn", "split", "findall", "finditer", "template"}
OF_FNMATCH = {"fnmatch", "fnmatchcase", "translate"}
GLOBS = {"glob", "iglob", "rglob"}

ALLOWED = {
    ("agents/deputy_agents/files/sensitive.py", "compile"): "translations of a list in the source",
    ("agents/deputy_agents/model/error_causes.py", "compile"): "words of services, in the source",
    ("agents/deputy_agents/model/offline/edit_request.py", "compile"): "forms of sentences in the source",
    ("agents/deputy_agents/redact.py", "compile"): "key formats in the source",
    ("agents/deputy_agents/shell/access.py", "fnmatchcase"): "a word of a command, matched with names in the source",
    ("agents/deputy_agents/shell/access.py", "iglob"): "a word of a command, expanded in a worker thread",
    ("agents/deputy_agents/shell/environment.py", "fnmatchcase"): "names of variables in the settings of the user",
    ("agents/deputy_agents/shell/git_config.py", "compile"): "names of settings in the source",
    ("agents/deputy_agents/shell/parse.py", "fullmatch"): "an escaped operator",
}
"""Calls with other text, by file and function, and why they take no long time."""


def constants(tree: ast.Module) -> dict[str, ast.expr]:
    found: dict[str, ast.expr] = {}
    for node in tree.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            found[node.target.id] = node.value
        elif isinstance(node, ast.Assign):
            match node.targets[0], node.value:
                case ast.Name(id=name), value:
                    found[name] = value
                case ast.Tuple(elts=names), ast.Tuple(elts=values):
                    found |= {
                        name.id: value for name, value in zip(names, values, strict=True) if isinstance(name, ast.Name)
                    }
                case _:
                    pass
    return found


def is_of_source(node: ast.expr, known: dict[str, ast.expr]) -> bool:
    """Whether a text consists of constants and escaped text."""
    match node:
        case ast.Constant():
            return True
        case ast.JoinedStr(values=parts):
            return all(is_of_source(part, known) for part in parts)
        case ast.FormattedValue(value=value):
            return is_of_source(value, known)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return is_of_source(left, known) and is_of_source(right, known)
        case ast.Name(id=name):
            return name in known and is_of_source(known[name], known)
        case ast.Attribute(value=value, attr="pattern"):
            return is_of_source(value, known)
        case ast.Call(func=ast.Attribute(value=ast.Name(id="re"), attr="escape")):
            return True
        case ast.Call(func=ast.Attribute(value=ast.Name(id="re"), attr="compile"), args=[pattern, *_]):
            return is_of_source(pattern, known)
        case ast.Call(
            func=ast.Attribute(value=separator, attr="join"),
            args=[ast.Call(func=ast.Name(id="map"), args=[ast.Attribute(value=ast.Name(id="re"), attr="escape"), _])],
        ):
            return is_of_source(separator, known)
        case _:
            return False


def patterns(tree: ast.Module) -> Iterator[tuple[str, int, ast.expr]]:
    """The function, line and pattern of each call that compiles one."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="re"), attr=name), args=[pattern, *_]) if name in OF_RE:
                yield name, node.lineno, pattern
            case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name), args=[_, pattern]) if name in OF_FNMATCH:
                yield name, node.lineno, pattern
            case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name), args=[pattern, *_]) if name in GLOBS:
                yield name, node.lineno, pattern
            case _:
                pass


@pytest.fixture(scope="module")
def trees() -> dict[str, ast.Module]:
    files = [file for package in PACKAGES for file in sorted((ROOT / package).rglob("*.py"))]
    return {file.relative_to(ROOT).as_posix(): ast.parse(file.read_text("utf-8")) for file in files}


def violations(tree: ast.Module, file: str = "") -> list[str]:
    known = constants(tree)
    return [
        f"{file}:{line} {name}({ast.unparse(pattern)})"
        for name, line, pattern in patterns(tree)
        if not is_of_source(pattern, known) and (file, name) not in ALLOWED
    ]


def test_no_backtracking_expression_is_compiled_from_what_others_write(trees: dict[str, ast.Module]) -> None:
    assert [one for file, tree in trees.items() for one in violations(tree, file)] == []


def test_functions_of_re_are_called_by_its_name_and_no_library_compiles_for_us(trees: dict[str, ast.Module]) -> None:
    """``pathspec`` and a bare ``jsonschema`` compile what they get with ``re``."""
    imports: list[str] = []
    for file, tree in trees.items():
        forbidden = {"re", "regex", "pathspec"} | (set() if "/definition/" in file else {"jsonschema"})
        for node in ast.walk(tree):
            modules: list[str] = []
            if isinstance(node, ast.ImportFrom):
                modules = [node.module or ""]
            elif isinstance(node, ast.Import):
                modules = [alias.name for alias in node.names if alias.name != "re" or alias.asname]
            imports += [f"{file}:{node.lineno}" for module in modules if module.split(".")[0] in forbidden]
    assert imports == []


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("re.compile(text)", 1),
        ("re.search(f'x{text}', y)", 1),
        ("re.sub(make(text), '', y)", 1),
        ("fnmatchcase(name, text)", 1),
        ("fnmatch.fnmatch(name, text)", 1),
        ("Path('.').glob(text)", 1),
        ("re.compile('|'.join(texts))", 1),
        ("X = make()\nre.compile(X)", 1),
        ("re.compile('x')", 0),
        ("re.compile(rf'x{re.escape(text)}y')", 0),
        ("re.compile('|'.join(map(re.escape, texts)))", 0),
        ("X = 'x'\nY: Final = f'{X}y'\nre.compile(Y + X)", 0),
        ("X = re.compile('x')\nre.compile(f'{X.pattern}')", 0),
    ],
)
def test_text_of_others_is_recognized(source: str, count: int) -> None:
    assert len(violations(ast.parse(source))) == count
