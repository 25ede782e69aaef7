"""Findings of a review: lenient parsing, and existing locations."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deputy_agents.editor.findings import ReportedFinding, Severity, findings, reported_findings
from deputy_agents.editor.references import Reference
from deputy_agents.files.workspace import Workspace

HERE = Reference("src/a.py", 12, 14)


@pytest.mark.parametrize(
    "item",
    [
        "- **major** src/a.py:12-14: it leaks",
        "- **major** `src/a.py:12-14`: it leaks",
        "1. Major — `src/a.py:12-14` — it leaks",
        "* [major] src/a.py#L12-L14 it leaks",
        "- `src/a.py:12-14` (major): it leaks",
        "## Major\n\n- src/a.py:12-14: it leaks",
        "**Major**\n- **src/a.py:12-14**: it leaks",
        "I looked at all of it.\n\n- **major** src/a.py:12-14: it\n  leaks\n\nNothing else is wrong with src/b.py:1.",
    ],
)
def test_item_with_a_severity_and_a_location_is_a_finding(item: str) -> None:
    assert list(reported_findings(item)) == [ReportedFinding(Severity.MAJOR, HERE, "it leaks")]


@pytest.mark.parametrize(
    "text", ["", "Nothing is wrong.", "- src/a.py:12: fine", "major trouble in src/a.py:12", "- major"]
)
def test_text_without_severity_or_location_is_not_a_finding(text: str) -> None:
    assert list(reported_findings(text)) == []


def test_findings_are_in_order_with_their_complete_text() -> None:
    text = "1. critical a.py:1: one\n   more of one\n   - fix it so\n2. minor b.py:2: two\n### Minor\n- c.py:3: three"
    assert [(one.severity.value, str(one.at), one.text) for one in reported_findings(text)] == [
        ("critical", "a.py:1", "one more of one fix it so"),
        ("minor", "b.py:2", "two"),
        ("minor", "c.py:3", "three"),
    ]


@given(st.text(st.sampled_from("-*#1. \nmajor minor critical a.py:1-2`[]()"), max_size=200))
def test_any_text_can_be_parsed(text: str) -> None:
    assert all(one.at.path for one in reported_findings(text))


@pytest.mark.asyncio
async def test_finding_with_a_missing_or_unreadable_location_is_omitted(workspace: Path) -> None:
    (workspace / "a.py").write_text("one\ntwo\n")
    (workspace / ".env").write_text("KEY=1\n")
    (workspace.parent / "out.py").write_text("x\n")
    text = "".join(
        f"- major {place}: it leaks\n"
        for place in ("a.py:2", "a.py:3", "a.py:0", "b.py:1", "../out.py:1", ".env:1", "a.py:2-1")
    )
    found = await findings(text, await Workspace.open([workspace]), workspace)
    assert [(finding.path, finding.start, finding.lines) for finding in found] == [(workspace / "a.py", 2, ("two",))]
