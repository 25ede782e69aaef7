"""Applies ``.gitignore`` files to listings. Blocks; call it in a worker thread."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from deputy_agents.domain.errors import ToolError
from deputy_agents.files.disk import Entry, list_folder, read_text
from deputy_agents.patterns.glob import GITIGNORE, Glob, compile_glob
from deputy_agents.patterns.linear import PatternError

MAX_LINES: Final = 2000
"""Lines of a ``.gitignore`` that count. Further ones are not applied."""


@dataclass(frozen=True, slots=True)
class _Line:
    """A pattern of a ``.gitignore``. Without a slash it matches the name alone."""

    glob: Glob
    excludes: bool
    only_folders: bool
    only_name: bool

    def matches(self, path: str, is_folder: bool) -> bool:
        if self.only_folders and not is_folder:
            return False
        return self.glob.matches(path.rpartition("/")[2] if self.only_name else path)


class IgnoreRules:
    """The ``.gitignore`` files that apply in a folder, on the way down from ``root``."""

    def __init__(self, root: Path, parts: tuple[str, ...] = (), above: tuple[Sequence[_Line], ...] = ()) -> None:
        self._root = root
        self._parts = parts
        self._above = above
        self._files: tuple[Sequence[_Line], ...] = (*above, ())

    def read(self) -> None:
        """Reads the ``.gitignore`` of the folder itself."""
        self._files = (*self._above, _lines(self._root, self._parts))

    def ignores(self, name: str, *, is_folder: bool) -> bool:
        """Whether an entry of the folder is excluded."""
        return _ignored(self._files, (*self._parts, name), "/" if is_folder else "")

    def below(self, name: str) -> "IgnoreRules":
        """Those in a subfolder that is not excluded itself."""
        return IgnoreRules(self._root, (*self._parts, name), self._files)


def list_unignored(root: Path, parts: Sequence[str]) -> list[Entry]:
    """List a folder without ``.git`` and without entries that a ``.gitignore`` between ``root`` and the folder
    excludes.

    A folder that is excluded itself is listed completely, because it was requested by name.

    Raises:
        ToolError: the folder does not exist, or cannot be read.
    """
    entries = [entry for entry in list_folder(root, parts) if entry.name != ".git"]
    files = [_lines(root, parts[:depth]) for depth in range(len(parts) + 1)]
    if _is_ignored_folder(files, parts):
        return entries
    return [entry for entry in entries if not _ignored(files, [*parts, entry.name], entry.mark)]


def is_ignored(root: Path, parts: Sequence[str], depth: int) -> bool:
    """Whether a search of a folder skips the file ``parts``. The first ``depth`` of ``parts`` name the folder. If the
    folder is excluded itself, it is searched completely."""
    if ".git" in parts[depth:]:
        return True
    files = [_lines(root, parts[:length]) for length in range(len(parts))]
    if _is_ignored_folder(files, parts[:depth]):
        files[:depth] = [()] * depth
    return _ignored(files, parts, "") or any(
        _ignored(files, parts[:length], "/") for length in range(depth + 1, len(parts))
    )


def _is_ignored_folder(files: Sequence[Sequence[_Line]], parts: Sequence[str]) -> bool:
    return any(_ignored(files, parts[:depth], "/") for depth in range(1, len(parts) + 1))


def _ignored(files: Sequence[Sequence[_Line]], parts: Sequence[str], mark: str) -> bool:
    """Whether ``parts`` is excluded. In the innermost ``.gitignore`` that matches, the last line that matches
    decides."""
    for depth in reversed(range(len(parts))):
        path = "/".join(parts[depth:])
        for line in reversed(files[depth]):
            if line.matches(path, mark == "/"):
                return line.excludes
    return False


def _lines(root: Path, parts: Sequence[str]) -> Sequence[_Line]:
    with suppress(ToolError):
        if file := read_text(root, [*parts, ".gitignore"]):
            return _parsed(file.text)
    return ()


@lru_cache(maxsize=16)
def _parsed(text: str) -> Sequence[_Line]:
    """The patterns of a ``.gitignore``, without those that match nothing, such as ``[a``."""
    lines = text.removeprefix("\ufeff").split("\n", MAX_LINES)[:MAX_LINES]
    return tuple(line for line in map(_parse, lines) if line is not None)


def _parse(text: str) -> _Line | None:
    pattern = text.removesuffix("\r")
    if pattern.startswith("#"):
        return None
    # Spaces at the end count only if they are escaped.
    bare = pattern.rstrip(" ")
    if bare != pattern and (len(bare) - len(bare.rstrip("\\"))) % 2:
        bare += " "
    excludes = not bare.startswith("!")
    bare = bare.removeprefix("!")
    glob = bare.removesuffix("/")
    if not glob.removeprefix("/") or (len(glob) - len(glob.rstrip("\\"))) % 2:
        return None
    try:
        compiled = compile_glob(glob.removeprefix("/"), GITIGNORE)
    except PatternError:
        return None
    return _Line(compiled, excludes, only_folders=glob != bare, only_name="/" not in glob)
