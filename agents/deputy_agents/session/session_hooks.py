"""Hooks at the start and the end of a session, and before its prompts."""

import anyio

from deputy_agents.domain.errors import InvalidRequest
from deputy_agents.domain.hook import When
from deputy_agents.domain.message import Text
from deputy_agents.run.agent import Agent
from deputy_agents.run.hook_runner import HookRunner
from deputy_agents.run.host import Host

END_LIMIT = 5.0
"""Seconds that all hooks at the end of a session may take together."""


class SessionHooks:
    """``new``: the session has just been created; otherwise it is resumed."""

    def __init__(self, host: Host, primary: Agent, *, new: bool) -> None:
        self._host = host
        self._hooks = HookRunner(primary, host)
        self._source = "startup" if new else "resume"
        self._context = ""
        self._started = anyio.Event()

    async def start(self) -> None:
        """Run the hooks at the start. The first prompt waits for them."""
        try:
            self._context = await self._hooks.session_start(self._source)
        finally:
            self._started.set()

    async def end(self) -> None:
        with anyio.move_on_after(END_LIMIT):
            await self._hooks.session_end("other")

    async def for_prompt(self, text: str) -> tuple[Text, ...]:
        """What hooks add to the prompt ``text``.

        Raises:
            InvalidRequest: a hook blocks it.
        """
        await self._started.wait()
        answer = await self._hooks.prompt(text)
        if answer.blocks:
            raise InvalidRequest(answer.reason, "prompt")
        context, self._context = self._context, ""
        return tuple(Text(part) for part in (context, answer.context) if part)

    @property
    def waits(self) -> bool:
        """Whether a prompt has to wait for hooks."""
        return not self._started.is_set() or self._hooks.has(When.PROMPT_SUBMIT)
