"""Locations in files: 1-based lines as LSP ranges and as text."""

from pathlib import Path

from deputy_agents.domain import event as ev
from deputy_agents.text import well_formed
from deputy_protocol import place
from deputy_server.convert.uris import local_path, uri_of


def location_to_wire(at: ev.Location) -> place.Location:
    return place.Location(uri=uri_of(at.path), range=None if at.start is None else _range(at.start, at.end))


def reference_to_wire(at: ev.Location) -> place.Reference:
    return place.Reference(uri=uri_of(at.path), range=_range(at.start or 1, at.end))


def _range(start: int, end: int | None) -> place.Range:
    """Whole lines. LSP counts from 0 and excludes the end."""
    last = start if end is None else end
    return place.Range(start=place.Position(line=start - 1, character=0), end=place.Position(line=last, character=0))


def place_text(uri: str, span: place.Range | None, cwd: Path) -> str:
    """A file or a range in it, as agents write it: ``src/a.py:12-30``."""
    path = local_path(uri)
    name = well_formed(uri if path is None else _relative(path, cwd))
    if span is None:
        return name
    first, last = span.start.line + 1, span.end.line + (1 if span.end.character else 0)
    return f"{name}:{first}" if last <= first else f"{name}:{first}-{last}"


def _relative(path: Path, cwd: Path) -> str:
    return path.relative_to(cwd).as_posix() if path.is_relative_to(cwd) else str(path)
