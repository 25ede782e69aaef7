"""The folders that are searched for definitions, skills and commands."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class SearchFolder:
    """A folder to search. ``within`` is the workspace root that contains it, ``None`` at home; ``main`` tells whether
    it is the main root."""

    path: Path
    within: Path | None = None
    main: bool = False


def search_folders(
    roots: Sequence[Path], home: Path | None, trusted: bool, folders: Sequence[str]
) -> tuple[SearchFolder, ...]:
    """``folders`` below each root, if the workspace is trusted, then below ``home``. Earlier ones have precedence."""
    at_home = [] if home is None else [home / folder for folder in folders]
    in_roots = [
        SearchFolder(root / folder, root, root == roots[0])
        for folder in folders
        for root in roots
        if root / folder not in at_home
    ]
    return (*(in_roots if trusted else ()), *map(SearchFolder, at_home))
