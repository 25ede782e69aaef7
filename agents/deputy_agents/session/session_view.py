"""The session as the tools of one of its agents may look at it."""

from collections.abc import Sequence
from typing import Protocol

from deputy_agents.domain.errors import ToolError
from deputy_agents.domain.event import MessageAdded, PlanChanged, PlanEntry
from deputy_agents.events.view import AgentNode, Entry, View
from deputy_agents.run.agent import Agent, Host, say
from deputy_agents.text import clean


class Watched(Host, Protocol):
    """What is looked at."""

    @property
    def view(self) -> View: ...
    def agents(self) -> Sequence[AgentNode]: ...
    def transcript(self, agent_id: str) -> tuple[Sequence[Entry], int]: ...
    def result_of(self, agent_id: str) -> str: ...
    async def flush(self) -> None: ...


class LiveSessionView:
    """Implements :class:`deputy_agents.tool.base.SessionView` for ``agent``."""

    def __init__(self, session: Watched, agent: Agent) -> None:
        self._session = session
        self._agent = agent

    async def nodes(self) -> Sequence[AgentNode]:
        await self._session.flush()
        return self._session.agents()

    def result_of(self, agent_id: str) -> str:
        return clean(self._session.result_of(agent_id))

    def messages_of(self, agent_id: str) -> str:
        if not self._is_below(agent_id):
            raise ToolError("messages: you can read those of the agents below you, and the results of all.")
        entries, _ = self._session.transcript(agent_id)
        messages = (entry.body for entry in entries if isinstance(entry.body, MessageAdded))
        return "\n\n".join(f"**{message.role}**\n\n{message.text}" for message in messages)

    def _is_below(self, agent_id: str) -> bool:
        agents = self._session.view.agents
        above = agents[agent_id].info.parent_id
        while above not in (None, self._agent.id):
            above = agents[above].info.parent_id
        return above is not None

    def set_plan(self, entries: Sequence[PlanEntry]) -> None:
        say(self._session, self._agent, PlanChanged(tuple(entries)))
