"""Instructions of a project and its user for every agent: ``AGENTS.md``, ``CLAUDE.md``. Blocks; call it in a worker
thread."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from deputy_agents.definition.folder import Unreadable, markdown_file
from deputy_agents.domain.problem import Problem
from deputy_agents.guidance.items import Instruction
from deputy_agents.guidance.markdown import read_file
from deputy_agents.text import clean, truncate

NAMES = ("AGENTS.md", "CLAUDE.md", "CLAUDE.local.md")
AT_HOME = (".deputy/AGENTS.md", ".claude/CLAUDE.md")
MAX_FILE = 32 * 1024
"""Bytes of one file."""
MAX_ALL = 96 * 1024
"""Bytes of all files for one folder. Beyond it, the farthest files are dropped."""
MAX_IMPORTS = 5
"""Depth of imports."""

_IMPORT = re.compile(r"^@([^\s@]+\.md)\s*$", re.MULTILINE)


def instructions_for(
    folder: Path, roots: Sequence[Path], home: Path | None, *, trusted: bool
) -> tuple[tuple[Instruction, ...], tuple[Problem, ...]]:
    """The instructions for ``folder``, and problems: those at home first, then from the workspace root down to the
    folder. In an untrusted workspace, only those at home."""
    search = _Search(roots[0] if roots else None)
    if home is not None:
        for name in AT_HOME:
            search.add(home / name, None, "your own, for all projects")
    root = max((root for root in roots if folder.is_relative_to(root)), key=lambda r: len(r.parts), default=None)
    if trusted and root is not None:
        for above in _down(root, folder):
            reason = "the workspace root" if above == root else f"the folder {above.relative_to(root).as_posix()}"
            for name in NAMES:
                search.add(above / name, root, reason)
    return tuple(search.nearest(MAX_ALL)), tuple(search.problems)


def _down(root: Path, folder: Path) -> Iterator[Path]:
    yield root
    for part in folder.relative_to(root).parts:
        yield (root := root / part)


@dataclass(slots=True)
class _Search:
    main_root: Path | None
    found: list[Instruction] = field(default_factory=list[Instruction])
    problems: list[Problem] = field(default_factory=list[Problem])
    _seen: set[str] = field(default_factory=set[str])

    def add(self, path: Path, within: Path | None, reason: str, depth: int = 0) -> None:
        """Add the file at ``path``, if it exists, after its imports. A file or text that was added before is skipped:
        many projects have the same file under two names."""
        try:
            file = markdown_file(path, within)
            if file is None or file.real in self._seen:
                return
            self._seen.add(file.real)
            text, access = read_file(file, within, main=within is not None and within == self.main_root)
            text = clean(text).strip()
        except Unreadable as error:
            self.problems.append(Problem(str(path), 1, str(error), fatal=True))
            return
        if depth < MAX_IMPORTS:
            for name in _IMPORT.findall(text):
                self.add(path.parent / name, within or path.parent, f"imported by {path.name}", depth + 1)
        if text and text not in self._seen:
            self._seen.add(text)
            shortened, truncated = truncate(text, MAX_FILE, f"read_file({str(path)!r}) has all of it")
            self.found.append(Instruction(str(path), shortened, reason, truncated, access))

    def nearest(self, room: int) -> list[Instruction]:
        """The nearest files that fit into ``room`` bytes, in order."""
        kept: list[Instruction] = []
        for one in reversed(self.found):
            room -= len(one.text.encode())
            if room < 0:
                reason = f"It is ignored, because all instructions together are larger than {MAX_ALL // 1024} KiB."
                self.problems.append(Problem(one.path, 1, reason, fatal=True))
            else:
                kept.append(one)
        return kept[::-1]
