"""A JSON file of Deputy itself that only the user can read."""

import json
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile
from threading import Lock
from typing import Final

from filelock import FileLock

_LOCK_TIMEOUT: Final = 5
"""Seconds to wait for another process that is writing."""


class PrivateJson:
    """One value in a file; without a ``path``, it lasts as long as the process. All methods block."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._lock = Lock()
        self._value: object = None

    @contextmanager
    def changing(self) -> Generator[None]:
        """Keeps other threads and processes from writing between a read and a write.

        Raises:
            OSError: the folder cannot be made, or another process keeps writing.
        """
        with self._lock:
            if self._path is None:
                yield
                return
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with FileLock(self._path.with_suffix(".lock"), timeout=_LOCK_TIMEOUT, mode=0o600):
                yield

    def read(self) -> object:
        """The value; ``None`` if there is none or it cannot be read."""
        if self._path is None:
            return self._value
        try:
            value: object = json.loads(self._path.read_text("utf-8"))
        except (OSError, ValueError, RecursionError):
            return None
        return value

    def write(self, value: object) -> None:
        """Replaces the value: a reader sees the old one or the new one.

        Raises:
            OSError: the file cannot be written.
        """
        self._value = value
        if self._path is None:
            return
        text = json.dumps(value, indent=2)
        with NamedTemporaryFile("w", dir=self._path.parent, delete=False, encoding="utf-8") as file:
            file.write(text)
        os.replace(file.name, self._path)  # noqa: PTH105 - the file was made with mode 0600
