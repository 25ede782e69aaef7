"""All agents that one session ever had."""

from collections.abc import Sequence
from dataclasses import replace

from deputy_agents.domain.errors import UnknownAgent
from deputy_agents.domain.message import Usage
from deputy_agents.events.view import AgentNode, View
from deputy_agents.run.agent import Agent


class Roster:
    """Agents by id, running or not; the primary, whose id is ``primary_id``, among them."""

    def __init__(self, primary_id: str) -> None:
        self.primary_id = primary_id
        self._agents: dict[str, Agent] = {}

    @property
    def primary(self) -> Agent:
        return self._agents[self.primary_id]

    def add(self, agent: Agent) -> None:
        self._agents[agent.id] = agent

    def get(self, agent_id: str) -> Agent | None:
        return self._agents.get(agent_id)

    def agent(self, agent_id: str) -> Agent:
        """
        Raises:
            UnknownAgent: the session has no such agent.
        """
        if (agent := self._agents.get(agent_id)) is None:
            raise UnknownAgent(f"This session has no agent {agent_id}.")
        return agent

    def nodes(self, view: View) -> Sequence[AgentNode]:
        """What ``view`` has of all agents, ordered by start, then id."""
        # The primary starts once, so its event has the model of that time.
        info = self.primary.info
        return [replace(node, info=info) if node.info.agent_id == info.agent_id else node for node in view.tree()]

    def spent(self) -> tuple[Usage, int, int]:
        """What all agents have used together: tokens, tool calls and model replies."""
        agents = self._agents.values()
        usage = sum((agent.usage for agent in agents), Usage())
        return usage, sum(agent.calls for agent in agents), sum(agent.replies for agent in agents)
