"""How a run ended, computed from its events."""

from collections.abc import Sequence

from deputy_agents.domain.event import (
    CallStatus,
    Event,
    MessageAdded,
    PermissionRequested,
    PermissionResolved,
    ResolvedBy,
    SessionStatus,
    ToolCallStarted,
    ToolCallUpdated,
    ToolKind,
    TurnError,
    TurnFinished,
    TurnStarted,
)
from deputy_agents.session.mcp_server_status import TOOL
from deputy_server.headless.options import Exit

_DENIED_BY = (ResolvedBy.DISMISSED, ResolvedBy.UNREACHABLE)
_EXIT_CODES = {"end_turn": Exit.DONE, "cancelled": Exit.CANCELLED}


class _Edits:
    """The edits of a run. ``failed`` has titles by the path in the call."""

    def __init__(self) -> None:
        self.failed: dict[str, str] = {}
        self._open: dict[str, ToolCallStarted] = {}
        self._running: set[str] = set()

    def start(self, call: ToolCallStarted) -> None:
        self._open[call.tool_call_id] = call
        self.update(call.tool_call_id, call.status)

    def forget(self, call_id: str) -> None:
        self._open.pop(call_id, None)

    def update(self, call_id: str, status: CallStatus) -> None:
        if (call := self._open.get(call_id)) is None:
            return
        if status is CallStatus.IN_PROGRESS:
            self._running.add(call_id)
        elif status is CallStatus.COMPLETED:
            changed = [location.path for location in call.locations]
            self.failed = {path: title for path, title in self.failed.items() if not _is_one_of(path, changed)}
        # A call that never ran and has locations was denied; one without could not be prepared.
        elif status is CallStatus.FAILED and (call_id in self._running or not call.locations):
            self.failed[str(call.input.get("path", call.title))] = call.title


def _is_one_of(path: str, changed: Sequence[str]) -> bool:
    return any(other == path or other.endswith(f"/{path.removeprefix('./')}") for other in changed)


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
        self._edits = _Edits()
        self._primary_id = primary_id
        self._stop_reason: str | None = None
        self._turns = 0
        self._below = 0
        self._requests: dict[str, tuple[str, str, frozenset[str], str]] = {}

    @property
    def quiet(self) -> bool:
        """Whether a turn has ended and no turn or sub-agent runs."""
        return self._stop_reason is not None and self._turns == 0 and self._below == 0

    @property
    def code(self) -> Exit:
        code = _EXIT_CODES.get(self._stop_reason or "", Exit.FAILED)
        if code is not Exit.DONE:
            return code
        return Exit.DENIED if self.denied else Exit.EDIT_FAILED if self.failed_edits else code

    @property
    def failed_edits(self) -> Sequence[str]:
        """The titles of edits that failed, unless a later one of the same file succeeded. Those denied by the
        user, a rule or the mode, are not among them."""
        return tuple(self._edits.failed.values())

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
            case ToolCallStarted(kind=ToolKind.EDIT) as call:
                self._edits.start(call)
            case ToolCallUpdated(tool_call_id, status):
                self._edits.update(tool_call_id, status)
            case SessionStatus() as counts:
                self._below = counts.pending + counts.running
            case MessageAdded(role="assistant", text=text) if event.agent_id == self._primary_id and text.strip():
                self.answer = text
            case PermissionRequested(request):
                rejecting = frozenset(o.option_id for o in request.options if not o.kind.allows)
                server = str(request.input["server"]) if request.tool == TOOL else ""
                self._requests[request.request_id] = request.title, server, rejecting, request.tool_call_id
            case PermissionResolved(request_id, by, option_id):
                title, server, rejecting, call_id = self._requests.pop(request_id, ("", "", frozenset[str](), ""))
                if server:
                    self.unapproved_servers += [server] if by in _DENIED_BY else []
                elif by in _DENIED_BY or option_id in rejecting:
                    self.denied.append(title)
                    self._edits.forget(call_id)
                    self.unattended |= by is ResolvedBy.UNREACHABLE
            case _:
                pass
