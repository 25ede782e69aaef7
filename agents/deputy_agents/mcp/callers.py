"""The requests to one MCP server that are under way, in whose name it can ask the user."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import anyio

from deputy_agents.domain.user_input import InputForm
from deputy_agents.mcp.elicitation import Unsupported, form_of, result_of
from deputy_agents.permission.inbox import InputOutcome

if TYPE_CHECKING:
    from mcp.client.session import ClientRequestContext
    from mcp_types import ElicitRequestParams, ElicitResult, ErrorData

Ask: TypeAlias = Callable[[InputForm], Awaitable[InputOutcome]]
"""Asks the user, without a time limit."""

MAX_OPEN = 10
"""Requests to the user that one MCP server may have open."""


@dataclass(eq=False, slots=True)
class Caller:
    """A request under way. ``agent_id`` is the agent that made it; empty if the user did."""

    limit: anyio.CancelScope
    agent_id: str
    ask: Ask | None


class Callers:
    """The requests to ``server``, each of which may take ``seconds``; while it waits for the user, time does not count.
    ``ask`` asks in the name of the session."""

    def __init__(self, server: str, seconds: float, ask: Ask | None) -> None:
        self._server = server
        self._seconds = seconds
        self._ask = ask
        self._under_way: list[Caller] = []
        self._open: set[anyio.CancelScope] = set()
        """What it asks the user now."""

    @asynccontextmanager
    async def calling(self, agent_id: str = "", ask: Ask | None = None) -> AsyncGenerator[None]:
        """Wraps a request.

        Raises:
            TimeoutError: it takes too long.
        """
        with anyio.fail_after(self._seconds) as limit:
            caller = Caller(limit, agent_id, ask)
            self._under_way.append(caller)
            self._update_limits()
            try:
                yield
            finally:
                self._under_way.remove(caller)
                if not self._under_way:
                    for scope in tuple(self._open):
                        scope.cancel()  # nothing needs the answer any longer

    async def elicit(
        self, context: "ClientRequestContext", params: "ElicitRequestParams"
    ) -> "ElicitResult | ErrorData":
        """Answers the MCP server's ``elicitation/create``."""
        from mcp_types import INVALID_PARAMS, INVALID_REQUEST, ElicitResult, ErrorData

        del context
        if len(self._open) >= MAX_OPEN:
            return ErrorData(code=INVALID_REQUEST, message=f"At most {MAX_OPEN} elicitations can be open.")
        try:
            form = form_of(self._server, params)
        except Unsupported as error:
            return ErrorData(code=INVALID_PARAMS, message=str(error))
        outcome = await self.put(form)
        return ElicitResult(action="cancel") if outcome is None else result_of(form, outcome)

    async def put(self, form: InputForm) -> InputOutcome | None:
        """Puts a form to the user. ``None`` if no request is under way, or the last one ends before the answer."""
        if (ask := self._asking()) is None:
            return None
        with anyio.CancelScope() as scope:
            self._open.add(scope)
            self._update_limits()
            try:
                return await ask(form)
            finally:
                self._open.discard(scope)
                self._update_limits()
        return None

    def _asking(self) -> Ask | None:
        """Who asks. The protocol does not tell which request needs the input: with requests of several agents under
        way, the session asks."""
        agents = {caller.agent_id for caller in self._under_way}
        if not agents:
            return None
        return (self._under_way[-1].ask if len(agents) == 1 else None) or self._ask

    def _update_limits(self) -> None:
        deadline = float("inf") if self._open else anyio.current_time() + self._seconds
        for caller in self._under_way:
            if self._open or caller.limit.deadline == float("inf"):
                caller.limit.deadline = deadline
