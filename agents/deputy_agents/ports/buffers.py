"""Documents that are open in an editor."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Buffer:
    """An open document. ``version`` is the editor's version number.

    ``saved`` is the fingerprint (:func:`deputy_agents.files.encoding.fingerprint`) of the text that the document and
    the file on disk last had in common, as far as the editor reports it; ``None`` if it does not. ``disk_changed`` is
    set for unsaved changes of a file that has other changes on disk.
    """

    path: Path
    text: str
    version: int | None
    saved: str | None = None
    disk_changed: bool = False


class Buffers(Protocol):
    """The open documents. They take precedence over files on disk, so that agents see what the user sees."""

    async def get(self, path: Path) -> Buffer | None:
        """The open document at ``path`` (absolute, symlinks resolved), or ``None``.

        Raises:
            ToolError: the editor does not respond.
        """
        ...

    def reload(self, path: Path) -> None:
        """Asks the editor to load an open document from disk again, where the file has changed. The document has no
        unsaved changes. Returns at once."""
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
