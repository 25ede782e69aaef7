"""``AGENTS.md`` and ``CLAUDE.md``: what a project and its user want every agent to know. Blocks; use a thread."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from deputy_agents.definition.folder import Unreadable, markdown_file, read_markdown
from deputy_agents.domain.problem import Problem
from deputy_agents.guidance.items import Instruction
from deputy_agents.text import bounded, clean

NAMES = ("AGENTS.md", "CLAUDE.md", "CLAUDE.local.md")
AT_HOME = (".deputy/AGENTS.md", ".claude/CLAUDE.md")
MAX_FILE = 32 * 1024
"""Bytes of one file."""
MAX_ALL = 96 * 1024
"""Bytes of all files that hold for one folder; beyond it the farthest are left out."""
MAX_IMPORTS = 5
"""Files from one to the next."""

_IMPORT = re.compile(r"^@([^\s@]+\.md)\s*$", re.MULTILINE)


def instructions_for(
    folder: Path, roots: Sequence[Path], home: Path | None, *, trusted: bool
) -> tuple[tuple[Instruction, ...], tuple[Problem, ...]]:
    """What holds in ``folder``, the nearest last: of the user's home, then from the workspace root down to the folder.
    In a workspace that is not trusted only that of home. And what cannot be used."""
    search = _Search()
    if home is not None:
        for name in AT_HOME:
            search.take(home / name, None, "your own, for all projects")
    root = max((root for root in roots if folder.is_relative_to(root)), key=lambda r: len(r.parts), default=None)
    if trusted and root is not None:
        for above in _down(root, folder):
            why = "the workspace root" if above == root else f"the folder {above.relative_to(root).as_posix()}"
            for name in NAMES:
                search.take(above / name, root, why)
    return tuple(search.within(MAX_ALL)), tuple(search.problems)


def _down(root: Path, folder: Path) -> Iterator[Path]:
    yield root
    for part in folder.relative_to(root).parts:
        yield (root := root / part)


@dataclass(slots=True)
class _Search:
    found: list[Instruction] = field(default_factory=list[Instruction])
    problems: list[Problem] = field(default_factory=list[Problem])
    _seen: set[str] = field(default_factory=set[str])

    def take(self, path: Path, within: Path | None, why: str, depth: int = 0) -> None:
        """The file at ``path`` if there is one, after those that it imports. What was taken before, under this name or
        as the same text, is not taken again: many projects keep one file under two names."""
        try:
            file = markdown_file(path, within)
            if file is None or file.real in self._seen:
                return
            self._seen.add(file.real)
            text = clean(read_markdown(file)).strip()
        except Unreadable as error:
            self.problems.append(Problem(str(path), 1, str(error), fatal=True))
            return
        if depth < MAX_IMPORTS:
            for name in _IMPORT.findall(text):
                self.take(path.parent / name, within or path.parent, f"imported by {path.name}", depth + 1)
        if text and text not in self._seen:
            self._seen.add(text)
            kept, cut = bounded(text, MAX_FILE, f"read_file({str(path)!r}) has all of it")
            self.found.append(Instruction(str(path), kept, why, cut))

    def within(self, room: int) -> list[Instruction]:
        """The nearest ones that fit."""
        kept: list[Instruction] = []
        for one in reversed(self.found):
            room -= len(one.text.encode())
            if room < 0:
                reason = f"It is left out: all instructions together are larger than {MAX_ALL // 1024} KiB."
                self.problems.append(Problem(one.path, 1, reason, fatal=True))
            else:
                kept.append(one)
        return kept[::-1]
