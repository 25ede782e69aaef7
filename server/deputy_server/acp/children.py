"""How a client that does not show children as sessions sees them: as content of the calls that have started them."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from deputy_agents.domain.event import (
    AgentFinished,
    AgentInfo,
    AgentStarted,
    CallStatus,
    Event,
    MessageAdded,
    PermissionRequest,
    PermissionRequested,
    StatusChanged,
    ToolCallStarted,
    ToolCallUpdated,
    ToolKind,
    ToolOutputDelta,
)
from deputy_agents.domain.outcome import AgentStatus
from deputy_agents.text import visible
from deputy_server.acp.transcript import Transcript, call_update, content, is_over
from deputy_server.rpc.json import JsonObject

SHOWN_CALLS = 12
"""Calls of a child that its block lists, the latest ones."""

_TELLING = (ToolKind.EDIT, ToolKind.EXECUTE)
"""Calls of a child that are shown as calls of their own, too: they change something."""

_MARKS = {
    AgentStatus.PENDING: "…",
    AgentStatus.RUNNING: "⟳",
    AgentStatus.COMPLETED: "✓",
    AgentStatus.FAILED: "✗",
    AgentStatus.CANCELLED: "⊘",
}

_CALL_MARKS = {CallStatus.COMPLETED: "✓", CallStatus.CANCELLED: "⊘"}


@dataclass(slots=True)
class _Block:
    """One child as its parent's call shows it. ``door`` is the call of the primary that it belongs to."""

    info: AgentInfo
    door: str
    transcript: Transcript
    status: AgentStatus
    calls: dict[str, ToolCallStarted] = field(default_factory=dict[str, ToolCallStarted])
    ended: dict[str, CallStatus] = field(default_factory=dict[str, CallStatus])
    own: set[str] = field(default_factory=set[str])
    """Calls that the client knows as calls."""
    detail: str = ""
    result: str = ""

    def text(self) -> str:
        """The block in Markdown."""
        indent = "  " * (self.info.depth - 1)
        counted = f"{len(self.calls)} call{'' if len(self.calls) == 1 else 's'}"
        state = " · ".join(filter(None, (self.status.value, self.detail, counted)))
        lines = [f"{_MARKS.get(self.status, '')} **{_escaped(self.info.label)}** ({self.info.definition}): {state}"]
        if self.status.ended:
            return "\n\n".join(filter(None, (lines[0], self.result)))
        latest = list(self.calls.items())[-SHOWN_CALLS:]
        lines += [f"- {self._mark(call_id)} {_escaped(self._bare(call.title))}" for call_id, call in latest]
        return "\n".join(f"{indent}{line}" for line in lines)

    def _mark(self, call_id: str) -> str:
        return _CALL_MARKS.get(self.ended[call_id], "✗") if call_id in self.ended else "⟳"

    def _bare(self, title: str) -> str:
        """Without the label, which the block has as its heading."""
        return title.removeprefix(f"[{self.info.label}] ")


class Children:
    """The blocks of all children of a session; ``session_id`` is where they are shown."""

    def __init__(self, session_id: str) -> None:
        self._session_id = session_id
        self._blocks: dict[str, _Block] = {}
        self._doors: dict[str, dict[str, _Block]] = {}

    def begin(self, body: AgentStarted) -> None:
        """A run of a child begins: the first, or one that another call goes on with."""
        info = body.info
        above = self._blocks.get(info.parent_id or "")
        door = above.door if above else info.tool_call_id or ""
        known = self._blocks.get(info.agent_id)
        transcript = known.transcript if known else Transcript(info.agent_id, info.label, f"{info.agent_id}/")
        block = self._blocks[info.agent_id] = _Block(info, door, transcript, body.status)
        self._doors.setdefault(door, {})[info.agent_id] = block

    def of(self, event: Event) -> Iterator[tuple[str, JsonObject]]:
        """What ``event``, one of a child, is to the client."""
        agent_id, body = event.agent_id or "", event.body
        if isinstance(body, AgentStarted):
            self.begin(body)
        if (block := self._blocks.get(agent_id)) is None:
            return
        if self._is_own(block, event):
            for update in block.transcript.of(event):
                yield self._session_id, update
        elif isinstance(body, PermissionRequested):
            yield from self._shown_for(block, body.request.tool_call_id)
        if self._note(block, event):
            yield self._session_id, self._door(block)

    def asked(self, agent_id: str, request: PermissionRequest) -> tuple[str, JsonObject]:
        """The session that a child's question is asked in, and the call that it is about."""
        return self._session_id, self._blocks[agent_id].transcript.asked(request)

    def doors(self, tool_call_id: str) -> list[JsonObject]:
        """The blocks that a call of the primary shows, if any."""
        return [content(block.text()) for block in self._doors.get(tool_call_id, {}).values()]

    def _is_own(self, block: _Block, event: Event) -> bool:
        match event.body:
            case ToolCallStarted(tool_call_id=of, kind=kind):
                if kind in _TELLING:
                    block.own.add(of)
                return of in block.own
            case ToolCallUpdated(tool_call_id=of) | ToolOutputDelta(tool_call_id=of):
                return of in block.own
            case _:
                return False

    def _shown_for(self, block: _Block, tool_call_id: str) -> Iterator[tuple[str, JsonObject]]:
        """A call that the user is asked about is known to the client first."""
        started = block.calls.get(tool_call_id)
        if started is not None and tool_call_id not in block.own:
            block.own.add(tool_call_id)
            yield self._session_id, block.transcript.started(started)

    def _note(self, block: _Block, event: Event) -> bool:
        """Takes the event into the block; whether that looks different now."""
        match event.body:
            case AgentStarted(status=status):
                block.status = status
            case StatusChanged(status=status, detail=detail):
                block.status, block.detail = status, visible(detail or "")
            case ToolCallStarted(tool_call_id=of) as started:
                block.calls[of] = started
            case ToolCallUpdated(tool_call_id=of, status=status):
                if not is_over(status):
                    return False
                block.ended[of] = status
            case MessageAdded(role="assistant", text=text):
                block.result = text
                return False
            case AgentFinished(status=status, result=result, error=error):
                block.status, block.detail = status, visible(error or "")
                block.result = result or block.result
            case _:
                return False
        return True

    def _door(self, block: _Block) -> JsonObject:
        agents = [
            {"agentId": one.info.agent_id, "label": one.info.label, "status": one.status.value}
            for one in self._doors[block.door].values()
        ]
        return call_update(block.door, content=self.doors(block.door), _meta={"deputy": {"agents": agents}})


def _escaped(text: str) -> str:
    """``text`` as Markdown that shows it."""
    return "".join(f"\\{char}" if char in "\\`*_{}[]<>#|" else char for char in visible(text))
