"""How a run without an editor is shown: as JSON lines, as text, or on a live screen."""

import json
import sys
from typing import Protocol

from anyio import to_thread
from rich.text import Text

from deputy_agents.domain.event import DefinitionsChanged, Event, InputRequest, PermissionRequest
from deputy_agents.ports.permission import Dismissed, InputAnswer, PermissionAnswer, Selected
from deputy_protocol.event import EventParams
from deputy_server.convert.event import event_to_wire
from deputy_server.convert.permission import permission_request_to_wire
from deputy_server.terminal.screen import LiveScreen, Screen
from deputy_server.terminal.view import View, fold


class OutputClosed(Exception):
    """Standard output cannot be written. ``reason`` is empty if its reader has closed it."""

    def __init__(self, error: OSError) -> None:
        reader_closed = isinstance(error, BrokenPipeError)
        self.reason = "" if reader_closed else (error.strerror or type(error).__name__).lower()
        super().__init__(self.reason)


class Progress(Protocol):
    """Shows a run.

    Raises:
        OutputClosed: standard output cannot be written.
    """

    async def event(self, event: Event) -> None: ...

    def note(self, text: str) -> None:
        """Show a message that is not an event."""
        ...


class JsonLines:
    """One event per line on standard output, in the format of ``deputy/event``; notes go to standard error. A slow
    reader delays the lines, not the agents."""

    async def event(self, event: Event) -> None:
        line = json.dumps(event_to_wire(event), ensure_ascii=False, separators=(",", ":"))
        await to_thread.run_sync(write, line, abandon_on_cancel=True)

    def note(self, text: str) -> None:
        sys.stderr.write(f"{text}\n")


def write(line: str) -> None:
    """Write a line to standard output.

    Raises:
        OutputClosed: it cannot be written.
    """
    try:
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
    except OSError as error:
        raise OutputClosed(error) from None


class ScreenProgress:
    """Shows one session on a screen."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._view = View()

    async def event(self, event: Event) -> None:
        if isinstance(event.body, DefinitionsChanged):
            return
        wire_event = EventParams.model_validate(event_to_wire(event)).root
        self._view = fold(self._view, wire_event)
        self._screen.update(self._view, wire_event)

    def note(self, text: str) -> None:
        self._screen.show(Text(text, style="dim italic"))


class ScreenPermissionClient:
    """Shows the requests of a session to the user at a screen."""

    def __init__(self, session_id: str, screen: LiveScreen) -> None:
        self._session_id = session_id
        self._screen = screen

    async def ask(self, request: PermissionRequest) -> PermissionAnswer:
        option = await self._screen.ask(permission_request_to_wire(self._session_id, request))
        return Dismissed() if option is None else Selected(option.option_id)

    async def ask_input(self, request: InputRequest) -> InputAnswer:
        return await self._screen.ask_input(request)
