"""Numbers of durable events: consecutive per session, and per agent and run."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

from deputy_agents.domain.event import Event


class Numbering:
    """Continues after the last of ``events``."""

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self.last = 0
        self._agents: defaultdict[tuple[str | None, int | None], int] = defaultdict(int)
        for event in events:
            self.last = event.seq or self.last
            self._agents[event.agent_id, event.run] = event.agent_seq or 0

    def numbered(self, event: Event) -> Event:
        """``event`` with the next numbers."""
        self.last += 1
        key = (event.agent_id, event.run)
        self._agents[key] += 1
        return replace(event, seq=self.last, agent_seq=self._agents[key])
