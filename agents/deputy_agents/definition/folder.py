"""Folders of Markdown files that somebody else may have filled: listed and read within bounds.

Everything here blocks and belongs in a worker thread.
"""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from deputy_agents.domain.errors import DeputyError

MAX_FILES = 200
MAX_ENTRIES = 5000
MAX_BYTES = 256 * 1024

_OPEN = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)


class Unreadable(DeputyError):
    """A file cannot be used; the message is a sentence that says why, without the file's name."""


@dataclass(frozen=True, slots=True)
class MarkdownFile:
    """A file as it was listed: equal ones hold the same text. ``real`` is where its links lead."""

    path: str
    real: str
    state: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Listing:
    """What is in a folder, by name; ``refused`` are paths with the sentence that says why they are not used."""

    files: tuple[MarkdownFile, ...] = ()
    refused: tuple[tuple[str, str], ...] = ()


def list_markdown(folder: Path, within: Path | None = None) -> Listing:
    """The Markdown files directly in ``folder``, ``README.md`` excepted. A folder that links lead out of ``within``,
    and a file that they lead out of the folder, is refused."""
    try:
        real = folder.resolve(strict=True)
        if within is not None and not real.is_relative_to(within.resolve()):
            return Listing(refused=((str(folder), "It is a link that leads out of the workspace."),))
        with os.scandir(real) as entries:
            names = sorted(entry.name for entry in islice(entries, MAX_ENTRIES) if _counts(entry.name))
    except (FileNotFoundError, NotADirectoryError):
        return Listing()
    except (OSError, RuntimeError) as error:  # RuntimeError: a loop of links
        return Listing(refused=((str(folder), _reason(error)),))
    files: list[MarkdownFile] = []
    refused: list[tuple[str, str]] = []
    for name in names[:MAX_FILES]:
        try:
            files += _file(folder / name, real)
        except Unreadable as error:
            refused.append((str(folder / name), str(error)))
    if len(names) > MAX_FILES:
        refused.append((str(folder), f"It holds more than {MAX_FILES} files; the last by name are left out."))
    return Listing(tuple(files), tuple(refused))


def read_markdown(file: MarkdownFile) -> str:
    """Its text.

    Raises:
        Unreadable: it cannot be read, is too large, or no UTF-8.
    """
    try:
        with os.fdopen(os.open(file.real, _OPEN), "rb") as stream:
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                raise Unreadable("It is no regular file.")
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise Unreadable(_reason(error)) from None
    if len(data) > MAX_BYTES:
        raise Unreadable(_TOO_LARGE)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Unreadable(f"It is no UTF-8 text (byte {error.start}).") from None


def markdown_file(path: Path, within: Path | None = None) -> MarkdownFile | None:
    """The file at ``path``, if there is one that links do not lead out of ``within``.

    Raises:
        Unreadable: it cannot be used.
    """
    if not os.path.lexists(path):
        return None
    return next(_file(path, None if within is None else within.resolve(), "the workspace"), None)


def _file(path: Path, within: Path | None, what: str = "its folder") -> Iterator[MarkdownFile]:
    """The file at ``path``; none for a folder.

    Raises:
        Unreadable: it cannot be used.
    """
    try:
        real = path.resolve(strict=True)
        found = real.stat()
    except (OSError, RuntimeError) as error:
        raise Unreadable(_reason(error)) from None
    if stat.S_ISDIR(found.st_mode):
        return
    if within is not None and not real.is_relative_to(within):
        raise Unreadable(f"It is a link that leads out of {what}.")
    if not stat.S_ISREG(found.st_mode):
        raise Unreadable("It is no regular file.")
    if found.st_size > MAX_BYTES:
        raise Unreadable(_TOO_LARGE)
    state = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
    yield MarkdownFile(str(path), str(real), state)


def _counts(name: str) -> bool:
    lower = name.lower()
    return lower.endswith(".md") and lower != "readme.md" and not name.startswith(".")


_TOO_LARGE = f"It is larger than {MAX_BYTES // 1024} KiB."


def _reason(error: Exception) -> str:
    reason = error.strerror if isinstance(error, OSError) else "its links form a loop"
    return f"It cannot be read: {reason or 'the operating system refused'}."
