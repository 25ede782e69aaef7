"""Markdown files with optional frontmatter."""

from collections.abc import Collection
from pathlib import Path

from deputy_agents.definition.folder import MarkdownFile, Unreadable, read_markdown
from deputy_agents.definition.frontmatter import Frontmatter, normalize_name, read
from deputy_agents.domain.errors import OutsideRoots
from deputy_agents.domain.rule import AccessRequest
from deputy_agents.permission.file_access import guidance_access
from deputy_agents.text import clean, cut


def read_file(file: MarkdownFile, within: Path | None, *, main: bool) -> tuple[str, tuple[AccessRequest, ...]]:
    """Read the text of ``file``, and the access that its use requires. Blocks.

    Raises:
        Unreadable: it cannot be read, or its links lead out of ``within`` now.
    """
    try:
        access = guidance_access(Path(file.path), within, main=main)
    except OutsideRoots as error:
        raise Unreadable(str(error)) from None
    return read_markdown(file), access


def split(text: str, known: Collection[str]) -> Frontmatter:
    """Split ``text`` into frontmatter and body. ``known`` are the normalized names of known fields.

    Raises:
        FrontmatterError: it starts like a frontmatter, which is invalid.
    """
    if text.lstrip("\ufeff \t\r\n").startswith("---"):
        return read(text, lambda name: name in known)
    return Frontmatter({}, {}, text.replace("\r\n", "\n").strip(), 1)


def word(front: Frontmatter, name: str) -> str:
    """A field as one line of prose; empty if it is missing."""
    found = front.fields.get(normalize_name(name))
    if found is None or found.value is None:
        return ""
    return " ".join(clean(found.prose).replace("\\n", " ").split())


def first_line(body: str, limit: int) -> str:
    """The first non-empty line of ``body``, without the ``#`` of a heading."""
    lines = (line.strip().lstrip("#").strip() for line in clean(body).splitlines())
    return cut(next((line for line in lines if line), ""), limit)
