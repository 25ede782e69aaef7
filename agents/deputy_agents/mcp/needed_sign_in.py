"""The sign-in that a running MCP server needs: noticed when it is missing, offered to the user, and waited for."""

from collections.abc import Callable
from shlex import quote

import anyio
from anyio import to_thread

from deputy_agents.domain.user_input import InputAction, InputForm
from deputy_agents.mcp.callers import Ask
from deputy_agents.mcp.elicitation import sign_in_form
from deputy_agents.mcp.sign_ins import SignIns

POLL = 1.0
"""Seconds between two looks at the sign-ins while the user has to sign in."""


class NeededSignIn:
    """The sign-in at the MCP server ``name``. ``ask`` asks the user."""

    def __init__(self, name: str, sign_ins: SignIns, ask: Ask | None) -> None:
        self.sign_ins = sign_ins
        self.missing = False
        """The MCP server wants a sign-in, and there is none that it accepts."""
        self._name = name
        self._ask = ask

    @property
    def problem(self) -> str:
        return f"it needs you to sign in. {self._command}"

    @property
    def _command(self) -> str:
        return f"Run: deputy mcp login {quote(self._name)}"

    async def wait(self, url: str, report: Callable[[str], None]) -> None:
        """Waits until the sign-ins have changed, in this process or another one, and offers the user to sign in at
        ``url`` meanwhile. ``report`` gets the reason if that fails."""
        mark = await to_thread.run_sync(self.sign_ins.mark)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._offer, url, report)
            while mark == await to_thread.run_sync(self.sign_ins.mark):  # noqa: ASYNC110 - another process changes it
                await anyio.sleep(POLL)
            tasks.cancel_scope.cancel()
        self.missing = False

    async def _offer(self, url: str, report: Callable[[str], None]) -> None:
        """Asks the user to sign in now. Nothing is requested before they want to, and they open the page."""
        from deputy_agents.mcp.oauth_login import SignInFailed, sign_in

        if not await self._agrees(sign_in_form(self._name)):
            return

        async def show(page: str) -> None:
            if not await self._agrees(sign_in_form(self._name, page)):
                raise SignInFailed("you did not open the page")

        try:
            await sign_in(url, self.sign_ins, show)
        except SignInFailed as error:
            report(f"you are not signed in: {error}. {self._command}")

    async def _agrees(self, form: InputForm) -> bool:
        return self._ask is not None and (await self._ask(form)).action is InputAction.ACCEPTED
