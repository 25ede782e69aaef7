"""Lists and reads folders of Markdown files within bounds: their content is untrusted.

Everything here blocks; call it in a worker thread.
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
    """A file cannot be used. The message is a sentence with the reason, without the name of the file."""


@dataclass(frozen=True, slots=True)
class MarkdownFile:
    """A listed file. Equal values have the same text. ``real`` is the path with links resolved."""

    path: str
    real: str
    state: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Listing:
    """The Markdown files of a folder, sorted by name. ``rejected`` are unusable paths, each with a sentence that gives
    the reason."""

    files: tuple[MarkdownFile, ...] = ()
    rejected: tuple[tuple[str, str], ...] = ()


def list_markdown(folder: Path, within: Path | None = None) -> Listing:
    """List the Markdown files directly in ``folder``, except ``README.md``. A folder whose links lead out of ``within``
    is rejected, and so is a file whose links lead out of the folder."""
    try:
        real = folder.resolve(strict=True)
        if within is not None and not real.is_relative_to(within.resolve()):
            return Listing(rejected=((str(folder), "It is a link that leads out of the workspace."),))
        with os.scandir(real) as entries:
            names = sorted(entry.name for entry in islice(entries, MAX_ENTRIES) if _is_definition_name(entry.name))
    except (FileNotFoundError, NotADirectoryError):
        return Listing()
    except (OSError, RuntimeError) as error:  # RuntimeError: a loop of links
        return Listing(rejected=((str(folder), _reason(error)),))
    files: list[MarkdownFile] = []
    rejected: list[tuple[str, str]] = []
    for name in names[:MAX_FILES]:
        try:
            files += _file(folder / name, real)
        except Unreadable as error:
            rejected.append((str(folder / name), str(error)))
    if len(names) > MAX_FILES:
        rejected.append((str(folder), f"It contains more than {MAX_FILES} files; the last by name are ignored."))
    return Listing(tuple(files), tuple(rejected))


def read_markdown(file: MarkdownFile) -> str:
    """Read the text of ``file``.

    Raises:
        Unreadable: it cannot be read, is too large, or is not UTF-8.
    """
    try:
        with os.fdopen(os.open(file.real, _OPEN), "rb") as stream:
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                raise Unreadable("It is not a regular file.")
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise Unreadable(_reason(error)) from None
    if len(data) > MAX_BYTES:
        raise Unreadable(_TOO_LARGE)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Unreadable(f"It is not UTF-8 text (byte {error.start}).") from None


def markdown_file(path: Path, within: Path | None = None) -> MarkdownFile | None:
    """The file at ``path``; ``None`` if there is none.

    Raises:
        Unreadable: it cannot be used, for example because its links lead out of ``within``.
    """
    if not os.path.lexists(path):
        return None
    return next(_file(path, None if within is None else within.resolve(), "the workspace"), None)


def _file(path: Path, within: Path | None, what: str = "its folder") -> Iterator[MarkdownFile]:
    """Yield the file at ``path``, or nothing for a folder.

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
        raise Unreadable("It is not a regular file.")
    if found.st_size > MAX_BYTES:
        raise Unreadable(_TOO_LARGE)
    state = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
    yield MarkdownFile(str(path), str(real), state)


def _is_definition_name(name: str) -> bool:
    lower = name.lower()
    return lower.endswith(".md") and lower != "readme.md" and not name.startswith(".")


_TOO_LARGE = f"It is larger than {MAX_BYTES // 1024} KiB."


def _reason(error: Exception) -> str:
    reason = error.strerror if isinstance(error, OSError) else "its links form a loop"
    return f"It cannot be read: {reason or 'the operating system gave no reason'}."
