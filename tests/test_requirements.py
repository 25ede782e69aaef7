"""Promises and proofs are in step."""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.requirements import PROVEN, REQUIREMENTS, State

TESTS = Path(__file__).parent


def _ids_in(tree: ast.AST) -> Iterator[object]:
    """The arguments of every ``pytest.mark.requirement(...)``, wherever it stands: decorator or ``pytestmark``."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(attr="requirement", value=ast.Attribute(attr="mark")), args=args):
                for argument in args:
                    yield ast.literal_eval(argument)


def _marks() -> dict[object, list[str]]:
    marks: dict[object, list[str]] = {}
    for file in sorted(TESTS.rglob("*.py")):
        for id in _ids_in(ast.parse(file.read_text(encoding="utf-8"))):
            marks.setdefault(id, []).append(file.relative_to(TESTS).as_posix())
    return marks


def test_every_proven_requirement_has_a_test_that_is_marked_with_it() -> None:
    assert PROVEN - _marks().keys() == set()


def test_every_mark_names_a_requirement_that_is_proven() -> None:
    proven = {id for id, requirement in REQUIREMENTS.items() if requirement.state is State.PROVEN}
    assert {id: files for id, files in _marks().items() if id not in proven} == {}


def test_proven_names_only_known_requirements() -> None:
    assert PROVEN - REQUIREMENTS.keys() == set()
