"""Deadlines that a test can let pass."""

from deputy_agents.run.deadline import Deadline


class ManualDeadline(Deadline):
    """Passes after its running time, or when a test says so."""

    def expire(self) -> None:
        """Passes now."""
        self._passed.set()
