"""What ``.gitignore`` files exclude from a listing. Blocks; belongs in a worker thread."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from deputy_agents.domain.errors import ToolError
from deputy_agents.files.disk import Entry, list_folder, read_text

_Matcher = Callable[[str], bool | None]


def list_unignored(root: Path, parts: Sequence[str]) -> list[Entry]:
    """The entries of a folder that no ``.gitignore`` between ``root`` and it excludes, nor Git's own folder.

    A folder that is excluded itself is listed whole: whoever asks for it by name wants to see it.

    Raises:
        ToolError: there is no such folder, or it cannot be read.
    """
    entries = [entry for entry in list_folder(root, parts) if entry.name != ".git"]
    matchers = [_matcher(root, parts[:depth]) for depth in range(len(parts) + 1)]
    if _is_ignored_folder(matchers, parts):
        return entries
    return [entry for entry in entries if not _ignored(matchers, [*parts, entry.name], entry.mark)]


def is_ignored(root: Path, parts: Sequence[str], above: int) -> bool:
    """Whether a search of the folder that the first ``above`` of ``parts`` name leaves out the file ``parts``. Here,
    too, a folder that is excluded itself counts as a whole."""
    if ".git" in parts[above:]:
        return True
    matchers = [_matcher(root, parts[:depth]) for depth in range(len(parts))]
    if _is_ignored_folder(matchers, parts[:above]):
        matchers[:above] = [None] * above
    return _ignored(matchers, parts, "") or any(
        _ignored(matchers, parts[:depth], "/") for depth in range(above + 1, len(parts))
    )


def _is_ignored_folder(matchers: Sequence[_Matcher | None], parts: Sequence[str]) -> bool:
    return any(_ignored(matchers, parts[:depth], "/") for depth in range(1, len(parts) + 1))


def _ignored(matchers: Sequence[_Matcher | None], parts: Sequence[str], mark: str) -> bool:
    """The innermost file that speaks of a path decides; only those above the path may."""
    suffix = "/" if mark == "/" else ""
    for depth in reversed(range(len(parts))):
        matcher = matchers[depth]
        verdict = matcher("/".join(parts[depth:]) + suffix) if matcher else None
        if verdict is not None:
            return verdict
    return False


def _matcher(root: Path, parts: Sequence[str]) -> _Matcher | None:
    with suppress(ToolError):
        if file := read_text(root, [*parts, ".gitignore"]):
            from pathspec import GitIgnoreSpec

            spec = GitIgnoreSpec.from_lines(file.text.splitlines())
            return lambda path: spec.check_file(path).include
    return None
