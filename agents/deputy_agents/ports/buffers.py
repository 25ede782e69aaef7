"""Open documents of editors."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Buffer:
    """An open document of the editor. ``version`` is the editor's."""

    path: Path
    text: str
    version: int | None


class Buffers(Protocol):
    """Open documents. They win over the disk: agents see what the user sees."""

    async def get(self, path: Path) -> Buffer | None:
        """The open document at ``path`` (absolute, symlinks resolved), or ``None``.

        Raises:
            ToolError: the editor does not say.
        """
        ...

    def all(self) -> Sequence[Buffer]:
        """Every open document that has a path, in no order."""
        ...

    async def check(self, path: Path, new_text: str) -> None:
        """Whether the editor can make an open document ``new_text``, as far as that is known before: nobody should be
        asked about a change that cannot be made.

        Raises:
            ToolError: it cannot.
        """
        ...

    async def apply(self, path: Path, new_text: str, *, version: int | None, label: str) -> None:
        """Changes an open document through the editor, so that its undo works.

        Raises:
            ToolError: the document moved on from ``version``, or the editor refused.
        """
        ...

    async def delete(self, path: Path, *, version: int | None, label: str) -> None:
        """Deletes the file of an open document through the editor.

        Raises:
            ToolError: the document moved on from ``version``, or the editor cannot or would not.
        """
        ...
