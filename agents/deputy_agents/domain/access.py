"""What an agent may touch."""

from enum import StrEnum


class Access(StrEnum):
    """What a child may touch. ``READ_ONLY`` offers no tool that changes anything."""

    READ_ONLY = "read_only"
    DEFAULT = "default"
