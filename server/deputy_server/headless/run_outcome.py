"""How a run ended, told by its events."""

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
from deputy_agents.session.mcp_servers import TOOL
from deputy_server.headless.options import Exit

_REFUSING = (ResolvedBy.DISMISSED, ResolvedBy.UNREACHABLE)
_ENDS = {"end_turn": Exit.DONE, "cancelled": Exit.CANCELLED}


class RunOutcome:
    """A fold of a session's events from the start of the run."""

    def __init__(self, primary_id: str) -> None:
        self.answer = ""
        """The last thing that the primary said in this run."""
        self.error: TurnError | None = None
        self.refused: list[str] = []
        """Titles of the calls that were asked about and not permitted."""
        self.unasked = False
        """Some of these because nobody could be asked."""
        self.unstarted: list[str] = []
        """Names of MCP servers that nobody could be asked about: no agent has asked for them."""
        self._primary_id = primary_id
        self._stop_reason: str | None = None
        self._turns = 0
        self._below = 0
        self._asked: dict[str, tuple[str, str, frozenset[str]]] = {}

    @property
    def quiet(self) -> bool:
        """A turn has ended, none runs, and no child does."""
        return self._stop_reason is not None and self._turns == 0 and self._below == 0

    @property
    def code(self) -> Exit:
        code = _ENDS.get(self._stop_reason or "", Exit.FAILED)
        return Exit.DENIED if code is Exit.DONE and self.refused else code

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
                self._asked[request.request_id] = request.title, server, rejecting
            case PermissionResolved(request_id, by, option_id):
                title, server, rejecting = self._asked.pop(request_id, ("", "", frozenset[str]()))
                if server:
                    self.unstarted += [server] if by in _REFUSING else []
                elif by in _REFUSING or option_id in rejecting:
                    self.refused.append(title)
                    self.unasked |= by is ResolvedBy.UNREACHABLE
            case _:
                pass
