"""Finds in the workspace what the sandbox hides from a command, and what else it must not change.

Names decide, as for the gate; see ``files/sensitive.py``. Only what exists when the command starts is found.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from deputy_agents.domain.errors import ToolError
from deputy_agents.files.sensitive import SECRET_FOLDERS, SECRET_PATHS, fold, is_secret, is_secret_in, protected_part
from deputy_agents.shell.mount_kinds import HIDDEN, HIDDEN_FILE

MAX_ENTRIES: Final = 1_000_000
MAX_HIDDEN: Final = 500
"""Each hidden file is a mount of its own."""
_REPOSITORY: Final = ".git"
_CERTIFICATES: Final = ".pem"
_KEY_MARK: Final = b"PRIVATE KEY"
_MAX_CERTIFICATES: Final = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Sensitive:
    """``hidden`` are files and folders that may hold secrets, with the kind of mount. ``protected`` is what links with
    protected names lead to."""

    hidden: dict[str, str] = field(default_factory=dict[str, str])
    protected: dict[str, None] = field(default_factory=dict[str, None])


def scan_workspace(roots: Sequence[Path]) -> Sensitive:
    """Look at every name in ``roots``, which are real paths. Blocks.

    Raises:
        ToolError: there are too many files, or too many that may hold secrets.
    """
    found = Sensitive()
    for count, (root, parent, entry) in enumerate(_entries(roots)):
        if count > MAX_ENTRIES:
            raise ToolError(f"The workspace has more than {MAX_ENTRIES:,} files, too many to find the secret ones.")
        if entry.is_symlink():
            _add_link(found, roots, root, entry.path)
        elif entry.is_dir(follow_symlinks=False):
            if _is_secret_folder(parent, entry.name):
                found.hidden[entry.path] = HIDDEN
        elif is_secret_in(parent, entry.name) and not _has_only_certificates(entry.path):
            found.hidden[entry.path] = HIDDEN_FILE
    if len(found.hidden) > MAX_HIDDEN:
        raise ToolError(f"The workspace has more than {MAX_HIDDEN} files that may hold secrets, too many to hide them.")
    return found


def _entries(roots: Sequence[Path]) -> Iterator[tuple[Path, str, os.DirEntry[str]]]:
    """Each entry below ``roots``, with its root and the name of its folder. What is in a secret folder, or deep in a
    repository, is left out."""
    left = [(root, str(root)) for root in roots]
    while left:
        root, folder = left.pop()
        parent = os.path.basename(folder)  # noqa: PTH119
        deep = fold(parent) == _REPOSITORY
        with suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                yield root, parent, entry
                if not deep and entry.is_dir(follow_symlinks=False) and not _is_secret_folder(parent, entry.name):
                    left.append((root, entry.path))


def _is_secret_folder(parent: str, name: str) -> bool:
    name = fold(name)
    return name in SECRET_FOLDERS or (fold(parent), name) in SECRET_PATHS


def _add_link(found: Sensitive, roots: Sequence[Path], root: Path, path: str) -> None:
    """What a link in the workspace leads to in the workspace has the name of the link too."""
    name, target = Path(path).relative_to(root), Path(os.path.realpath(path))
    if target in roots or not any(target.is_relative_to(one) for one in roots):
        return
    if protected_part(name) or protected_part(name / "any"):
        found.protected[str(target)] = None
    if target.is_dir():
        if _is_secret_folder(name.parent.name, name.name):
            found.hidden[str(target)] = HIDDEN
    elif target.is_file() and is_secret(name) and not _has_only_certificates(path):
        found.hidden[str(target)] = HIDDEN_FILE


def _has_only_certificates(path: str) -> bool:
    """Whether a file, by its ending one of keys or certificates, holds no key: programs need the certificates."""
    if not path.lower().endswith(_CERTIFICATES):
        return False
    with suppress(OSError), open(path, "rb") as file:  # noqa: PTH123
        text = file.read(_MAX_CERTIFICATES + 1)
        return len(text) <= _MAX_CERTIFICATES and b"CERTIFICATE" in text and _KEY_MARK not in text
    return False
