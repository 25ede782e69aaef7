"""What one client receives of one session: its events as notifications, and progress of its runs.

A feed is a cursor over the session's event log. It advances only as fast as the client reads. A client that falls
behind catches up later from the core, which merges lossy events meanwhile, so nothing accumulates here.
"""

import logging
from collections.abc import Callable
from dataclasses import replace

import anyio.to_thread
from anyio.abc import TaskGroup

from deputy_agents.concurrency.long_json import PART, json_parts, text_length
from deputy_agents.concurrency.signal import Signal
from deputy_agents.domain.event import (
    Activity,
    AgentFinished,
    Event,
    MessageDelta,
    ThoughtDelta,
    ToolOutputDelta,
    TurnFinished,
)
from deputy_agents.domain.turn import Turn
from deputy_agents.session.session import Session
from deputy_protocol.methods import EVENT
from deputy_server.convert.event import event_to_wire
from deputy_server.lsp.client import Client
from deputy_server.lsp.progress import ProgressTokens, Token
from deputy_server.lsp.protocol import RpcProtocol
from deputy_server.lsp.run_progress import RunProgress
from deputy_server.lsp.throttle import Throttle
from deputy_server.rpc.endpoint import Encoded

log = logging.getLogger(__name__)

DELTA_INTERVAL = 0.008
"""Seconds between two notifications of streamed text: too short to be seen, long enough to save most of the work."""

ACTIVITY_INTERVAL = 0.1
"""Seconds between two activity notifications of one agent."""


class Feed:
    """Send the events of ``session`` to ``client``: those from its creation on, or those numbered above ``after``.
    Sending begins with :meth:`start`. ``on_event`` gets each event that is more than a piece of text."""

    def __init__(
        self,
        protocol: RpcProtocol,
        client: Client,
        tokens: ProgressTokens,
        session: Session,
        on_event: Callable[[Session, Event], None],
        *,
        after: int | None = None,
    ) -> None:
        self.session = session
        self._on_event = on_event
        self._protocol = protocol
        self._client = client
        self._advanced = Signal()
        self._progress = RunProgress(protocol, client, tokens, session, self._advanced.notify)
        self._subscription = session.log.subscribe(after)
        self._started = False
        self._deltas = Throttle(DELTA_INTERVAL, self._send, _merged)
        self._activities: dict[str, Throttle[Event]] = {}
        self._sending = False
        self._closed = False

    def start(self, tasks: TaskGroup) -> None:
        """Start sending. Later calls change nothing."""
        if not self._started:
            self._started = True
            tasks.start_soon(self._run, tasks)

    def close(self) -> None:
        """End the feed, not the session."""
        self._closed = True
        self._advanced.notify()
        self._subscription.close()
        self._deltas.close()
        for throttle in self._activities.values():
            throttle.close()

    def take_over(self, earlier: "Feed") -> None:
        """Continue the progress that ``earlier`` began, and end that of agents that have ended meanwhile."""
        self._progress.take_over(earlier._progress)

    def expect(self, turn: Turn, token: Token | None) -> None:
        """Set the progress token that the client gave for ``turn``, if it gave one."""
        self._progress.expect(turn, token)

    async def flush(self) -> None:
        """Return when the client has been sent everything that the session has published, or the feed is closed. A
        client that does not read delays this: later messages could not reach it either."""
        while not self._closed and (self._sending or not self._subscription.idle or self._progress.creating):
            await self._advanced.wait()
        self._deltas.flush()

    async def _run(self, tasks: TaskGroup) -> None:
        async for event in self._subscription:
            self._sending = True
            await self._protocol.out.wait_uncongested()
            try:
                self._take(event, tasks, await _to_wire(event) if self._client.events else None)
            except Exception:
                log.exception("event %s of session %s was not sent", event.seq, self.session.id)
            self._sending = False
            self._advanced.notify()

    def _take(self, event: Event, tasks: TaskGroup, params: object) -> None:
        match event.body:
            case MessageDelta(of) | ThoughtDelta(of) | ToolOutputDelta(of):
                self._deltas.add((type(event.body), of), event)
            case Activity() if event.agent_id is not None:
                self._activity_throttle(event.agent_id).add(None, event)
            case _:
                self._deltas.flush()
                self._close_activity(event)
                self._notify(params)
                self._progress.update(event, tasks)
                self._on_event(self.session, event)

    def _close_activity(self, event: Event) -> None:
        """Drop a pending activity when the run ends: it must not follow the end."""
        if isinstance(event.body, AgentFinished | TurnFinished):
            throttle = self._activities.pop(event.agent_id or "", None)
            if throttle is not None:
                throttle.close()

    def _activity_throttle(self, agent_id: str) -> Throttle[Event]:
        if (throttle := self._activities.get(agent_id)) is None:
            throttle = self._activities[agent_id] = Throttle(ACTIVITY_INTERVAL, self._send_activity, _latest)
        return throttle

    def _send_activity(self, event: Event) -> None:
        self._send(event)
        if isinstance(event.body, Activity):
            self._progress.report(event.agent_id or "", event.body)

    def _send(self, event: Event) -> None:
        self._notify(event_to_wire(event))

    def _notify(self, params: object) -> None:
        if self._client.events:
            self._protocol.notify(EVENT.name, params)


async def _to_wire(event: Event) -> object:
    """The parameters of an event; those of a long one encoded, because everything else would wait for that."""
    params = event_to_wire(event)
    if text_length(params) <= PART:
        return params
    try:
        return Encoded(await anyio.to_thread.run_sync(lambda: b"".join(json_parts(params))))
    except ValueError:  # it contains half a surrogate pair
        return params


def _merged(earlier: Event, later: Event) -> Event:
    """Two pieces of one text as one."""
    match earlier.body, later.body:
        case (MessageDelta() | ThoughtDelta()) as first, (MessageDelta(text=more) | ThoughtDelta(text=more)):
            return replace(later, body=replace(first, text=first.text + more))
        case ToolOutputDelta(of, text), ToolOutputDelta(text=more):
            return replace(later, body=ToolOutputDelta(of, text + more))
        case _:
            return later


def _latest(_earlier: Event, later: Event) -> Event:
    return later
