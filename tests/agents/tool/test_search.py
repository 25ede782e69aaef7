"""``glob`` and ``grep``."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import anyio
import psutil
import pytest

from deputy_agents.domain.errors import ToolError
from deputy_agents.domain.event import Location
from deputy_agents.domain.rule import AccessRequest, Action
from deputy_agents.tool import ripgrep
from deputy_agents.tool.match import expand_braces, matcher, name_globs
from tests.support.files import Hands, hands_on

pytestmark = pytest.mark.asyncio

GLOB_NOTE = " A glob is relative to the searched folder; files outside the workspace cannot be searched."


@pytest.fixture
def project(workspace: Path) -> Path:
    files = {
        "README.md": "Needle here\n",
        "src/app.py": "import os\nneedle = 1\n",
        "src/deep/util.ts": "const x = 'needle'\n",
        "src/deep/util.tsx": "needle\n",
        "src/ignored.py": "needle\n",
        ".github/ci.yml": "needle: true\n",
        ".git/config": "needle\n",
        ".env": "needle=secret\n",
        "vendor/x.py": "needle\n",
        ".gitignore": "vendor/\n",
        "src/.gitignore": "ignored.py\n",
        "line\nend.txt": "needle\n",
    }
    for path, text in files.items():
        (workspace / path).parent.mkdir(parents=True, exist_ok=True)
        (workspace / path).write_text(text)
    (workspace / "bin").write_bytes(b"\0needle")
    (workspace / "out").symlink_to("/etc")
    return workspace


async def test_glob_lists_files_sorted_without_ignored_ones(project: Path) -> None:
    hands = hands_on(project)
    assert await hands.text("glob", pattern="*.py") == "src/app.py"
    assert await hands.text("glob", pattern="src/**/*.{ts,tsx}") == "src/deep/util.ts\nsrc/deep/util.tsx"
    assert await hands.text("glob", pattern="!*.{py,ts,tsx,md}", path="src") == "src/.gitignore"
    assert await hands.text("glob", pattern="*.yml") == ".github/ci.yml"
    assert await hands.text("glob", pattern="*.rb") == "No files match."
    assert await hands.text("glob", pattern="line*") == "line\\nend.txt"


async def test_paths_are_relative_to_the_working_directory_or_absolute(project: Path) -> None:
    hands = hands_on(project)
    hands.context = replace(hands.context, cwd=project / "src")
    assert await hands.text("glob", pattern="*.py") == "app.py"
    assert await hands.text("grep", pattern="Needle", path="..") == f"{project}/README.md:1:Needle here"


async def test_absolute_glob_below_the_searched_folder_matches(project: Path) -> None:
    hands = hands_on(project)
    assert await hands.text("glob", pattern=f"{project}/src/*.py") == "src/app.py"
    assert await hands.text("glob", pattern=f"{project}/*.py") == "No files match." + GLOB_NOTE
    assert await hands.text("glob", pattern="/src/*.py") == "src/app.py"


async def test_glob_outside_the_workspace_is_reported(project: Path) -> None:
    hands = hands_on(project)
    assert await hands.text("glob", pattern="/etc/*") == "No files match." + GLOB_NOTE
    assert await hands.text("grep", pattern="root", glob="/etc/*") == "No matches." + GLOB_NOTE
    for name, glob in (("glob", {"pattern": "../*"}), ("grep", {"pattern": "x", "glob": "src/../../*"})):
        with pytest.raises(ToolError, match="outside the workspace"):
            await hands.call(name, **glob)


async def test_grep_returns_path_line_and_text(project: Path) -> None:
    hands = hands_on(project)
    output = await hands.call("grep", pattern=r"^needle", path="src")
    assert output.content == "src/app.py:2:needle = 1\nsrc/deep/util.tsx:1:needle"
    assert output.locations == (
        Location(str(project / "src/app.py"), 2, 2),
        Location(str(project / "src/deep/util.tsx"), 1, 1),
    )
    assert await hands.text("grep", pattern="nowhere") == "No matches."


async def test_grep_omits_secrets_ignored_and_binary_files_and_follows_no_links(project: Path) -> None:
    found = await hands_on(project).text("grep", pattern="(?i)needle|root")
    assert [line.split(":")[0] for line in found.splitlines()] == [
        ".github/ci.yml",
        "README.md",
        "line\\nend.txt",
        "src/app.py",
        "src/deep/util.ts",
        "src/deep/util.tsx",
    ]


async def test_grep_searches_only_files_that_match_the_glob(project: Path) -> None:
    hands = hands_on(project)
    assert await hands.text("grep", pattern="needle", glob="*.py") == "src/app.py:2:needle = 1"
    assert (
        await hands.text("grep", pattern="needle", glob="deep/*.ts", path="src")
        == "src/deep/util.ts:1:const x = 'needle'"
    )
    assert "app.py" not in await hands.text("grep", pattern="needle", glob="!*.py", path="src")
    assert await hands.text("grep", pattern="needle", glob="**/deep/**") == (
        "src/deep/util.ts:1:const x = 'needle'\nsrc/deep/util.tsx:1:needle"
    )


async def test_searches_omit_files_that_the_agent_may_not_read(project: Path) -> None:
    hands = hands_on(project)

    def may_read(request: AccessRequest) -> bool:
        return not request.subject.startswith("src/deep/")

    hands.context = replace(hands.context, may_read=may_read)
    assert await hands.text("grep", pattern="needle", path="src") == "src/app.py:2:needle = 1"
    assert await hands.text("glob", pattern="*.ts*") == "No files match."


async def test_search_of_one_file_uses_its_unsaved_text(project: Path) -> None:
    hands = hands_on(project)
    hands.documents.show(project / "src/app.py", "x\r\nneedle 2\r\n" + "y" * 200_000)
    assert await hands.text("grep", pattern="needle.*$", path="src/app.py") == "src/app.py:2:needle 2"
    assert await hands.access("grep", pattern="x", path="src/app.py") == [
        AccessRequest("grep", Action.READ, "src/app.py"),
        AccessRequest("read_file", Action.READ, "src/app.py"),
    ]


@pytest.mark.requirement("X1")
async def test_search_of_a_folder_uses_unsaved_text(project: Path) -> None:
    """Unsaved text replaces that on disk, and includes new files that are not on disk."""
    hands = hands_on(project)
    hands.documents.show(project / "src/app.py", "one\ntwo\nneedle (two)\n")
    hands.documents.show(project / "src/deep/util.ts", "nothing\n")
    hands.documents.show(project / "src/new.py", "a needle\n")
    assert await hands.text("grep", pattern=r"needle(?: \(two\))?$", path="src") == (
        "src/app.py:3:needle (two)\nsrc/new.py:1:a needle\nsrc/deep/util.tsx:1:needle"
    )
    assert await hands.text("grep", pattern="needle", path="src", glob="deep/*") == "src/deep/util.tsx:1:needle"


async def test_open_documents_are_omitted_by_the_same_rules_as_files(project: Path) -> None:
    hands = hands_on(project)
    for path in (".env", "vendor/x.py", "src/ignored.py", ".git/config", "../outside.py", "README.md"):
        hands.documents.show((project / path).resolve(), "unsaved\n")
    assert await hands.text("grep", pattern="unsaved") == "README.md:1:unsaved"
    assert await hands.text("grep", pattern="unsaved", path="vendor") == "vendor/x.py:1:unsaved"

    def may_read(request: AccessRequest) -> bool:
        return request.subject != "README.md"

    hands.context = replace(hands.context, may_read=may_read)
    assert await hands.text("grep", pattern="unsaved") == "No matches."


async def test_file_given_as_path_is_searched_regardless_of_its_size(project: Path) -> None:
    with (project / "src/huge.log").open("wb") as file:
        file.write(b"line of the log\n" * 700_000)
        file.write(b"needle in it\n")
    hands = hands_on(project)
    assert await hands.text("grep", pattern="needle in", path="src/huge.log") == "src/huge.log:700001:needle in it"
    assert "huge.log" not in await hands.text("grep", pattern="needle in", path="src")


async def test_searching_a_secret_by_name_requests_more_than_read_access(project: Path) -> None:
    hands = hands_on(project)
    assert await hands.access("grep", pattern="x", path=".env") == [
        AccessRequest("grep", Action.READ, ".env"),
        AccessRequest("read_file", Action.READ_SECRET, ".env"),
    ]
    assert await hands.text("grep", pattern="needle", path=".env") == ".env:1:needle=secret"


async def test_title_shows_the_pattern_and_the_path(project: Path) -> None:
    hands = hands_on(project)
    assert (await hands.prepare("grep", pattern="a\u202eb")).target == "a\\u{202e}b"
    assert (await hands.prepare("glob", pattern="*.py", path="src")).target == "*.py in src"


@pytest.mark.parametrize("pattern", ["--files", "-e", "--pre=sh", "-f/etc/passwd"])
async def test_pattern_is_never_read_as_an_option(project: Path, pattern: str) -> None:
    (project / "options.txt").write_text(f"{pattern}\n")
    found = await hands_on(project).text("grep", pattern=pattern)
    assert found == f"options.txt:1:{pattern}"


async def test_ripgrep_configuration_of_the_user_is_ignored(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "rc").write_text("--files-with-matches\n--follow\n")
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(project / "rc"))
    assert await hands_on(project).text("grep", pattern="^needle", path="src/deep") == "src/deep/util.tsx:1:needle"


@pytest.mark.parametrize(
    ("name", "input", "message"),
    [
        ("grep", {"pattern": "("}, "unclosed group"),
        ("grep", {"pattern": "a\nb"}, r"\\n"),
        ("grep", {"pattern": ""}, "pattern: "),
        ("grep", {"pattern": "x", "path": "none"}, "path: none does not exist"),
        ("grep", {"pattern": "x", "path": "bin"}, "binary"),
        ("grep", {"pattern": "x", "glob": "*.[a"}, "glob"),
        ("glob", {"pattern": "{a,b}" * 7}, "more than 64"),
        ("glob", {"pattern": "*", "path": "README.md"}, "path: README.md is not a folder"),
        ("glob", {"pattern": "*", "path": "none"}, "path: none does not exist"),
    ],
)
async def test_invalid_input_is_an_error(project: Path, name: str, input: dict[str, object], message: str) -> None:
    with pytest.raises(ToolError, match=message):
        await hands_on(project).call(name, **input)


async def test_results_are_bounded(workspace: Path) -> None:
    (workspace / "many.txt").write_text("needle\n" * 10_000)
    (workspace / "wide.txt").write_text("needle " + "x" * 1_000_000)
    for number in range(600):
        (workspace / f"{number:03}.py").touch()
    hands = hands_on(workspace)
    many = (await hands.text("grep", pattern="needle")).splitlines()
    assert (len(many), many[-1]) == (201, "[cut here: more matches; narrow the pattern, path or glob]")
    assert len(await hands.text("grep", pattern="needle", path="wide.txt")) < 600
    files = (await hands.text("glob", pattern="*.py")).splitlines()
    assert (len(files), files[-1]) == (501, "[cut here: more files match; narrow the pattern or path]")


async def test_binary_data_late_in_a_file_does_not_garble_the_result(workspace: Path) -> None:
    (workspace / "late.txt").write_bytes(b"needle\n" + b"x\n" * 200_000 + b"\0\nneedle\n")
    (workspace / "z.txt").write_text("needle\n")
    assert await hands_on(workspace).text("grep", pattern="needle") == "late.txt:1:needle\nz.txt:1:needle"


@pytest.fixture
def endless(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A stand-in for ripgrep that writes its process id to this file, finds one line, and never ends."""
    program = tmp_path / "rg"
    program.write_text(f"#!/bin/sh\necho $$ >'{tmp_path}/pid'\nprintf './a.txt\\0001:found\\n'\nexec sleep 1000\n")
    program.chmod(0o755)
    monkeypatch.setattr(ripgrep, "binary", lambda: str(program))
    return tmp_path / "pid"


async def test_cancelled_search_leaves_no_process(workspace: Path, endless: Path) -> None:
    hands = hands_on(workspace)
    scope = anyio.CancelScope()
    on_first_find(hands, scope.cancel)
    with anyio.fail_after(20), scope:
        await hands.call("grep", pattern="x")
    assert scope.cancelled_caught
    assert not psutil.pid_exists(pid(endless))


async def test_search_that_times_out_returns_its_results_so_far(
    workspace: Path, endless: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hands = hands_on(workspace)
    clock = anyio.CancelScope()
    clocks = {ripgrep.TIMEOUT: clock}
    monkeypatch.setattr(anyio, "move_on_after", clocks.__getitem__)
    on_first_find(hands, clock.cancel)
    with anyio.fail_after(20):
        text = await hands.text("grep", pattern="x")
    assert text.startswith("a.txt:1:found\n[cut here")
    assert not psutil.pid_exists(pid(endless))


def on_first_find(hands: Hands, act: Callable[[], None]) -> None:
    def may_read(_: AccessRequest) -> bool:
        act()
        return True

    hands.context = replace(hands.context, may_read=may_read)


def pid(file: Path) -> int:
    return int(file.read_text())


async def test_missing_ripgrep_is_reported_with_what_to_install(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> str:
        raise ToolError("ripgrep (rg) is missing. Install the package ripgrep next to Deputy.")

    monkeypatch.setattr(ripgrep, "binary", missing)
    with pytest.raises(ToolError, match="Install"):
        await hands_on(workspace).call("glob", pattern="*")


async def test_braces_are_expanded() -> None:
    assert expand_braces("{a,b}.{c,d}") == ["a.c", "a.d", "b.c", "b.d"]
    assert expand_braces("{one}") == ["{one}"]


@pytest.mark.parametrize(
    ("glob", "names"),
    [
        ("*.py", ["*.py"]),
        ("src/**/*.{ts,tsx}", ["*.ts", "*.tsx"]),
        ("*.[ch]", ["*.*"]),
        ("a/[id]?.py", ["**.py"]),
        (r"x\[*\].py", [r"x\[*\].py"]),
        ("{one}*.py", [r"\{one\}*.py"]),
        ("x[a/b]*.py", []),
        ("src/**", []),
        ("a**.py", []),
        ("!*.py", []),
        ("src", []),
        ("", []),
        ("{a/x,b/*.y}", []),
        ("include:*.py", []),
    ],
)
async def test_name_globs_match_the_name_of_every_match_of_the_glob(glob: str, names: list[str]) -> None:
    assert name_globs(glob) == names


@pytest.mark.parametrize(
    ("glob", "found"),
    [
        ("app/[id]/*", ["app/[id]/page.tsx"]),
        ("**/[id]/page.tsx", ["app/[id]/page.tsx"]),
        ("app/[...slug]/**", ["app/[...slug]/page.tsx"]),
        ("app/[[...all]]/*.tsx", ["app/[[...all]]/page.tsx"]),
        ("app/[user-id]", ["app/[user-id]/page.tsx"]),
        ("[id]", ["app/[id]/page.tsx"]),
        (r"app/\[id\]/*", ["app/[id]/page.tsx"]),
        ("./app/[id]/*", ["app/[id]/page.tsx"]),
        ("app/x/[pq]age.*", ["app/x/page.tsx"]),
        ("app/{id}/*", ["app/{id}/page.tsx"]),
    ],
)
async def test_brackets_match_a_name_with_these_brackets(workspace: Path, glob: str, found: list[str]) -> None:
    for folder in ("[id]", "[...slug]", "[[...all]]", "[user-id]", "x", "{id}"):
        (workspace / "app" / folder).mkdir(parents=True)
        (workspace / "app" / folder / "page.tsx").write_text("needle\n")
    hands = hands_on(workspace)
    assert (await hands.text("glob", pattern=glob)).splitlines() == found
    assert (await hands.text("grep", pattern="needle", glob=glob)).splitlines() == [
        f"{name}:1:needle" for name in found
    ]


EVIL_GLOBS = [
    "*a" * 99 + "*b",
    "**/" * 90 + "x",
    "a/**/" * 90 + "b",
    "*?" * 49 + "b",
    "{" + "*a" * 50 + "," + "*?" * 25 + "}" + "*a" * 45 + "b",
]


@pytest.mark.parametrize("glob", EVIL_GLOBS)
async def test_no_glob_takes_long(workspace: Path, glob: str) -> None:
    folder = workspace.joinpath(*["a"] * 100)
    folder.mkdir(parents=True)
    for number in range(20):
        (folder / f"{'a' * 200}{number}").write_text("needle\n")
    hands = hands_on(workspace)
    with anyio.fail_after(10):
        assert await hands.text("glob", pattern=glob) == "No files match."
        assert await hands.text("grep", pattern="needle", glob=glob) == "No matches."


@pytest.mark.parametrize("glob", ["*a" * 300, "[a", "[[:word:]]", "{a,b}" * 6 + "?" * 900])
async def test_glob_beyond_the_limits_is_an_error(workspace: Path, glob: str) -> None:
    with pytest.raises(ToolError, match="glob"):
        await hands_on(workspace).call("glob", pattern=glob)


async def test_glob_can_start_with_a_hash() -> None:
    assert matcher("#x")("#x")
