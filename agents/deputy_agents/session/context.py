"""The context windows of a session: what fills them, and how to free the primary agent's."""

from deputy_agents.domain.errors import WrongState
from deputy_agents.guidance.describe import instructions_section
from deputy_agents.guidance.library import Library
from deputy_agents.run.context_usage import Compaction, ContextUsage
from deputy_agents.session.roster import Roster
from deputy_agents.session.supervisor import Supervisor


class SessionContext:
    """Its methods that change something run within a turn, see :class:`BuiltinCommands`."""

    def __init__(self, supervisor: Supervisor, roster: Roster, library: Library) -> None:
        self._primary = supervisor.primary
        self._supervisor = supervisor
        self._roster = roster
        self._library = library

    async def usage(self, agent_id: str | None = None) -> ContextUsage:
        """What fills the context window of an agent, by default of the primary.

        Raises:
            UnknownAgent: the session has no such agent.
            WrongState: it has ended, so it has none.
            StoreError: its history cannot be read.
        """
        agent = self._roster.agent(agent_id or self._primary.agent.id)
        if not agent.is_child:
            self._supervisor.renew_primary()  # the next request has the tools and files that are there now
        driver = self._supervisor.drivers.get(agent.id)
        if driver is None:
            raise WrongState(f"Agent {agent.info.label!r} has ended, so it has no context window.")
        await agent.remember()
        return driver.conversation.usage(instructions_section(self._library.instructions(agent.cwd)))

    async def compact(self, keep: str = "") -> Compaction:
        """Replaces the conversation by a summary. ``keep`` is what the user wants to keep.

        Raises:
            WrongState: the budget of the session is used up.
            ModelError: the model cannot write a summary now.
        """
        if limit := self._supervisor.tree_limit():
            raise WrongState(f"The conversation cannot be compacted: {limit}.")
        await self._primary.agent.remember()
        return await self._primary.conversation.compact(keep)

    async def clear(self) -> None:
        """Leaves out the conversation so far from what the model receives."""
        await self._primary.agent.remember()
        self._primary.conversation.clear()
