"""Markdown files with optional frontmatter."""

from collections.abc import Collection

from deputy_agents.definition.frontmatter import Frontmatter, normalize_name, read
from deputy_agents.text import clean, cut


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
