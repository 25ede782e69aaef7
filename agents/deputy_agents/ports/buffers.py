"""Documents that are open in an editor."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Buffer:
    """An open document. ``version`` is the editor's version number."""

    path: Path
    text: str
    version: int | None


class Buffers(Protocol):
    """The open documents. They take precedence over files on disk, so that agents see what the user sees."""

    async def get(self, path: Path) -> Buffer | None:
        """The open document at ``path`` (absolute, symlinks resolved), or ``None``.

        Raises:
            ToolError: the editor does not respond.
        """
        ...

    def all(self) -> Sequence[Buffer]:
        """Every open document that has a path, in no particular order."""
        ...

    async def check(self, path: Path, new_text: str) -> None:
        """Checks, as far as possible in advance, whether the editor can change an open document to ``new_text``. This
        avoids asking the user to approve a change that cannot be made.

        Raises:
            ToolError: the change cannot be made.
        """
        ...

    async def apply(self, path: Path, new_text: str, *, version: int | None, label: str) -> None:
        """Changes an open document through the editor, so that the editor's undo works.

        Raises:
            ToolError: the document no longer has ``version``, or the editor rejected the change.
        """
        ...

    async def delete(self, path: Path, *, version: int | None, label: str) -> None:
        """Deletes the file of an open document through the editor.

        Raises:
            ToolError: the document no longer has ``version``, or the editor rejected the deletion or cannot delete.
        """
        ...
