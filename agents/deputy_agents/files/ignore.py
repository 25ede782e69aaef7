"""Applies ``.gitignore`` files to listings. Blocks; call it in a worker thread."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from deputy_agents.domain.errors import ToolError
from deputy_agents.files.disk import Entry, list_folder, read_text

_Matcher = Callable[[str], bool | None]


def list_unignored(root: Path, parts: Sequence[str]) -> list[Entry]:
    """List a folder without ``.git`` and without entries that a ``.gitignore`` between ``root`` and the folder
    excludes.

    A folder that is excluded itself is listed completely, because it was requested by name.

    Raises:
        ToolError: the folder does not exist, or cannot be read.
    """
    entries = [entry for entry in list_folder(root, parts) if entry.name != ".git"]
    matchers = [_matcher(root, parts[:depth]) for depth in range(len(parts) + 1)]
    if _is_ignored_folder(matchers, parts):
        return entries
    return [entry for entry in entries if not _ignored(matchers, [*parts, entry.name], entry.mark)]


def is_ignored(root: Path, parts: Sequence[str], depth: int) -> bool:
    """Whether a search of a folder skips the file ``parts``. The first ``depth`` of ``parts`` name the folder. If the
    folder is excluded itself, it is searched completely."""
    if ".git" in parts[depth:]:
        return True
    matchers = [_matcher(root, parts[:length]) for length in range(len(parts))]
    if _is_ignored_folder(matchers, parts[:depth]):
        matchers[:depth] = [None] * depth
    return _ignored(matchers, parts, "") or any(
        _ignored(matchers, parts[:length], "/") for length in range(depth + 1, len(parts))
    )


def _is_ignored_folder(matchers: Sequence[_Matcher | None], parts: Sequence[str]) -> bool:
    return any(_ignored(matchers, parts[:depth], "/") for depth in range(1, len(parts) + 1))


def _ignored(matchers: Sequence[_Matcher | None], parts: Sequence[str], mark: str) -> bool:
    """Whether ``parts`` is excluded. The innermost ``.gitignore`` that matches decides."""
    suffix = "/" if mark == "/" else ""
    for depth in reversed(range(len(parts))):
        matcher = matchers[depth]
        excluded = matcher("/".join(parts[depth:]) + suffix) if matcher else None
        if excluded is not None:
            return excluded
    return False


def _matcher(root: Path, parts: Sequence[str]) -> _Matcher | None:
    with suppress(ToolError):
        if file := read_text(root, [*parts, ".gitignore"]):
            from pathspec import GitIgnoreSpec

            spec = GitIgnoreSpec.from_lines(file.text.splitlines())
            return lambda path: spec.check_file(path).include
    return None
