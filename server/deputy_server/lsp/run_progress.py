"""Work-done progress of the turns and sub-agents of one session."""

from collections.abc import Callable

from anyio.abc import TaskGroup

from deputy_agents.domain.event import (
    Activity,
    AgentFinished,
    AgentInfo,
    AgentStarted,
    Event,
    InputRequested,
    InputResolved,
    PermissionRequested,
    PermissionResolved,
    StatusChanged,
    TurnFinished,
    TurnStarted,
)
from deputy_agents.domain.outcome import AgentStatus
from deputy_agents.domain.turn import Turn
from deputy_agents.session.session import Session
from deputy_agents.session.title import title_of
from deputy_protocol.progress import child_token, turn_token
from deputy_server.lsp.client import Client
from deputy_server.lsp.progress import Progress, ProgressTokens, Token
from deputy_server.lsp.protocol import RpcProtocol
from deputy_server.prompting import cancel_turn


class RunProgress:
    """One progress for each running turn and sub-agent. ``on_created`` is called when the client has accepted or
    rejected a token."""

    def __init__(
        self,
        protocol: RpcProtocol,
        client: Client,
        tokens: ProgressTokens,
        session: Session,
        on_created: Callable[[], None],
    ) -> None:
        self.creating = 0
        """Tokens that the client has not accepted or rejected yet."""
        self._protocol = protocol
        self._client = client
        self._tokens = tokens
        self._session = session
        self._on_created = on_created
        self._turns: dict[str, tuple[Turn, Token | None]] = {}
        self._by_agent: dict[str, Progress] = {}

    def expect(self, turn: Turn, token: Token | None) -> None:
        """Set the progress token that the client gave for ``turn``, if it gave one."""
        self._turns[turn.turn_id] = turn, token

    def take_over(self, earlier: "RunProgress") -> None:
        """Continue what ``earlier`` began, and end the progress of agents that have ended meanwhile."""
        self._turns.update(earlier._turns)
        self._by_agent.update(earlier._by_agent)
        for agent_id in list(self._by_agent):
            node = self._session.view.agents.get(agent_id)
            if node is None or node.status.ended or node.status is AgentStatus.IDLE:
                self._end(agent_id, str(node.status) if node else "ended")

    def report(self, agent_id: str, activity: Activity) -> None:
        """Show what an agent is doing."""
        if (progress := self._by_agent.get(agent_id)) is not None:
            calls = activity.tool_call_count
            progress.report(f"{activity.text} ({calls} tool call{'' if calls == 1 else 's'})")

    def update(self, event: Event, tasks: TaskGroup) -> None:
        """Begin, update or end the progress that ``event`` is about."""
        agent_id = event.agent_id or ""
        match event.body:
            case AgentStarted(info=info, status=AgentStatus.RUNNING) if info.parent_id is not None:
                self._begin_child(info, event.run or 1, tasks)
            case StatusChanged(status=AgentStatus.RUNNING) if agent_id not in self._by_agent:
                info = self._info(agent_id)
                if info is not None and info.parent_id is not None:
                    self._begin_child(info, event.run or 1, tasks)
            case PermissionRequested(request=request) | InputRequested(request=request) if agent_id in self._by_agent:
                self._by_agent[agent_id].wait_for_user(request.request_id)
            case PermissionResolved(request_id=request_id) | InputResolved(request_id=request_id) if (
                agent_id in self._by_agent
            ):
                self._by_agent[agent_id].resolved(request_id)
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
            tasks.start_soon(self._session.cancel_agent, info.agent_id)

        self._begin(f"{info.definition}: {info.label}", info.agent_id, child_token(info.agent_id, run), cancel, tasks)

    def _begin_turn(self, agent_id: str, turn_id: str, tasks: TaskGroup) -> None:
        turn, token = self._turns.get(turn_id, (None, None))

        def cancel() -> None:
            if turn is None:
                tasks.start_soon(self._session.turns.cancel)
            else:
                tasks.start_soon(cancel_turn, self._session, turn)

        title = f"Deputy: {title_of(turn.text if turn else '') or self._session.record.title or 'new session'}"
        if token is None:
            self._begin(title, agent_id, turn_token(agent_id, turn_id), cancel, tasks)
        else:
            self._by_agent[agent_id] = Progress(self._protocol, self._tokens, token, title, cancel)
            self._by_agent[agent_id].begin()

    def _begin(self, title: str, agent_id: str, token: Token, cancel: Callable[[], None], tasks: TaskGroup) -> None:
        if self._client.work_done_progress:
            progress = Progress(self._protocol, self._tokens, token, title, cancel)
            self._by_agent[agent_id] = progress
            self.creating += 1
            tasks.start_soon(self._create, progress)

    async def _create(self, progress: Progress) -> None:
        try:
            await progress.create()
        finally:
            self.creating -= 1
            self._on_created()

    def _end(self, agent_id: str, outcome: str) -> None:
        if (progress := self._by_agent.pop(agent_id, None)) is not None:
            progress.end(outcome)

    def _info(self, agent_id: str) -> AgentInfo | None:
        node = self._session.view.agents.get(agent_id)
        return node.info if node else None
