"""Prompts on their way to being accepted: what they call and mention is read, servers that start are waited for."""

from collections.abc import Sequence

import anyio

from deputy_agents.domain.errors import InvalidRequest, check_length
from deputy_agents.domain.event import StatusChanged
from deputy_agents.domain.message import Block, Text, text_of
from deputy_agents.domain.outcome import AgentStatus
from deputy_agents.domain.turn import Origin, Turn
from deputy_agents.guidance.commands import called, filled
from deputy_agents.guidance.library import Library
from deputy_agents.run.agent import Host, say
from deputy_agents.run.driver import Driver
from deputy_agents.session.mcp_servers import McpServers
from deputy_agents.session.turn_scheduler import TurnScheduler

READING_GRACE = 5
"""Seconds that may pass until what a prompt calls is there, and then until what it mentions is read."""


class PromptAcceptor:
    """Accepts what people write to ``primary`` of the session ``host``, for its ``turns``."""

    def __init__(
        self, host: Host, primary: Driver, turns: TurnScheduler, servers: McpServers, library: Library
    ) -> None:
        self.order = anyio.Lock()
        """Held while a prompt is prepared, and by whoever must not overtake one."""
        self.cancels = 0
        """How often everything was cancelled."""
        self._host = host
        self._primary = primary
        self._turns = turns
        self._servers = servers
        self._library = library
        self._preparing: dict[anyio.CancelScope, anyio.Event] = {}
        """Prompts that are not accepted yet, each with what is set when it is."""
        self._waiting_for = ""

    @property
    def preparing(self) -> bool:
        """Prompts are on their way."""
        return bool(self._preparing)

    async def accept(
        self, blocks: Sequence[Block], attached: Sequence[Block], origin: Origin, *, queue: bool, since: int | None
    ) -> Turn:
        """Accepts a prompt: ``/command arguments`` becomes what the command stands for, and what is mentioned with
        ``@`` is attached, as is ``attached``, which people do not see of it. Those who call at the same time are
        accepted in the order of their calls, and each in bounded time: what cannot be read by then is left to the
        agent. One that is cancelled before it is accepted, by its caller or because :attr:`cancels` is no longer
        ``since``, has its turn all the same, which ends as cancelled at once. Raises as :meth:`TurnScheduler.take`, and
        InvalidRequest for a text that no model could read, or a call of a server's prompt that gives none."""
        shown = text_of(blocks)
        check_length(shown, "prompt")
        self._turns.check((*blocks, *attached))
        stop, accepted = anyio.CancelScope(), anyio.Event()
        if since is not None and since != self.cancels:
            stop.cancel()
        self._preparing[stop] = accepted
        try:
            try:
                with stop:
                    blocks = await self._prepared(blocks)
            except anyio.get_cancelled_exc_class():
                stop.cancel()  # the caller learns of it by the end of the turn
            whole = (*blocks, *attached)
            return self._turns.take(whole, shown, origin, queue=queue, cancelled=stop.cancel_called)
        finally:
            del self._preparing[stop]
            accepted.set()

    async def cancel(self) -> None:
        """Those on their way are accepted as cancelled; returns when they are."""
        self.cancels += 1
        for stop, accepted in tuple(self._preparing.items()):
            stop.cancel()
            await accepted.wait()

    async def _prepared(self, blocks: Sequence[Block]) -> Sequence[Block]:
        async with self.order:
            try:
                await self._servers.start(self._primary.agent, self._waits_for)
            finally:
                self._waits_for("")
            if (whole := await self._called(text_of(blocks))) is not None:
                blocks = (Text(whole), *(block for block in blocks if not isinstance(block, Text)))
            with anyio.move_on_after(READING_GRACE):
                return (*blocks, *await self._primary.attached(text_of(blocks)))
        return blocks

    async def _called(self, text: str) -> str | None:
        """What the command or the prompt of a server that ``text`` calls stands for; ``None`` when it calls none.

        Raises:
            InvalidRequest: the server has no such prompt, or does not give it in bounded time.
        """
        name, arguments = called(text) or ("", "")
        if (command := self._library.commands.get(name)) is not None:
            return filled(command, arguments)
        if (prompt := self._servers.prompts().get(name)) is not None:
            with anyio.move_on_after(READING_GRACE):
                return await prompt.filled(arguments)
            raise InvalidRequest(f"/{name}: its server gave no answer within {READING_GRACE:g} s.", "prompt")
        if name.startswith("mcp__"):  # nothing else is called so, and no model can do anything with it
            raise InvalidRequest(f"/{name}: no MCP server that runs has this prompt; see deputy mcp list.", "prompt")
        return None

    def _waits_for(self, what: str) -> None:
        """A prompt waits for ``what``; for nothing any more if that is empty."""
        if what != self._waiting_for:
            self._waiting_for = what
            status = AgentStatus.RUNNING if what or self._turns.running else AgentStatus.IDLE
            detail = f"waiting for {what}" if what else None
            say(self._host, self._primary.agent, StatusChanged(status, detail=detail))
