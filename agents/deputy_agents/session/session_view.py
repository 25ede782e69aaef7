"""The session as the tools of one of its agents see it."""

from collections.abc import Sequence

from deputy_agents.domain.errors import StoreError, ToolError
from deputy_agents.domain.event import MessageAdded, PlanChanged, PlanEntry
from deputy_agents.events.entries import read_page
from deputy_agents.events.event_log import EventLog
from deputy_agents.events.view import AgentNode
from deputy_agents.run.agent import Agent
from deputy_agents.session.histories import Histories
from deputy_agents.session.roster import Roster
from deputy_agents.text import clean


class LiveSessionView:
    """Implements :class:`deputy_agents.tool.base.SessionView` for ``agent``."""

    def __init__(self, log: EventLog, roster: Roster, histories: Histories, agent: Agent) -> None:
        self._log = log
        self._roster = roster
        self._histories = histories
        self._agent = agent

    async def nodes(self) -> Sequence[AgentNode]:
        await self._log.flush()
        return self._roster.nodes(self._log.view)

    async def result_of(self, agent_id: str) -> str:
        agent = self._roster.agent(agent_id)
        return clean(await self._histories.result_of(agent, self._log.view.agents[agent_id]))

    async def messages_of(self, agent_id: str) -> str:
        if not self._is_below(agent_id):
            raise ToolError("messages: you can read the messages of agents below you, and the results of all agents.")
        try:
            page = await read_page(self._log.view, self._log.read_at, agent_id)
        except StoreError as error:
            raise ToolError(str(error)) from None
        messages = (entry.body for entry in page.entries if isinstance(entry.body, MessageAdded))
        return "\n\n".join(f"**{message.role}**\n\n{message.text}" for message in messages)

    def set_plan(self, entries: Sequence[PlanEntry]) -> None:
        self._log.emit(PlanChanged(tuple(entries)), self._agent.id, self._agent.run)

    def _is_below(self, agent_id: str) -> bool:
        agents = self._log.view.agents
        above = agents[agent_id].info.parent_id
        while above not in (None, self._agent.id):
            above = agents[above].info.parent_id
        return above is not None
