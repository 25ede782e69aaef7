"""Identifiers.

Agents, sessions, questions and messages are named by UUIDv7 strings: unique across processes, and sortable
by the time of their creation.
"""

from uuid_utils import uuid7


def new_id() -> str:
    """A fresh UUIDv7 in its canonical text form."""
    return str(uuid7())
