"""The demo's client side of the protocol: its capabilities, its handlers and its requests."""

import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError
from rich.text import Text

from deputy_agents.concurrency.signal import Signal
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
class AnswerCounts:
    """How often permission requests were approved, denied, or not answered."""

    approved: int = 0
    denied: int = 0
    unanswered: int = 0

    @property
    def total(self) -> int:
        return self.approved + self.denied + self.unanswered


class Sessions:
    """Folds events into one view per session and updates the screen. Its methods are the client's handlers."""

    def __init__(self, screen: Screen) -> None:
        self.views: dict[str, View] = {}
        self.answers = AnswerCounts()
        self._screen = screen
        self._changed = Signal()

    def on_notification(self, method: str, params: JsonObject) -> None:
        """Handle a notification of the server."""
        match method:
            case "deputy/event":
                self._on_event(params)
            case "window/showMessage":
                self._screen.show(Text(one_line(str(params.get("message", ""))), style="dim italic"))
            case _:
                pass

    def _on_event(self, params: JsonObject) -> None:
        try:
            event = EventParams.model_validate(params).root
        except ValidationError:
            # A newer server may send types that this client does not know.
            log.debug("ignored an event of unknown type %s", params.get("type"))
            return
        if isinstance(event, DefinitionsChanged):
            return
        view = self.views[event.session_id] = fold(self.views.get(event.session_id, View()), event)
        self._screen.update(view, event)
        self._changed.notify()

    async def until(self, session_id: str, holds: Callable[[View], bool]) -> View:
        """Wait for a view of the session for which ``holds`` is true, and return it."""
        while not holds(view := self.views.get(session_id, View())):
            await self._changed.wait()
        return view

    async def permission(self, params: JsonObject) -> object:
        """Answer ``deputy/permission/request``.

        Raises:
            ValueError: the request is invalid.
        """
        permission_request = PermissionRequest.model_validate(params)
        option = await self._screen.ask(permission_request)
        if option is None:
            outcome = CancelledOutcome()
            self.answers.unanswered += 1
        else:
            outcome = SelectedOutcome(option_id=option.option_id)
            if option.kind in (OptionKind.ALLOW_ONCE, OptionKind.ALLOW_ALWAYS):
                self.answers.approved += 1
            else:
                self.answers.denied += 1
        return PermissionResponse(outcome=outcome).model_dump(mode="json", by_alias=True, exclude_none=True)


def initialize_params(folders: Mapping[str, Path], model: str | None, version: str) -> JsonObject:
    """The params of ``initialize``. ``folders`` are the workspace folders by name."""
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
    """Open a session in ``folder`` and return its id."""
    answer = await client.request("deputy/session/new", {"cwd": folder.as_uri()})
    return str(answer["sessionId"])


async def prompt(client: Client, session_id: str, text: str, timeout: float | None) -> str:
    """Run one turn and return its stop reason. ``timeout`` is in seconds."""
    params = {"sessionId": session_id, "prompt": [{"type": "text", "text": text}]}
    answer = await client.request("deputy/session/prompt", params, timeout=timeout)
    return str(answer.get("stopReason"))


async def stop_agent(client: Client, session_id: str, agent_id: str) -> bool:
    """Stop an agent and everything below it. Return whether it was still running."""
    answer = await client.request("deputy/agent/cancel", {"sessionId": session_id, "agentId": agent_id})
    return answer.get("cancelled") is True
