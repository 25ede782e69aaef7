"""The paths of a workspace, arranged so that completions are found among hundreds of thousands in milliseconds.

Nothing here takes long in one step: other threads run between the steps of :func:`build`.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest

from deputy_agents.text import visible
from deputy_agents.tool.ripgrep import listed_paths

MAX_FILES = 500_000
"""Files that are kept; the others cannot be completed."""
_RUN = 2**12
"""Paths that are sorted at once."""
_TRIED = 20
"""Files below a folder that are tried to find one that may be read."""


@dataclass(frozen=True, slots=True)
class PathIndex:
    """Files and folders, which end with a slash. ``paths`` are sorted by the number of slashes, then by the path;
    ``levels`` has the range of each number. ``names`` are the last parts in lower case, each after a line end, and
    ``starts`` where each of them begins."""

    files: Sequence[str]
    """In the order of the paths."""
    paths: Sequence[str]
    levels: Sequence[tuple[int, int]]
    names: str
    starts: Sequence[int]

    def find(self, folder: str, name: str) -> Iterator[str]:
        """The paths below ``folder`` (empty, or ends with a slash) whose last part contains ``name``, in either case.
        Those whose last part begins with it come first, and of those the ones with fewer slashes."""
        name = name.lower()
        if "\n" in name:
            return
        for begins in (True, False):
            if name or begins:
                for level in self.levels:
                    yield from self._find(name, *self._below(folder, *level), begins)

    def _below(self, folder: str, first: int, end: int) -> tuple[int, int]:
        """The part of a level that is below ``folder``."""
        if not folder:
            return first, end
        after = folder[:-1] + chr(ord("/") + 1)
        return bisect_right(self.paths, folder, first, end), bisect_left(self.paths, after, first, end)

    def files_below(self, folder: str) -> Iterator[str]:
        """A few of the files below ``folder``."""
        start = bisect_left(self.files, folder)
        return (path for path in islice(self.files, start, start + _TRIED) if path.startswith(folder))

    def _find(self, name: str, first: int, end: int, begins: bool) -> Iterator[str]:
        if first == end:
            return
        at = self.starts[first] - 1
        limit = self.starts[end] - 1 if end < len(self.starts) else len(self.names)
        text = f"\n{name}" if begins else name
        while (at := self.names.find(text, at, limit)) >= 0:
            index = bisect_right(self.starts, at + begins) - 1
            start = self.starts[index]
            if begins or not self.names.startswith(name, start):
                yield self.paths[index]
            at = self.starts[index + 1] - 1 if index + 1 < len(self.starts) else limit


def build(listing: bytes) -> PathIndex:
    """Index the paths in ``listing``, each of which ends with a null byte. Paths that a prompt cannot contain are left
    out. Blocks."""
    # A backslash may be an escaped control character, so the name would be ambiguous.
    found = islice(listed_paths(listing), MAX_FILES)
    files = [path for path in found if "\\" not in path and visible(path) == path]
    by_depth: defaultdict[int, list[str]] = defaultdict(list)
    folders: set[str] = set()
    for path in files:
        by_depth[path.count("/")].append(path)
        folder = path
        while (slash := folder.rfind("/", 0, -1)) >= 0 and (folder := folder[: slash + 1]) not in folders:
            folders.add(folder)
            by_depth[folder.count("/")].append(folder)
    paths: list[str] = []
    levels: list[tuple[int, int]] = []
    for depth in sorted(by_depth):
        paths += _sorted(by_depth[depth])
        levels.append((len(paths) - len(by_depth[depth]), len(paths)))
    names: list[str] = []
    starts = array("Q")
    at = 1
    for path in paths:
        name = path[path.rfind("/", 0, -1) + 1 :].removesuffix("/").lower()
        names.append(name)
        starts.append(at)
        at += len(name) + 1
    return PathIndex(_sorted(files), paths, levels, "\n" + "\n".join(names), starts)


def _sorted(paths: list[str]) -> list[str]:
    """As ``sorted`` does it, in steps: a long list keeps all other threads waiting."""
    runs = [sorted(paths[at : at + _RUN]) for at in range(0, len(paths), _RUN)]
    while len(runs) > 1:
        pairs = zip_longest(runs[::2], runs[1::2], fillvalue=list[str]())
        runs = [sorted(one + other) for one, other in pairs]  # two sorted halves are merged in linear time
    return runs[0] if runs else []
