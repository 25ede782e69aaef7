"""Identifiers of sessions, agents, permission requests and messages: UUIDv7 strings, unique across processes and
sortable by the time of their creation."""

from uuid_utils import uuid7


def new_id() -> str:
    """A new UUIDv7 in its canonical text form."""
    return str(uuid7())
