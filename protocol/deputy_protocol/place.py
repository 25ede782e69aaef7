"""Places in files, as in LSP."""

from deputy_protocol.base import Count, Wire


class Position(Wire):
    """A position between two characters."""

    line: Count
    """Counted from 0."""
    character: Count
    """Counted from 0, in units of the negotiated position encoding."""


class Range(Wire):
    """A range in a document."""

    start: Position
    end: Position
    """The first position after the range."""


class Location(Wire):
    """A file, or a part of a file."""

    uri: str
    range: Range | None = None
    """When absent, the whole file."""


class Reference(Wire):
    """A passage that an answer refers to. Deputy has checked that it exists."""

    uri: str
    range: Range
