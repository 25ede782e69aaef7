"""Model histories of agents that do not run: they are kept in the store alone, and read when an agent continues."""

from functools import partial

from deputy_agents.domain.errors import StoreError, ToolError
from deputy_agents.domain.message import tool_uses
from deputy_agents.events.event_log import EventLog
from deputy_agents.events.view import AgentNode
from deputy_agents.ports.store import ContextRecord, HistoryRecord, Store
from deputy_agents.run import context_window
from deputy_agents.run.agent import Agent
from deputy_agents.run.context_window import ContextWindow
from deputy_agents.session.restore import full_result, missing_messages
from deputy_agents.session.stored_sessions import excerpt_of


class Histories:
    """The histories of one session."""

    def __init__(self, log: EventLog, store: Store) -> None:
        self._log = log
        self._store = store
        self._unstored: list[Agent] = []
        """Agents that ended while the store failed: their histories are in memory alone."""

    def leave_in_store(self, agent: Agent, record: ContextRecord | None, count: int | None) -> None:
        """``agent`` is of a stored session. Its model was sent what ``record`` states; its history has the first
        ``count`` messages that are stored, or all."""
        agent.recall = partial(self._recall, agent, record, count)

    def reread(self, agent: Agent, record: ContextRecord | None, count: int) -> None:
        """The stored history of ``agent``, which does not run, is another one, with ``count`` messages. Its model was
        sent what ``record`` states."""
        agent.history, agent.call_ids = [], set()
        agent.context_window = ContextWindow()
        agent.recall = partial(self._recall, agent, record, count)

    async def release(self, agent: Agent) -> None:
        """Frees the memory of a sub-agent's history after its end, once it is stored."""
        await self._log.flush()
        ended = [agent, *self._unstored]
        self._unstored = ended if self._log.store_error is not None else []
        if self._unstored:
            return
        for one in ended:
            node = self._log.view.agents[one.id]
            if node.status.ended and node.run == one.run and one.recall is None:
                one.history, one.call_ids = [], set()
                one.recall = partial(self._recall, one, None, None)
                one.result = None if one.id in self._log.view.truncated else node.summary or ""

    async def result_of(self, agent: Agent, node: AgentNode) -> str:
        """The complete result of an agent's last run.

        Raises:
            ToolError: the store cannot be read.
        """
        if agent.result is not None:
            return agent.result
        try:
            return full_result(node, await self._store.history(self._log.session_id, agent.id))
        except StoreError as error:
            raise ToolError(str(error)) from None

    async def _recall(self, agent: Agent, record: ContextRecord | None, count: int | None) -> None:
        """Reads the history of an agent before what is new in it.

        Raises:
            StoreError: the store cannot be read.
        """
        recall, session_id, view = agent.recall, self._log.session_id, self._log.view
        messages = list(await self._store.history(session_id, agent.id, count))
        missing = []
        if agent.is_child:  # that of the primary was repaired when the session was opened
            missing = [*missing_messages(view, agent.id, await excerpt_of(self._store, session_id, view, [agent.id]))]
        if agent.recall is not recall:
            return
        for message in missing:
            self._log.add_record(HistoryRecord(agent.id, message))
        agent.history[:0] = messages = [*messages, *missing]
        agent.call_ids |= {call.id for message in messages for call in tool_uses(message)}
        if agent.result is None:
            agent.result = full_result(view.agents[agent.id], messages)
        if record is not None:
            agent.context_window = context_window.from_record(record, len(messages))
        elif agent.context_window.start > len(messages):
            agent.context_window = ContextWindow(thinking_start=len(messages))
        agent.recall = None
