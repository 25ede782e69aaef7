"""The access of a sub-agent."""

from enum import StrEnum


class Access(StrEnum):
    """Which tools a sub-agent gets. ``READ_ONLY`` leaves out every tool that changes anything."""

    READ_ONLY = "read_only"
    DEFAULT = "default"
