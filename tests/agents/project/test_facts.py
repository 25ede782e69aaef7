"""The text of the facts that agents receive."""

import platform
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deputy_agents.project.facts import Facts, describe, describe_changes
from deputy_agents.project.git_state import GitState
from deputy_agents.project.layout import layout_of

pytestmark = pytest.mark.requirement("M8")

GIT = GitState("main", "0123456789ab", "origin/main", ahead=2, behind=1, changed=(("M", "a b.py"), ("??", "new.py")))
FACTS = Facts(date(2026, 3, 1), Path("/w"), GIT, layout_of(b"./README.md\0src/a.py\0src/deep/b.py\0src/c.rs\0"))


@pytest.fixture(autouse=True)
def system(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("system", "Linux"), ("release", "6.1"), ("machine", "x86_64")):
        monkeypatch.setattr(platform, name, lambda value=value: value)


def test_the_text_has_date_system_git_languages_and_folders() -> None:
    assert describe(FACTS) == (
        "# Environment\n"
        "When this was written. It is information, not a task.\n"
        "- Date: 2026-03-01\n"
        "- System: Linux 6.1 (x86_64); commands run in bash\n"
        "- Git branch: main (origin/main: 2 ahead, 1 behind)\n"
        "- Uncommitted: M a b.py, ?? new.py\n"
        "- Languages: Python (2 files), Markdown (1 file), Rust (1 file)\n"
        "- /w has 4 files, without ignored ones:\n"
        "  - src/ (3 files): deep/, a.py, c.rs\n"
        "  - README.md"
    )


def test_what_is_not_known_is_left_out() -> None:
    assert describe(Facts(date(2026, 3, 1), Path("/w"))).splitlines()[2:] == [
        "- Date: 2026-03-01",
        "- System: Linux 6.1 (x86_64); commands run in bash",
    ]


@pytest.mark.parametrize(
    ("now", "changed"),
    [
        (FACTS, []),
        (replace(FACTS, today=date(2026, 3, 2)), ["- Date: 2026-03-02"]),
        (replace(FACTS, git=replace(GIT, branch="fix/x")), ["- Git branch: fix/x, before: main"]),
        (replace(FACTS, git=replace(GIT, branch=None)), ["- Git branch: none, at commit 0123456789ab, before: main"]),
        (replace(FACTS, git=None), []),
    ],
)
def test_later_prompts_have_only_what_has_changed(now: Facts, changed: list[str]) -> None:
    assert describe_changes(FACTS, now).splitlines()[2:] == changed


NAMES = st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=200)


@given(st.lists(st.lists(NAMES, min_size=1, max_size=4), max_size=80), NAMES)
def test_names_cannot_add_lines_and_the_text_stays_short(paths: list[list[str]], branch: str) -> None:
    listing = b"".join(b"/".join(part.encode() for part in path) + b"\0" for path in paths)
    git = replace(GIT, branch=branch, changed=tuple(("??", "/".join(path)) for path in paths))
    text = describe(Facts(date(2026, 3, 1), Path("/w"), git, layout_of(listing)))
    assert len(text) < 25_000
    lines = text.split("\n")
    assert text.splitlines() == lines
    assert all(line.startswith(("- ", "  - ")) for line in lines[2:])


def test_many_entries_are_counted() -> None:
    paths = [f"d{number:02}/f{other}.py" for number in range(40) for other in range(number + 1)] + ["z.txt"] * 3
    layout = layout_of(b"".join(path.encode() + b"\0" for path in paths))
    assert (layout.files, layout.languages) == (823, (("Python", 820),))
    assert [folder.name for folder in layout.folders] == [f"d{number:02}" for number in range(10, 40)]
    assert layout.more == 13
    assert layout.folders[-1].entries == tuple(f"f{number}.py" for number in (0, 1, 10, 11, 12, 13))
    assert layout.folders[-1].more == 34
