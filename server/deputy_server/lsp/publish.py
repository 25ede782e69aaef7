"""What one client is told of one session: its events as notifications, and progress of what runs.

A feed is a cursor over the session's log. It reads on only while the client does: a client that falls behind is
caught up later by the core, which merges what is lossy meanwhile, so nothing piles up here.
"""

import logging
from collections.abc import Callable
from dataclasses import replace

import anyio
from anyio.abc import TaskGroup

from deputy_agents.domain.event import (
    Activity,
    AgentFinished,
    AgentInfo,
    AgentStarted,
    Event,
    MessageDelta,
    PermissionRequested,
    PermissionResolved,
    StatusChanged,
    ThoughtDelta,
    ToolOutputDelta,
    TurnFinished,
    TurnStarted,
)
from deputy_agents.domain.outcome import AgentStatus
from deputy_agents.domain.turn import Turn
from deputy_agents.session.session import Session
from deputy_agents.session.title import title_of
from deputy_protocol.methods import EVENT
from deputy_protocol.progress import child_token, turn_token
from deputy_server.convert.event import event_to_wire
from deputy_server.lsp.client import Client
from deputy_server.lsp.pace import Pace
from deputy_server.lsp.progress import Progress, ProgressTokens, Token
from deputy_server.lsp.protocol import RpcProtocol
from deputy_server.prompting import cancel_turn

log = logging.getLogger(__name__)

DELTA_INTERVAL = 0.008
"""Seconds between two sendings of streamed text: too short to be seen, long enough to save most of the work."""

ACTIVITY_INTERVAL = 0.1
"""Seconds between two activities of one agent."""


class Feed:
    """Tells ``client`` what happens in ``session``. It knows the events from its making on, or those after ``after``,
    and tells them from :meth:`start` on. ``heard`` is called with each event that is more than a piece of text."""

    def __init__(
        self,
        protocol: RpcProtocol,
        client: Client,
        tokens: ProgressTokens,
        session: Session,
        heard: Callable[[Session, Event], None] = lambda _session, _event: None,
        *,
        after: int | None = None,
    ) -> None:
        self.session = session
        self._heard = heard
        self._protocol = protocol
        self._client = client
        self._tokens = tokens
        self._subscription = session.subscribe(after)
        self._tasks: TaskGroup | None = None
        self._deltas = Pace(DELTA_INTERVAL, self._tell, _joined)
        self._activities: dict[str, Pace[Event]] = {}
        self._turns: dict[str, tuple[Turn, Token | None]] = {}
        self._progress: dict[str, Progress] = {}
        self._creating = 0
        self._in_hand = False
        self._closed = False
        self._moved = anyio.Event()

    def start(self, tasks: TaskGroup) -> None:
        """Begins to tell; later calls change nothing."""
        if self._tasks is None:
            self._tasks = tasks
            tasks.start_soon(self._run, tasks)

    def close(self) -> None:
        """Ends the feed; the session goes on."""
        self._closed = True
        self._stir()
        self._subscription.close()
        self._deltas.close()
        for pace in self._activities.values():
            pace.close()

    def take_over(self, earlier: "Feed") -> None:
        """Goes on with the progress that ``earlier`` began, and ends that of agents which have ended meanwhile."""
        self._turns.update(earlier._turns)
        self._progress.update(earlier._progress)
        for agent_id in list(self._progress):
            node = self.session.view.agents.get(agent_id)
            if node is None or node.status.ended or node.status is AgentStatus.IDLE:
                self._end(agent_id, str(node.status) if node else "ended")

    def expect(self, turn: Turn, token: Token | None) -> None:
        """Names the progress token that the client gave for ``turn``, if it did."""
        self._turns[turn.turn_id] = turn, token

    async def flush(self) -> None:
        """Returns when the client has been sent everything that the session has published, or the feed is closed. A
        client that does not read holds this up: whatever is to follow could not reach it either."""
        while not self._closed and (self._in_hand or not self._subscription.idle or self._creating):
            await self._moved.wait()
        self._deltas.flush()

    def _stir(self) -> None:
        """Wakes all who wait in :meth:`flush`."""
        self._moved.set()
        self._moved = anyio.Event()

    async def _run(self, tasks: TaskGroup) -> None:
        async for event in self._subscription:
            self._in_hand = True
            await self._protocol.out.at_ease()
            try:
                self._take(event, tasks)
            except Exception:
                log.exception("event %s of session %s could not be told", event.seq, self.session.id)
            self._in_hand = False
            self._stir()

    def _take(self, event: Event, tasks: TaskGroup) -> None:
        match event.body:
            case MessageDelta(of) | ThoughtDelta(of) | ToolOutputDelta(of):
                self._deltas.add((type(event.body), of), event)
            case Activity() if event.agent_id is not None:
                self._pace_of(event.agent_id).add(None, event)
            case _:
                self._deltas.flush()
                self._before(event)
                self._tell(event)
                self._show_progress(event, tasks)
                self._heard(self.session, event)

    def _before(self, event: Event) -> None:
        """No activity of a run may follow its end."""
        if isinstance(event.body, AgentFinished | TurnFinished):
            pace = self._activities.pop(event.agent_id or "", None)
            if pace is not None:
                pace.close()

    def _pace_of(self, agent_id: str) -> Pace[Event]:
        if (pace := self._activities.get(agent_id)) is None:
            pace = self._activities[agent_id] = Pace(ACTIVITY_INTERVAL, self._tell_activity, _later)
        return pace

    def _tell_activity(self, event: Event) -> None:
        self._tell(event)
        if isinstance(event.body, Activity) and (progress := self._progress.get(event.agent_id or "")):
            calls = event.body.tool_call_count
            progress.report(f"{event.body.text} ({calls} tool call{'' if calls == 1 else 's'})")

    def _tell(self, event: Event) -> None:
        if self._client.events:
            self._protocol.notify(EVENT.name, event_to_wire(event))

    # -- progress --------------------------------------------------------------------------------------------------

    def _show_progress(self, event: Event, tasks: TaskGroup) -> None:
        agent_id = event.agent_id or ""
        match event.body:
            case AgentStarted(info=info, status=AgentStatus.RUNNING) if info.parent_id is not None:
                self._begin_child(info, event.run or 1, tasks)
            case StatusChanged(status=AgentStatus.RUNNING) if agent_id not in self._progress:
                info = self._info(agent_id)
                if info is not None and info.parent_id is not None:
                    self._begin_child(info, event.run or 1, tasks)
            case PermissionRequested(request=request) if agent_id in self._progress:
                self._progress[agent_id].wait(request.request_id)
            case PermissionResolved(request_id=request_id) if agent_id in self._progress:
                self._progress[agent_id].settled(request_id)
            case AgentFinished(status=status, failure_reason=reason):
                self._end(agent_id, f"{status}: {reason}" if reason else str(status))
            case TurnStarted(turn_id=turn_id):
                self._begin_turn(agent_id, turn_id, tasks)
            case TurnFinished(turn_id=turn_id, stop_reason=stop_reason):
                self._turns.pop(turn_id, None)
                self._end(agent_id, stop_reason)
            case _:
                pass

    def _begin_child(self, info: AgentInfo, run: int, tasks: TaskGroup) -> None:
        def cancel() -> None:
            tasks.start_soon(self.session.cancel_agent, info.agent_id)

        self._begin(f"{info.definition}: {info.label}", info.agent_id, child_token(info.agent_id, run), cancel, tasks)

    def _begin_turn(self, agent_id: str, turn_id: str, tasks: TaskGroup) -> None:
        turn, token = self._turns.get(turn_id, (None, None))

        def cancel() -> None:
            if turn is None:
                tasks.start_soon(self.session.cancel_turn)
            else:
                tasks.start_soon(cancel_turn, self.session, turn)

        title = f"Deputy: {title_of(turn.text if turn else '') or self.session.record.title or 'new session'}"
        if token is None:
            self._begin(title, agent_id, turn_token(agent_id, turn_id), cancel, tasks)
        else:
            self._progress[agent_id] = Progress(self._protocol, self._tokens, token, title, cancel)
            self._progress[agent_id].begin()

    def _begin(self, title: str, agent_id: str, token: Token, cancel: Callable[[], None], tasks: TaskGroup) -> None:
        if self._client.work_done_progress:
            progress = Progress(self._protocol, self._tokens, token, title, cancel)
            self._progress[agent_id] = progress
            self._creating += 1
            tasks.start_soon(self._create, progress)

    async def _create(self, progress: Progress) -> None:
        try:
            await progress.create()
        finally:
            self._creating -= 1
            self._stir()

    def _end(self, agent_id: str, outcome: str) -> None:
        if (progress := self._progress.pop(agent_id, None)) is not None:
            progress.end(outcome)

    def _info(self, agent_id: str) -> AgentInfo | None:
        node = self.session.view.agents.get(agent_id)
        return node.info if node else None


def _joined(earlier: Event, later: Event) -> Event:
    """Two pieces of one text as one."""
    match earlier.body, later.body:
        case (MessageDelta() | ThoughtDelta()) as first, (MessageDelta(text=more) | ThoughtDelta(text=more)):
            return replace(later, body=replace(first, text=first.text + more))
        case ToolOutputDelta(of, text), ToolOutputDelta(text=more):
            return replace(later, body=ToolOutputDelta(of, text + more))
        case _:
            return later


def _later(_earlier: Event, later: Event) -> Event:
    return later
