"""Folders that are searched for guidance."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Place:
    """A folder to look into; ``within`` is the workspace root that it must not leave, ``None`` at home."""

    path: Path
    within: Path | None = None


def places(roots: Sequence[Path], home: Path | None, trusted: bool, folders: Sequence[str]) -> tuple[Place, ...]:
    """Where ``folders`` may be, the nearest first: in the workspace if it is trusted, then at home."""
    at_home = [] if home is None else [home / folder for folder in folders]
    below = [Place(root / folder, root) for folder in folders for root in roots if root / folder not in at_home]
    return (*(below if trusted else ()), *map(Place, at_home))
