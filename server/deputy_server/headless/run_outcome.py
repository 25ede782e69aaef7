"""How a run ended, computed from its events."""

from deputy_agents.domain.event import (
    Event,
    MessageAdded,
    PermissionRequested,
    PermissionResolved,
    ResolvedBy,
    SessionStatus,
    TurnError,
    TurnFinished,
    TurnStarted,
)
from deputy_agents.session.mcp_server_status import TOOL
from deputy_server.headless.options import Exit

_DENIED_BY = (ResolvedBy.DISMISSED, ResolvedBy.UNREACHABLE)
_EXIT_CODES = {"end_turn": Exit.DONE, "cancelled": Exit.CANCELLED}


class RunOutcome:
    """A fold of a session's events from the start of the run."""

    def __init__(self, primary_id: str) -> None:
        self.answer = ""
        """The last message of the primary agent."""
        self.error: TurnError | None = None
        self.denied: list[str] = []
        """The titles of the tool calls that were denied."""
        self.unattended = False
        """Some were denied because there was no client to ask."""
        self.unapproved_servers: list[str] = []
        """The names of MCP servers that were not approved."""
        self._primary_id = primary_id
        self._stop_reason: str | None = None
        self._turns = 0
        self._below = 0
        self._requests: dict[str, tuple[str, str, frozenset[str]]] = {}

    @property
    def quiet(self) -> bool:
        """Whether a turn has ended and no turn or sub-agent runs."""
        return self._stop_reason is not None and self._turns == 0 and self._below == 0

    @property
    def code(self) -> Exit:
        code = _EXIT_CODES.get(self._stop_reason or "", Exit.FAILED)
        return Exit.DENIED if code is Exit.DONE and self.denied else code

    @property
    def reason(self) -> str:
        return self._stop_reason or "error"

    def take(self, event: Event) -> None:
        match event.body:
            case TurnStarted():
                self._turns += 1
            case TurnFinished(stop_reason=reason, error=error):
                self._turns -= 1
                self._stop_reason, self.error = reason, error
            case SessionStatus() as counts:
                self._below = counts.pending + counts.running
            case MessageAdded(role="assistant", text=text) if event.agent_id == self._primary_id and text.strip():
                self.answer = text
            case PermissionRequested(request):
                rejecting = frozenset(o.option_id for o in request.options if not o.kind.allows)
                server = str(request.input["server"]) if request.tool == TOOL else ""
                self._requests[request.request_id] = request.title, server, rejecting
            case PermissionResolved(request_id, by, option_id):
                title, server, rejecting = self._requests.pop(request_id, ("", "", frozenset[str]()))
                if server:
                    self.unapproved_servers += [server] if by in _DENIED_BY else []
                elif by in _DENIED_BY or option_id in rejecting:
                    self.denied.append(title)
                    self.unattended |= by is ResolvedBy.UNREACHABLE
            case _:
                pass
