"""The text that an open document and its file on disk last had in common. It tells unsaved changes from a file that has
changed behind the editor."""

from pathlib import Path

import anyio.to_thread

from deputy_agents.files.disk import MAX_BYTES
from deputy_agents.files.encoding import decode, fingerprint

_Stamp = tuple[int, int, int]


class SavedText:
    """Belongs to one document. ``common`` is the fingerprint of that text; ``None`` until it is known."""

    def __init__(self) -> None:
        self.common: str | None = None
        self.comparing = False
        self._stamp: _Stamp | None = None
        """The state of the file when it last had the text of the document."""

    def compare_soon(self) -> bool:
        """Whether to start a comparison after a change: only one waits at a time."""
        starts, self.comparing = not self.comparing, True
        return starts

    async def compare(self, path: Path, text: str) -> None:
        """Compare ``text``, the text of the document now, with the file. The file is read only if it has changed. What
        the first comparison finds on disk is what the editor has loaded."""
        stamp = await anyio.to_thread.run_sync(_stamp_of, path, abandon_on_cancel=True)
        if stamp is None or stamp == self._stamp:
            return
        on_disk, shown = await anyio.to_thread.run_sync(_fingerprints, path, text, abandon_on_cancel=True)
        if on_disk is not None and (self.common is None or on_disk == shown):
            self.common, self._stamp = on_disk, stamp

    async def saved(self, text: str) -> None:
        """The editor has saved ``text``."""
        self.common = await anyio.to_thread.run_sync(fingerprint, text)
        self._stamp = None


def _stamp_of(path: Path) -> _Stamp | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _fingerprints(path: Path, text: str) -> tuple[str | None, str]:
    """The fingerprints of the file, ``None`` if it is not a text, and of ``text``."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError:
        return None, ""
    decoded = decode(data) if len(data) <= MAX_BYTES else None
    return fingerprint(decoded[0]) if decoded else None, fingerprint(text)
