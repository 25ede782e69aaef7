"""What LSP does around a prompt."""

from dataclasses import dataclass

from deputy_agents.domain.outcome import CancelReason
from deputy_server.lsp.connection import Connection
from deputy_server.lsp.feed import Feed
from deputy_server.prompting import IncomingPrompt


@dataclass(frozen=True, slots=True)
class LspFrontEnd:
    """A :class:`~deputy_server.prompting.FrontEnd` for the session of ``feed``."""

    connection: Connection
    feed: Feed

    def report_problems(self) -> None:
        self.connection.window.report_problems(self.feed.session.problems)

    async def before_refresh(self) -> None:
        await self.connection.folders_moved()

    async def before_prompt(self) -> None:
        self.connection.set_primary_client(self.feed.session)

    def cancel_reason(self) -> CancelReason | None:
        return self.connection.cancel_reason()

    async def flush(self) -> None:
        await self.feed.flush()

    def notice(self, text: str, occasion: str = "") -> None:
        self.connection.window.notice(text, occasion)


def incoming_prompt(connection: Connection, feed: Feed) -> IncomingPrompt:
    """A prompt that ``connection``'s client has just sent to the session of ``feed``."""
    return IncomingPrompt(feed.session, LspFrontEnd(connection, feed))
