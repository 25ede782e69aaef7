"""Where a run without an editor is shown: lines of JSON, lines of text, or a picture that moves."""

import json
import sys
from typing import Protocol

from anyio import to_thread
from rich.text import Text

from deputy_agents.domain.event import DefinitionsChanged, Event, PermissionRequest
from deputy_agents.ports.permission import Dismissed, PermissionAnswer, Selected
from deputy_protocol.event import EventParams
from deputy_server.convert.event import event_to_wire
from deputy_server.convert.permission import permission_request_to_wire
from deputy_server.terminal.screen import Screen
from deputy_server.terminal.view import View, fold


class Unwritten(Exception):
    """Standard output takes nothing more. Its ``reason`` is empty when its reader has gone."""

    def __init__(self, error: OSError) -> None:
        gone = isinstance(error, BrokenPipeError)
        self.reason = "" if gone else (error.strerror or type(error).__name__).lower()
        super().__init__(self.reason)


class Progress(Protocol):
    """Shows a run.

    Raises:
        Unwritten: nobody reads any more, or nothing can be written.
    """

    async def event(self, event: Event) -> None: ...

    def note(self, text: str) -> None:
        """Something that the user has to know, beside the events."""
        ...


class JsonLines:
    """One event a line on standard output, as ``deputy/event`` carries it; notes go to standard error. A reader that
    is slow holds back the lines and not the agents."""

    async def event(self, event: Event) -> None:
        line = json.dumps(event_to_wire(event), ensure_ascii=False, separators=(",", ":"))
        await to_thread.run_sync(write, line, abandon_on_cancel=True)

    def note(self, text: str) -> None:
        sys.stderr.write(f"{text}\n")


def write(line: str) -> None:
    """A line for standard output.

    Raises:
        Unwritten: it could not be written.
    """
    try:
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
    except OSError as error:
        raise Unwritten(error) from None


class Drawn:
    """What a screen shows of one session. It can ask, where the screen has a person at it."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._view = View()

    async def event(self, event: Event) -> None:
        if isinstance(event.body, DefinitionsChanged):
            return
        told = EventParams.model_validate(event_to_wire(event)).root
        self._view = fold(self._view, told)
        self._screen.update(self._view, told)

    def note(self, text: str) -> None:
        self._screen.show(Text(text, style="dim italic"))


class Asker:
    """Puts the questions of a session to the person at a screen."""

    def __init__(self, session_id: str, screen: Screen) -> None:
        self._session_id = session_id
        self._screen = screen

    async def ask(self, request: PermissionRequest) -> PermissionAnswer:
        option = await self._screen.ask(permission_request_to_wire(self._session_id, request))
        return Dismissed() if option is None else Selected(option.option_id)
