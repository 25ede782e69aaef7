"""Accepts prompts: what they call and mention is read, and MCP servers that start are waited for."""

from collections.abc import Sequence

import anyio

from deputy_agents.domain.errors import InvalidRequest, check_length
from deputy_agents.domain.event import StatusChanged
from deputy_agents.domain.message import Block, Text, text_of
from deputy_agents.domain.outcome import AgentStatus
from deputy_agents.domain.turn import CommandResult, Origin, Turn
from deputy_agents.guidance.builtin_commands import BUILTIN_COMMANDS
from deputy_agents.guidance.commands import fill_in, parse_call
from deputy_agents.guidance.library import Library
from deputy_agents.project.briefing import Briefing
from deputy_agents.run.driver import Driver
from deputy_agents.run.host import Host, emit
from deputy_agents.session.builtin_commands import BuiltinCommands
from deputy_agents.session.history_commands import HistoryCommands
from deputy_agents.session.mcp_servers import McpServers
from deputy_agents.session.prompt_images import with_usable_images, without_images
from deputy_agents.session.rewind import Rewind
from deputy_agents.session.session_hooks import SessionHooks
from deputy_agents.session.turn_scheduler import TurnScheduler

READING_GRACE = 5
"""Seconds until what a prompt calls must be there, and then until what it mentions must be read."""


class PromptAcceptor:
    """Turns what users write to ``primary`` into prompts for its ``turns``."""

    def __init__(
        self,
        host: Host,
        primary: Driver,
        turns: TurnScheduler,
        mcp_servers: McpServers,
        library: Library,
        briefing: Briefing,
        builtin: BuiltinCommands,
        rewind: Rewind,
        is_new: bool,
    ) -> None:
        self.builtin = builtin
        self.hooks = SessionHooks(host, primary.agent, new=is_new)
        self.order = anyio.Lock()
        """Held while a prompt is prepared, and by whatever must not overtake one."""
        self.cancels = 0
        """How often everything was cancelled in this session."""
        self._host = host
        self._primary = primary
        self._turns = turns
        self._mcp_servers = mcp_servers
        self._library = library
        self._briefing = briefing
        self._history = HistoryCommands(rewind, primary.agent.cwd)
        self._preparing: dict[anyio.CancelScope, anyio.Event] = {}
        """Prompts that are not accepted yet, each with an event that is set when it is."""
        self._waiting_for = ""

    @property
    def preparing(self) -> bool:
        """Whether a prompt is being prepared."""
        return bool(self._preparing)

    async def accept(
        self,
        blocks: Sequence[Block],
        *,
        attached: Sequence[Block] = (),
        queue: bool = False,
        origin: Origin = "user",
        since: int | None = None,
    ) -> Turn:
        """Accepts a prompt as the user wrote it. ``/command arguments`` is expanded, and what ``@`` mentions is
        attached; so is ``attached``, which users do not see. Concurrent calls are accepted in the order of the calls,
        each in bounded time: what cannot be read by then is left to the agent. A prompt that is cancelled before it is
        accepted, by its caller or because :attr:`cancels` is no longer ``since``, gets a turn that ends as cancelled.

        Raises:
            InvalidRequest: it is empty or too long, it calls a prompt of an MCP server that fails, or a hook blocks it.
            WrongState, Overloaded: as :meth:`TurnScheduler.accept`.
        """
        shown = text_of(blocks)
        check_length(shown, "prompt")
        self._turns.check((*blocks, *attached))
        if not attached and (parse_call(shown) or ("",))[0] in BUILTIN_COMMANDS:
            return await self._accept_command(blocks, shown, origin, queue=queue, since=since)
        written, stop, accepted = tuple(blocks), anyio.CancelScope(), anyio.Event()
        if since is not None and since != self.cancels:
            stop.cancel()
        self._preparing[stop] = accepted
        try:
            try:
                with stop:
                    blocks, attached, shown = await self._prepare(blocks, attached, shown)
            except anyio.get_cancelled_exc_class():
                stop.cancel()  # the caller learns it from the end of the turn
            if stop.cancel_called:
                blocks, attached = without_images(blocks), without_images(attached)
            blocks = (*blocks, *attached)
            stopped = stop.cancel_called
            return self._turns.accept(blocks, shown, origin, queue=queue, cancelled=stopped, written=written)
        finally:
            del self._preparing[stop]
            accepted.set()

    async def _accept_command(
        self, blocks: Sequence[Block], shown: str, origin: Origin, *, queue: bool, since: int | None
    ) -> Turn:
        """Accepts a slash command of Deputy."""
        async with self.order:  # prompts before it come first
            stopped = since is not None and since != self.cancels
            done = None if stopped else await self._history.run(shown)
            work = self.builtin.work(shown) if done is None else done.shown
            work = work or CommandResult("").shown  # it was cancelled before it could act
            turn = self._turns.accept(blocks, shown, origin, queue=queue, cancelled=stopped, work=work)
            turn.command = done
            return turn

    async def cancel(self) -> None:
        """Accepts the prompts that are being prepared as cancelled; returns when they are."""
        self.cancels += 1
        for stop, accepted in tuple(self._preparing.items()):
            stop.cancel()
            await accepted.wait()

    async def _prepare(
        self, blocks: Sequence[Block], attached: Sequence[Block], shown: str
    ) -> tuple[Sequence[Block], Sequence[Block], str]:
        """The blocks for the model, what is attached, and what the user sees."""
        async with self.order:
            try:
                await self._mcp_servers.start(self._primary.agent, self._publish_wait)
                self._publish_wait("hooks" if self.hooks.waits else "")
                added = await self.hooks.for_prompt(text_of(blocks))
            finally:
                self._publish_wait("")
            if (expanded := await self._expanded(text_of(blocks))) is not None:
                blocks = (Text(expanded), *(block for block in blocks if not isinstance(block, Text)))
            text = text_of(blocks)
            usable, left_out = await with_usable_images((*blocks, *attached))
            blocks, attached = usable[: len(blocks)], usable[len(blocks) :]
            with anyio.move_on_after(READING_GRACE):
                blocks = (*blocks, *await self._primary.attachments(text))
            attached = (*attached, *added, *await self._briefing.for_prompt())
        return blocks, attached, "\n".join(filter(None, (shown, *left_out)))

    async def _expanded(self, text: str) -> str | None:
        """The prompt of the slash command that ``text`` calls; ``None`` when it calls none.

        Raises:
            InvalidRequest: the MCP server has no such prompt, or does not return it in bounded time.
        """
        name, arguments = parse_call(text) or ("", "")
        if (command := self._library.commands.get(name)) is not None:
            return fill_in(command, arguments)
        if (prompt := self._mcp_servers.prompts().get(name)) is not None:
            with anyio.move_on_after(READING_GRACE):
                return await prompt.filled(arguments)
            raise InvalidRequest(f"/{name}: its server did not answer within {READING_GRACE:g} s.", "prompt")
        if name.startswith("mcp__"):  # only MCP prompts have such names, and no model can do anything with it
            raise InvalidRequest(f"/{name}: no running MCP server has this prompt; see deputy mcp list.", "prompt")
        return None

    def _publish_wait(self, what: str) -> None:
        """Publishes that a prompt waits for ``what``; nothing when it is empty."""
        if what != self._waiting_for:
            self._waiting_for = what
            status = AgentStatus.RUNNING if what or self._turns.running else AgentStatus.IDLE
            detail = f"waiting for {what}" if what else None
            emit(self._host, self._primary.agent, StatusChanged(status, detail=detail))
