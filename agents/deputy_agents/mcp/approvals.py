"""Which servers the user lets run, folder by folder: kept in a file of the user's own, for their eyes alone."""

import json
import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile
from threading import Lock
from typing import cast

from filelock import FileLock

from deputy_agents.guidance.mcp_entry import ServerEntry

_VERSION = 1
_PATIENCE = 5
"""Seconds that an answer waits for others that are being written."""


class Approvals:
    """Answers that hold for good. Without a ``path`` they are kept as long as the process. All methods block; answers
    that are given at once, in threads or in processes, are all kept."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._lock = Lock()
        self._kept: dict[str, dict[str, object]] = {}

    def get(self, folder: Path, entry: ServerEntry) -> bool | None:
        """What the user has said about this very command line in this folder; ``None``: nothing."""
        answer = self._read().get(str(folder), {}).get(entry.fingerprint)
        allowed = cast("Mapping[str, object]", answer).get("allowed") if isinstance(answer, dict) else None
        return allowed if isinstance(allowed, bool) else None

    def save(self, folder: Path, entry: ServerEntry, allowed: bool | None) -> None:
        """Keeps an answer; ``None`` forgets it.

        Raises:
            OSError: the file cannot be written.
        """
        with self._lock, self._alone():
            self._save(folder, entry, allowed)

    @contextmanager
    def _alone(self) -> Generator[None]:
        """No other process writes meanwhile."""
        if self._path is None:
            yield
            return
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with FileLock(self._path.with_suffix(".lock"), timeout=_PATIENCE, mode=0o600):
            yield

    def _save(self, folder: Path, entry: ServerEntry, allowed: bool | None) -> None:
        kept = self._read()
        answers = kept.setdefault(str(folder), {})
        if allowed is None:
            answers.pop(entry.fingerprint, None)
        else:
            answers[entry.fingerprint] = {"server": entry.name, "line": entry.line, "allowed": allowed}
        self._write({place: found for place, found in kept.items() if found})

    def _read(self) -> dict[str, dict[str, object]]:
        """A file that cannot be read is as good as none: the user is asked again."""
        if self._path is None:
            return self._kept
        try:
            read: object = json.loads(self._path.read_text("utf-8"))
        except (OSError, ValueError, RecursionError):
            return {}
        folders = cast("Mapping[str, object]", read).get("folders") if isinstance(read, dict) else None
        if not isinstance(folders, dict):
            return {}
        known = cast("dict[str, object]", folders)
        return {name: cast("dict[str, object]", found) for name, found in known.items() if isinstance(found, dict)}

    def _write(self, kept: dict[str, dict[str, object]]) -> None:
        self._kept = kept
        if self._path is None:
            return
        text = json.dumps({"version": _VERSION, "folders": kept}, indent=2)
        with NamedTemporaryFile("w", dir=self._path.parent, delete=False, encoding="utf-8") as file:
            file.write(text)
        os.replace(file.name, self._path)  # noqa: PTH105 - the file was made with mode 0600
