"""The rules for ``sandbox-exec`` of macOS, which knows a file by its path alone."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from deputy_agents.files.sensitive import PROTECTED_ENDINGS, PROTECTED_FOLDERS, PROTECTED_NAMES, PROTECTED_PATHS
from deputy_agents.shell.file_view import Mount
from deputy_agents.shell.mount_kinds import HIDDEN, HIDDEN_FILE, READ_ONLY, SCRATCH, WRITABLE

_BASE: Final = """\
(version 1)
(allow default)
(deny network*)
(deny appleevent-send)
(deny job-creation)
(deny lsopen)
(deny file-write*)
(allow file-write*
  (literal "/dev/null") (literal "/dev/zero") (literal "/dev/tty") (literal "/dev/stdout") (literal "/dev/stderr")
  (regex #"^/dev/fd/[0-9]+$"))
"""
_RULES: Final = {
    WRITABLE: "(allow file-read* file-write* (subpath {0}))",
    SCRATCH: "(allow file-read* file-write* (subpath {0}))",  # macOS has no private folders
    READ_ONLY: "(allow file-read* (subpath {0}))\n(deny file-write* (subpath {0}))",
    HIDDEN: "(deny file-read* file-write* (subpath {0}))",
    HIDDEN_FILE: "(deny file-read* file-write* (literal {0}))",
}


def seatbelt_profile(mounts: Sequence[Mount]) -> str:
    """The rules, of which the last that matches counts. Protected names cannot be written whether they exist or not. A
    folder with something in it that has rules of its own cannot be moved, because it would get another path."""
    rules: list[str] = []
    for kind, path in mounts:
        rules.append(_RULES[kind].format(_quoted(path)))
        if kind == WRITABLE:
            rules += _protected(path)
    roots = {Path(path) for kind, path in mounts if kind == WRITABLE}
    inside = [Path(path) for kind, path in mounts if kind in (READ_ONLY, HIDDEN, HIDDEN_FILE)]
    kept = {folder for path in inside for folder in path.parents if not roots.isdisjoint(folder.parents)}
    rules += [f"(deny file-write-unlink (literal {_quoted(str(path))}))" for path in sorted(kept)]
    above = {folder for path in roots for folder in path.parents}
    rules += [f"(allow file-read-metadata (literal {_quoted(str(path))}))" for path in sorted(above)]
    return _BASE + "".join(f"{rule}\n" for rule in rules)


def _protected(root: str) -> Iterator[str]:
    """The rules for protected names below ``root``."""
    start = f"^{_any_case(root.rstrip('/'))}/(.*/)?"
    for name in sorted(PROTECTED_NAMES | PROTECTED_FOLDERS):
        yield f'(deny file-write* (regex #"{start}{_any_case(name)}(/.*)?$"))'
    for ending in PROTECTED_ENDINGS:
        yield f'(deny file-write* (regex #"{start}[^/]*{_any_case(ending)}$"))'
    for folder, name in PROTECTED_PATHS:
        yield f'(deny file-write* (regex #"{start}{_any_case(folder)}/{_any_case(name)}(/.*)?$"))'
    for folder in sorted({folder for folder, _ in PROTECTED_PATHS}):
        yield f'(deny file-write-create file-write-unlink (regex #"{start}{_any_case(folder)}$"))'


def _any_case(text: str) -> str:
    """A pattern for ``text`` in any case, because file systems of macOS do not distinguish cases."""
    return "".join(
        f"[{char.lower()}{char.upper()}]" if char.isascii() and char.isalpha() else re.escape(char).replace('"', ".")
        for char in text
    )


def _quoted(path: str) -> str:
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"') + '"'
