"""Places in files, as LSP has them."""

from deputy_protocol.base import Count, Wire


class Position(Wire):
    """A position between two characters."""

    line: Count
    """Counted from 0."""
    character: Count
    """Counted from 0, in units of the negotiated position encoding."""


class Range(Wire):
    """A range in a document; `end` is not part of it."""

    start: Position
    end: Position


class Location(Wire):
    """A file, or a part of it."""

    uri: str
    range: Range | None = None
    """The whole file when absent."""


class Reference(Wire):
    """A passage that an answer refers to; it was checked against the text."""

    uri: str
    range: Range
