"""How much runs without asking."""

from enum import StrEnum


class PermissionMode(StrEnum):
    """How much the gate allows without asking, in rising order. A child runs under the lower of its own and
    its parent's."""

    PLAN = "plan"
    DEFAULT = "default"
    ACCEPT_EDITS = "accept_edits"
    BYPASS = "bypass"

    @property
    def rank(self) -> int:
        return list(PermissionMode).index(self)

    def met_with(self, other: "PermissionMode") -> "PermissionMode":
        """The lower of the two."""
        return min(self, other, key=lambda mode: mode.rank)
