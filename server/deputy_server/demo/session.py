"""The demo's side of the wire: what it declares, what it hears, what it asks of the server."""

import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError
from rich.text import Text

from deputy_agents.events.signal import Signal
from deputy_protocol.event import DefinitionsChanged, EventParams
from deputy_protocol.permission import (
    CancelledOutcome,
    OptionKind,
    PermissionRequest,
    PermissionResponse,
    SelectedOutcome,
)
from deputy_server.demo.client import Client, JsonObject
from deputy_server.terminal.draw import one_line
from deputy_server.terminal.screen import Screen
from deputy_server.terminal.view import View, fold

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Tally:
    """What people answered."""

    approved: int = 0
    denied: int = 0
    unanswered: int = 0

    @property
    def asked(self) -> int:
        return self.approved + self.denied + self.unanswered


class Sessions:
    """Keeps a view of each session and lets the screen follow. Its methods are the client's handlers."""

    def __init__(self, screen: Screen) -> None:
        self.views: dict[str, View] = {}
        self.tally = Tally()
        self._screen = screen
        self._changed = Signal()

    def hear(self, method: str, params: JsonObject) -> None:
        """Takes a notification of the server."""
        match method:
            case "deputy/event":
                self._hear_event(params)
            case "window/showMessage":
                self._screen.show(Text(one_line(str(params.get("message", ""))), style="dim italic"))
            case _:
                pass

    def _hear_event(self, params: JsonObject) -> None:
        try:
            event = EventParams.model_validate(params).root
        except ValidationError:
            # A newer server may say more than this client knows.
            log.debug("an event of type %s was not understood", params.get("type"))
            return
        if isinstance(event, DefinitionsChanged):
            return
        view = self.views[event.session_id] = fold(self.views.get(event.session_id, View()), event)
        self._screen.update(view, event)
        self._changed.notify()

    async def until(self, session_id: str, holds: Callable[[View], bool]) -> View:
        """The first view of the session of which ``holds`` is true; waits as long as it takes."""
        while not holds(view := self.views.get(session_id, View())):
            await self._changed.wait()
        return view

    async def permission(self, params: JsonObject) -> object:
        """Answers ``deputy/permission/request``. Raises ValueError when the request makes no sense."""
        permission_request = PermissionRequest.model_validate(params)
        option = await self._screen.ask(permission_request)
        if option is None:
            outcome = CancelledOutcome()
            self.tally.unanswered += 1
        else:
            outcome = SelectedOutcome(option_id=option.option_id)
            if option.kind in (OptionKind.ALLOW_ONCE, OptionKind.ALLOW_ALWAYS):
                self.tally.approved += 1
            else:
                self.tally.denied += 1
        return PermissionResponse(outcome=outcome).model_dump(mode="json", by_alias=True, exclude_none=True)


def initialize_params(folders: Mapping[str, Path], model: str | None, version: str) -> JsonObject:
    """What this client is and can do. ``folders`` maps names to the folders that agents may work in."""
    uris = {name: folder.as_uri() for name, folder in folders.items()}
    return {
        "processId": os.getpid(),
        "clientInfo": {"name": "deputy demo", "version": version},
        "rootUri": next(iter(uris.values())),
        "workspaceFolders": [{"name": name, "uri": uri} for name, uri in uris.items()],
        "capabilities": {
            "workspace": {"workspaceFolders": True},
            "experimental": {
                "deputy": {"protocolVersion": 1, "events": True, "permissions": True, "diffPreview": True}
            },
        },
        "initializationOptions": {} if model is None else {"model": model},
    }


async def open_session(client: Client, folder: Path) -> str:
    """A new session in ``folder``; its id."""
    answer = await client.request("deputy/session/new", {"cwd": folder.as_uri()})
    return str(answer["sessionId"])


async def prompt(client: Client, session_id: str, text: str, timeout: float | None) -> str:
    """One turn; its stop reason. ``timeout`` is in seconds."""
    params = {"sessionId": session_id, "prompt": [{"type": "text", "text": text}]}
    answer = await client.request("deputy/session/prompt", params, timeout=timeout)
    return str(answer.get("stopReason"))


async def stop_agent(client: Client, session_id: str, agent_id: str) -> bool:
    """Stops one agent and all below it; false when it had ended before."""
    answer = await client.request("deputy/agent/cancel", {"sessionId": session_id, "agentId": agent_id})
    return answer.get("cancelled") is True
