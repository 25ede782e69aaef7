"""Titles of sessions."""

from dataclasses import replace

from deputy_agents.domain.errors import InvalidRequest
from deputy_agents.ports.store import SessionRecord
from deputy_agents.text import clean, cut

LENGTH = 60


def renamed(record: SessionRecord, title: str) -> SessionRecord:
    """The record with a title that the user chose.

    Raises:
        InvalidRequest: it is blank.
    """
    title = title_of(title)
    if not title:
        raise InvalidRequest("title: a title is needed.", "title")
    return replace(record, title=title)


def title_of(text: str) -> str:
    """The title of a session whose first prompt is ``text``."""
    return cut(" ".join(clean(text).split()), LENGTH)
