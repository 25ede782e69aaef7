"""Findings of a review, read from its answer, each at the place that it names.

An item of a finding says how severe it is, and where: ``- **major** `src/a.py:12-14`: what goes wrong``. Models keep
to that more or less, so it is read leniently; what names no severity or no real place is no finding.
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
from deputy_agents.tool.read import lines_of


class Severity(StrEnum):
    CRITICAL = "critical"
    MAJOR = "major"
    MINOR = "minor"


@dataclass(frozen=True, slots=True)
class Claim:
    """A finding as the answer tells it."""

    severity: Severity
    at: Reference
    text: str


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding at a real place: ``path`` is absolute, ``start`` counts from 1, ``lines`` are what it is about."""

    severity: Severity
    path: Path
    start: int
    lines: tuple[str, ...]
    text: str


_SEVERITY = re.compile(r"\b(critical|major|minor)\b", re.IGNORECASE)
_ITEM = re.compile(r"\s*(?:[-*+]|\d{1,3}[.)])\s+|\s*#{1,6}\s|\s*\*\*")
"""How the line begins that a finding, or a group of them, begins with."""
_LEAD = re.compile(r"^[\s\-*+#\d.):,;–—|`\[\]()]*(?:(?:critical|major|minor)\b)?[\s*:.,;–—|`\[\]()-]*", re.IGNORECASE)


def claims(text: str) -> Iterator[Claim]:
    """The findings that ``text`` tells, in order."""
    of_group: Severity | None = None
    found: Claim | None = None
    gap = False
    for line in text.splitlines():
        if not _ITEM.match(line):
            # What follows after a blank line belongs to a finding only where it is indented.
            if found is not None and line.strip() and (line[0].isspace() or not gap):
                found = replace(found, text=f"{found.text} {_plain(line)}".strip())
            gap = not line.strip()
            continue
        named = _SEVERITY.search(line[:80])
        severity = Severity(named[1].lower()) if named else of_group
        at = next(references(line), None)
        if at is None:
            # A heading for those that follow, or a further point about the one before.
            if named:
                of_group = severity
            elif found is not None:
                found = replace(found, text=f"{found.text} {_plain(line)}".strip())
        elif severity is not None:
            if found is not None:
                yield found
            found = Claim(severity, at, _message(line, at))
    if found is not None:
        yield found


async def findings(text: str, workspace: Workspace, cwd: Path) -> list[Finding]:
    """Those of ``text`` whose places there are, unsaved buffers first."""
    found: list[Finding] = []
    for claim in islice(claims(text), MAX_REFERENCES):
        try:
            place = await workspace.locate(claim.at.path, cwd)
            file = None if place.secret else await workspace.read(place)
        except ToolError:
            continue
        first, last = claim.at.start, claim.at.end or claim.at.start
        lines = tuple(lines_of(file.text)[first - 1 : last]) if file and first >= 1 else ()
        if lines and len(lines) == last - first + 1:
            found.append(Finding(claim.severity, place.path, first, lines, claim.text))
    return found


def _message(line: str, at: Reference) -> str:
    """What the line says beside the severity and the place."""
    _, _, after = line.partition(at.path)
    after = re.sub(r"^(?::|#L)\d+(?:-L?\d+)?", "", after)
    return _plain(after) or _plain(line)


def _plain(text: str) -> str:
    """``text`` without what marks it up at its beginning, and without emphasis."""
    rest = _LEAD.sub("", text)
    if rest.count("`") % 2:  # the first one began a piece of code
        rest = f"`{rest}"
    return rest.replace("**", "").strip()
