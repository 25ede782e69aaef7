"""Messages to the user outside the conversation."""

from collections.abc import Callable

from deputy_agents.domain.ids import new_id
from deputy_server.acp.agent_updates import chunk
from deputy_server.acp.client import Client
from deputy_server.rpc.json import JsonObject


class Notices:
    """The notices of one session. A client that does not support them gets them as text of the conversation.
    ``shown`` has the texts that the client has received in any session; ``notify`` sends an update."""

    def __init__(self, client: Client, shown: set[str], notify: Callable[[JsonObject], None]) -> None:
        self._supported = client.notices
        self._shown = shown
        self._notify = notify
        self._pending: list[str] = []
        """For a client without notices, the texts to send before the next turn."""
        self._delayed = False
        """The running turn has shown a delay."""

    def show_once(self, text: str | None, *, severity: str, occasion: str = "") -> None:
        """Show ``text``, once per client for each ``occasion``."""
        if text and (key := occasion + text) not in self._shown:
            self._shown.add(key)
            if self._supported:
                self._send(text, severity)
            else:
                self._pending.append(text)

    def flush(self) -> None:
        """Send pending texts: a turn begins."""
        for text in self._pending:
            self._notify(chunk("agent_message_chunk", f"*{text}*\n\n", new_id()))
        self._pending.clear()

    def show_delay(self, text: str) -> None:
        """Show why the turn waits, once per turn. A client without notices gets it as a thought, so that the editor
        does not look stuck."""
        if self._delayed:
            return
        self._delayed = True
        if self._supported:
            self._send(text, "warning")
        else:
            self._notify(chunk("agent_thought_chunk", f"*{text}*\n\n", new_id()))

    def turn_ended(self) -> None:
        self._delayed = False

    def _send(self, text: str, severity: str) -> None:
        self._notify({"sessionUpdate": "notice", "severity": severity, "title": text})
