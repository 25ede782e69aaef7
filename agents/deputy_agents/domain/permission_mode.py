"""Permission modes."""

from enum import StrEnum


class PermissionMode(StrEnum):
    """How much runs without the user's permission, in ascending order. The mode of a child is the lower of its own and
    its parent's."""

    PLAN = "plan"
    DEFAULT = "default"
    ACCEPT_EDITS = "accept_edits"
    BYPASS = "bypass"

    @property
    def rank(self) -> int:
        return list(PermissionMode).index(self)

    def lower_of(self, other: "PermissionMode") -> "PermissionMode":
        """The lower of the two modes."""
        return min(self, other, key=lambda mode: mode.rank)
