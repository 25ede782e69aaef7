"""Markdown files whose frontmatter may be missing."""

from collections.abc import Collection

from deputy_agents.definition.frontmatter import Frontmatter, normalize_name, read
from deputy_agents.text import clean, cut


def split(text: str, known: Collection[str]) -> Frontmatter:
    """The parts of ``text``; ``known`` are the names of fields that count, normalize_name.

    Raises:
        FrontmatterError: it begins like a frontmatter and is none.
    """
    if text.lstrip("\ufeff \t\r\n").startswith("---"):
        return read(text, lambda name: name in known)
    return Frontmatter({}, {}, text.replace("\r\n", "\n").strip(), 1)


def word(front: Frontmatter, name: str) -> str:
    """A field as one line for people; empty when it is not there."""
    found = front.fields.get(normalize_name(name))
    if found is None or found.value is None:
        return ""
    return " ".join(clean(found.prose).replace("\\n", " ").split())


def first_line(body: str, limit: int) -> str:
    """The first line of ``body`` that says something, without the marks of a heading."""
    lines = (line.strip().lstrip("#").strip() for line in clean(body).splitlines())
    return cut(next((line for line in lines if line), ""), limit)
