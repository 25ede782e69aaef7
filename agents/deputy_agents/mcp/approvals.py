"""The user's approvals of MCP servers per folder, stored in a file that only the user can read."""

import json
import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile
from threading import Lock
from typing import cast

from filelock import FileLock

from deputy_agents.guidance.mcp_entry import McpServerEntry

_VERSION = 1
_LOCK_TIMEOUT = 5
"""Seconds to wait for another process that is writing."""


class Approvals:
    """Persistent approvals and denials. Without a ``path`` they last as long as the process. All methods block;
    concurrent changes by several threads or processes are all stored."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._lock = Lock()
        self._folders: dict[str, dict[str, object]] = {}

    def get(self, folder: Path, entry: McpServerEntry) -> bool | None:
        """The user's answer for exactly this command line in this folder; ``None`` without an answer."""
        answer = self._read().get(str(folder), {}).get(entry.fingerprint)
        allowed = cast("Mapping[str, object]", answer).get("allowed") if isinstance(answer, dict) else None
        return allowed if isinstance(allowed, bool) else None

    def save(self, folder: Path, entry: McpServerEntry, allowed: bool | None) -> None:
        """Stores an answer; ``None`` deletes it.

        Raises:
            OSError: the file cannot be written.
        """
        with self._lock, self._file_lock():
            self._save(folder, entry, allowed)

    @contextmanager
    def _file_lock(self) -> Generator[None]:
        """Excludes other processes."""
        if self._path is None:
            yield
            return
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with FileLock(self._path.with_suffix(".lock"), timeout=_LOCK_TIMEOUT, mode=0o600):
            yield

    def _save(self, folder: Path, entry: McpServerEntry, allowed: bool | None) -> None:
        folders = self._read()
        answers = folders.setdefault(str(folder), {})
        if allowed is None:
            answers.pop(entry.fingerprint, None)
        else:
            answers[entry.fingerprint] = {"server": entry.name, "line": entry.line, "allowed": allowed}
        self._write({path: answers for path, answers in folders.items() if answers})

    def _read(self) -> dict[str, dict[str, object]]:
        """All answers; empty if the file cannot be read, so that the user is asked again."""
        if self._path is None:
            return self._folders
        try:
            read: object = json.loads(self._path.read_text("utf-8"))
        except (OSError, ValueError, RecursionError):
            return {}
        folders = cast("Mapping[str, object]", read).get("folders") if isinstance(read, dict) else None
        if not isinstance(folders, dict):
            return {}
        return {
            path: cast("dict[str, object]", answers)
            for path, answers in cast("dict[str, object]", folders).items()
            if isinstance(answers, dict)
        }

    def _write(self, folders: dict[str, dict[str, object]]) -> None:
        self._folders = folders
        if self._path is None:
            return
        text = json.dumps({"version": _VERSION, "folders": folders}, indent=2)
        with NamedTemporaryFile("w", dir=self._path.parent, delete=False, encoding="utf-8") as file:
            file.write(text)
        os.replace(file.name, self._path)  # noqa: PTH105 - the file was made with mode 0600
