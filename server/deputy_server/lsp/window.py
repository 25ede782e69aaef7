"""What the client's window shows on request: messages, log lines and documents (``window/*``)."""

from collections.abc import Sequence
from pathlib import Path

from lsprotocol import types

from deputy_agents.domain.problem import Problem
from deputy_protocol.base import to_wire
from deputy_protocol.place import Range
from deputy_server.lsp.client import Client
from deputy_server.lsp.protocol import RpcProtocol
from deputy_server.rpc.errors import ClientError, ConnectionLost
from deputy_server.rpc.json import JsonObject, dig

SHOW_TIMEOUT = 10
"""Seconds that an editor may take to show a document."""

SHOWN_PROBLEMS = 5
"""Problems that one report shows as messages; the log has all of them."""


class Window:
    """The window of one client."""

    def __init__(self, protocol: RpcProtocol, client: Client) -> None:
        self._protocol = protocol
        self._client = client
        self._shown: set[str] = set()
        """Texts that are shown once per connection, some with their occasion."""

    def show(self, text: str, kind: types.MessageType = types.MessageType.Info) -> None:
        """Show ``text`` to the user."""
        self._protocol.notify(types.WINDOW_SHOW_MESSAGE, {"type": kind.value, "message": text})

    def notice(self, text: str, occasion: str = "") -> None:
        """Show ``text`` to the user, once per connection for each ``occasion``."""
        if (key := occasion + text) not in self._shown:
            self._shown.add(key)
            self.show(text)

    def report_problems(self, problems: Sequence[Problem]) -> None:
        """Show and log problems in files that users write for agents, each once per connection."""
        warning = types.MessageType.Warning
        texts = [text for text in map(str, problems) if text not in self._shown]
        self._shown.update(texts)
        for text in texts:
            self._protocol.notify(types.WINDOW_LOG_MESSAGE, {"type": warning.value, "message": text})
        for text in texts[:SHOWN_PROBLEMS]:
            self.show(text, warning)
        if (more := len(texts) - SHOWN_PROBLEMS) > 0:
            self.show(f"{more} more problems in files for agents are in the log.", warning)

    async def open_document(self, path: Path, *, focus: bool, selection: Range | None = None) -> bool:
        """Open a file in the editor, at ``selection``. Return ``False`` when the client cannot or
        does not confirm it."""
        if not self._client.show_document:
            return False
        params: JsonObject = {"uri": path.as_uri(), "external": False, "takeFocus": focus}
        if selection is not None:
            params["selection"] = to_wire(selection)
        try:
            answer = await self._protocol.request(types.WINDOW_SHOW_DOCUMENT, params, timeout=SHOW_TIMEOUT)
        except (TimeoutError, ClientError, ConnectionLost):
            return False
        return dig(answer, "success") is True
