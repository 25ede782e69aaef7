"""Numbers of durable events: consecutive per session, and per agent and run."""

from dataclasses import replace

from deputy_agents.domain.event import Event
from deputy_agents.events.view import View


class Numbering:
    """Continues after the last event of ``view``."""

    def __init__(self, view: View) -> None:
        self._last = view.last_seq
        self._agents = dict(view.agent_seqs)

    def numbered(self, event: Event) -> Event:
        """``event`` with the next numbers."""
        self._last += 1
        key = (event.agent_id, event.run)
        self._agents[key] = self._agents.get(key, 0) + 1
        return replace(event, seq=self._last, agent_seq=self._agents[key])
