"""Finds the file that a path means, if it is spelled in another way: as :func:`deputy_agents.text.visible` shows it, or
with other blanks, another Unicode normal form, or without invisible characters. Models cannot write them exactly."""

import os
import re
import unicodedata
from collections.abc import Callable
from functools import lru_cache
from itertools import islice
from pathlib import Path

from deputy_agents.domain.errors import ToolError
from deputy_agents.text import visible

_CODE = re.compile(r"\\u\{([0-9a-f]{1,6})\}")
_SHORT = {"\\n": "\n", "\\r": "\r", "\\t": "\t"} if os.sep != "\\" else {}
_BLANKS = re.compile(r"\s+")
_MAX_ENTRIES = 200_000
_MAX_NAMED = 5


def unescaped(text: str) -> str:
    """``text`` with each ``\\u{202f}`` replaced by the character."""
    return _CODE.sub(lambda code: _char(code[1]) or code[0], text)


def spelled(path: str, cwd: Path, may_list: Callable[[Path], bool]) -> str:
    """The path of the file that ``path`` means: ``path`` itself if it exists, else that of the only file whose name
    differs in spelling. If there is none, ``path`` with the characters that it names. Only folders are searched for
    which ``may_list`` returns true. Blocks.

    Raises:
        ToolError: several files differ in spelling only.
    """
    if os.path.lexists(cwd / path):
        return path
    parts = Path(path).parts
    at, rest = (Path(parts[0]), parts[1:]) if Path(path).is_absolute() else (cwd, parts)
    for index, part in enumerate(rest):
        if part == ".." or os.path.lexists(at / part):
            at /= part
        elif (name := _find(part, at) if may_list(at) else None) is not None:
            at /= name
        else:
            at = at.joinpath(*map(_plain, rest[index:]))
            break
    return str(at)


def _find(part: str, folder: Path) -> str | None:
    """The only name in ``folder`` that ``part`` means."""
    if os.path.lexists(folder / (name := _plain(part))):
        return name
    try:
        with os.scandir(folder) as entries:
            key = _key(_plain(part))
            found = [entry.name for entry in islice(entries, _MAX_ENTRIES) if _key(entry.name) == key]
    except OSError:
        return None
    if len(found) > 1:
        names = ", ".join(map(visible, sorted(found)[:_MAX_NAMED]))
        raise ToolError(f"Several names differ from {visible(part)} in blanks or invisible characters only: {names}.")
    return found[0] if found else None


def _plain(part: str) -> str:
    for short, char in _SHORT.items():
        part = part.replace(short, char)
    name = unescaped(part)
    return part if "/" in name or "\0" in name or name in ("", ".", "..") else name


@lru_cache(maxsize=4096)
def _key(name: str) -> str:
    """Equal for names that look the same to a reader who does not see blanks exactly."""
    if name.isascii():
        return _BLANKS.sub(" ", name).strip()
    normal = unicodedata.normalize("NFKC", name)
    shown = "".join(char for char in normal if unicodedata.category(char) != "Cf" and not "\ufe00" <= char <= "\ufe0f")
    return _BLANKS.sub(" ", shown).strip()


def _char(code: str) -> str:
    return chr(int(code, 16)) if int(code, 16) <= 0x10FFFF else ""
