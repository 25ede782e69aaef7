"""The tree speaks of the product alone, works on any machine, and hides nothing unfinished."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TEXT = {".py", ".md", ".toml", ".txt", ".yml", ".yaml", ".json", ".lua", ".ts", ".js", ".mjs", ".el", ".vim", ".sh", ""}


def _ours() -> list[Path]:
    """Every text file that is part of the project, committed or about to be."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
        timeout=30,
    ).stdout.decode()
    files = (ROOT / name for name in listing.split("\0") if name)
    return [file for file in files if file.suffix in TEXT and file.is_file() and file != Path(__file__)]


def _lines_that_match(pattern: str, files: list[Path]) -> list[str]:
    expression = re.compile(pattern)
    return [
        f"{file.relative_to(ROOT)}:{number}: {line.strip()[:120]}"
        for file in files
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1)
        if expression.search(line)
    ]


@pytest.fixture(scope="module")
def files() -> list[Path]:
    return _ours()


def test_no_path_of_a_machine_is_in_the_tree(files: list[Path]) -> None:
    assert _lines_that_match(r"(?<![\w.~/-])/(work|root|Users|home/[a-z]+)/\w", files) == []


def test_no_address_of_a_package_registry_is_in_the_tree(files: list[Path]) -> None:
    hosts = r"pythonhosted\.org|pypi\.org|registry\.(npmjs\.org|yarnpkg\.com)|^\s*--((extra-)?index-url|find-links)"
    assert _lines_that_match(hosts, files) == []


def test_no_test_is_skipped_or_expected_to_fail(files: list[Path]) -> None:
    skips = r"(mark|pytest)\.(skip|skipif|xfail|importorskip)\b|\b(unittest|it|test|describe)\.(skip|only)"
    assert _lines_that_match(skips, files) == []


def test_nothing_is_left_to_do_later(files: list[Path]) -> None:
    assert _lines_that_match(r"\b(TODO|FIXME|XXX|HACK)\b|raise NotImplementedError", files) == []


def test_the_project_speaks_of_itself_alone(files: list[Path]) -> None:
    foreign = r"\bshared/(design|seeds|recipes)|\bseed document|\b([Dd]ecision|issue) \d|\b[Ss]ource [A-E]\b"
    assert _lines_that_match(foreign, files) == []


def test_every_test_that_the_architecture_names_exists() -> None:
    named = set(re.findall(r"`(test_\w+)`", (ROOT / "docs/architecture.md").read_text(encoding="utf-8")))
    tests = "".join(file.read_text(encoding="utf-8") for file in (ROOT / "tests").rglob("test_*.py"))
    assert named
    assert {name for name in named if f"def {name}(" not in tests} == set()


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md", "docs/architecture.md"])
def test_every_file_that_a_document_names_exists(document: str) -> None:
    named = set(re.findall(r"`([\w./-]+(?:/|\.py|\.md))`", (ROOT / document).read_text(encoding="utf-8")))
    places = [ROOT, ROOT / "agents/deputy_agents", ROOT / "server/deputy_server", ROOT / "editors", ROOT / "tests"]
    assert named
    assert {name for name in named if not any((place / name).exists() for place in places)} == set()


def test_links_between_documents_lead_somewhere(files: list[Path]) -> None:
    broken = [
        f"{file.relative_to(ROOT)}: {target}"
        for file in files
        if file.suffix == ".md"
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", file.read_text(encoding="utf-8"))
        if not (file.parent / target).exists()
    ]
    assert broken == []
