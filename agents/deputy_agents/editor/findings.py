"""Parses the findings of a review from its answer, each with its location.

A finding is a list item with a severity and a location: ``- **major** `src/a.py:12-14`: what goes wrong``. Parsing is
lenient because models vary the format; text without a severity or without an existing location is not a finding.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import islice
from pathlib import Path

from deputy_agents.domain.errors import ToolError
from deputy_agents.editor.references import MAX_REFERENCES, Reference, references
from deputy_agents.files.workspace import Workspace
from deputy_agents.text import lines_without_ends


class Severity(StrEnum):
    CRITICAL = "critical"
    MAJOR = "major"
    MINOR = "minor"


@dataclass(frozen=True, slots=True)
class ReportedFinding:
    """A finding as written in the answer; its location may not exist."""

    severity: Severity
    at: Reference
    text: str


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding with an existing location: ``path`` is absolute, ``start`` counts from 1, ``lines`` is the text
    there."""

    severity: Severity
    path: Path
    start: int
    lines: tuple[str, ...]
    text: str


_SEVERITY = re.compile(r"\b(critical|major|minor)\b", re.IGNORECASE)
_ITEM = re.compile(r"\s*(?:[-*+]|\d{1,3}[.)])\s+|\s*#{1,6}\s|\s*\*\*")
"""The beginning of the first line of a finding or of a group of findings."""
_LEAD = re.compile(r"^[\s\-*+#\d.):,;–—|`\[\]()]*(?:(?:critical|major|minor)\b)?[\s*:.,;–—|`\[\]()-]*", re.IGNORECASE)


def reported_findings(text: str) -> Iterator[ReportedFinding]:
    """The findings in ``text``, in order."""
    group_severity: Severity | None = None
    found: ReportedFinding | None = None
    gap = False
    for line in text.splitlines():
        if not _ITEM.match(line):
            # After a blank line, only indented text belongs to the finding.
            if found is not None and line.strip() and (line[0].isspace() or not gap):
                found = replace(found, text=f"{found.text} {_plain(line)}".strip())
            gap = not line.strip()
            continue
        named = _SEVERITY.search(line[:80])
        severity = Severity(named[1].lower()) if named else group_severity
        at = next(references(line), None)
        if at is None:
            # A heading for the following findings, or a further point about the previous one.
            if named:
                group_severity = severity
            elif found is not None:
                found = replace(found, text=f"{found.text} {_plain(line)}".strip())
        elif severity is not None:
            if found is not None:
                yield found
            found = ReportedFinding(severity, at, _message(line, at))
    if found is not None:
        yield found


async def findings(text: str, workspace: Workspace, cwd: Path) -> list[Finding]:
    """The findings in ``text`` whose locations exist; unsaved text takes precedence over the file on disk."""
    found: list[Finding] = []
    for reported in islice(reported_findings(text), MAX_REFERENCES):
        try:
            place = await workspace.locate(reported.at.path, cwd)
            file = None if place.secret else await workspace.read(place)
        except ToolError:
            continue
        first, last = reported.at.start, reported.at.end or reported.at.start
        lines = tuple(lines_without_ends(file.text)[first - 1 : last]) if file and first >= 1 else ()
        if lines and len(lines) == last - first + 1:
            found.append(Finding(reported.severity, place.path, first, lines, reported.text))
    return found


def _message(line: str, at: Reference) -> str:
    """The line without the severity and the location."""
    _, _, after = line.partition(at.path)
    after = re.sub(r"^(?::|#L)\d+(?:-L?\d+)?", "", after)
    return _plain(after) or _plain(line)


def _plain(text: str) -> str:
    """``text`` without leading markup and without emphasis."""
    rest = _LEAD.sub("", text)
    if rest.count("`") % 2:  # the removed one opened a code span
        rest = f"`{rest}"
    return rest.replace("**", "").strip()
