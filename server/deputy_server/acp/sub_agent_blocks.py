"""Sub-agents for clients that do not show them as sessions: as content of the tool calls that started them."""

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
from deputy_server.acp.agent_updates import AgentUpdates, call_update, content, is_over
from deputy_server.icons import ICONS, RUNNING
from deputy_server.rpc.json import JsonObject

SHOWN_CALLS = 12
"""Tool calls that a block lists, the latest ones."""

_SHOWN_KINDS = (ToolKind.EDIT, ToolKind.EXECUTE)
"""Tool calls of sub-agents that are also shown as calls, because they change something."""


@dataclass(slots=True)
class _Block:
    """A sub-agent as shown in the tool call of the primary agent with the id ``call_id``, which started it or an agent
    above it."""

    info: AgentInfo
    call_id: str
    updates: AgentUpdates
    status: AgentStatus
    calls: dict[str, ToolCallStarted] = field(default_factory=dict[str, ToolCallStarted])
    ended: dict[str, CallStatus] = field(default_factory=dict[str, CallStatus])
    shown: set[str] = field(default_factory=set[str])
    """Ids of the calls that are also shown as calls."""
    detail: str = ""
    result: str = ""

    def text(self) -> str:
        """The block in Markdown."""
        indent = "  " * (self.info.depth - 1)
        counted = f"{len(self.calls)} call{'' if len(self.calls) == 1 else 's'}"
        state = " · ".join(filter(None, (self.status.value, self.detail, counted)))
        lines = [f"{ICONS[self.status.value]} **{_escape(self.info.label)}** ({self.info.definition}): {state}"]
        if self.status.ended:
            return "\n\n".join(filter(None, (lines[0], self.result)))
        latest = list(self.calls.items())[-SHOWN_CALLS:]
        lines += [f"- {self._icon(call_id)} {_escape(self._bare(call.title))}" for call_id, call in latest]
        return "\n".join(f"{indent}{line}" for line in lines)

    def _icon(self, call_id: str) -> str:
        return ICONS[self.ended[call_id].value] if call_id in self.ended else RUNNING

    def _bare(self, title: str) -> str:
        """``title`` without the agent's label, which is in the block's first line."""
        return title.removeprefix(f"[{self.info.label}] ")


class SubAgentBlocks:
    """The blocks of all sub-agents of a session, which are shown in the session ``session_id``."""

    def __init__(self, session_id: str) -> None:
        self._session_id = session_id
        self._blocks: dict[str, _Block] = {}
        self._by_call: dict[str, dict[str, _Block]] = {}

    def begin(self, body: AgentStarted) -> None:
        """Add a run of a sub-agent: the first one, or one that another call resumes."""
        info = body.info
        parent = self._blocks.get(info.parent_id or "")
        call_id = parent.call_id if parent else info.tool_call_id or ""
        known = self._blocks.get(info.agent_id)
        updates = known.updates if known else AgentUpdates(info.agent_id, info.label, f"{info.agent_id}/")
        block = self._blocks[info.agent_id] = _Block(info, call_id, updates, body.status)
        self._by_call.setdefault(call_id, {})[info.agent_id] = block

    def of(self, event: Event) -> Iterator[tuple[str, JsonObject]]:
        """The updates for ``event`` of a sub-agent."""
        agent_id, body = event.agent_id or "", event.body
        if isinstance(body, AgentStarted):
            self.begin(body)
        if (block := self._blocks.get(agent_id)) is None:
            return
        if self._is_shown(block, event):
            for update in block.updates.of(event):
                yield self._session_id, update
        elif isinstance(body, PermissionRequested):
            yield from self._show_call(block, body.request.tool_call_id)
        if self._take(block, event):
            yield self._session_id, self._call_update(block)

    def requested_call(self, agent_id: str, request: PermissionRequest) -> tuple[str, JsonObject]:
        """The session in which a sub-agent's permission request is shown, and its tool call."""
        return self._session_id, self._blocks[agent_id].updates.requested_call(request)

    def content_of_call(self, tool_call_id: str) -> list[JsonObject]:
        """The blocks that a call of the primary agent shows, if any."""
        return [content(block.text()) for block in self._by_call.get(tool_call_id, {}).values()]

    def _is_shown(self, block: _Block, event: Event) -> bool:
        match event.body:
            case ToolCallStarted(tool_call_id=of, kind=kind):
                if kind in _SHOWN_KINDS:
                    block.shown.add(of)
                return of in block.shown
            case ToolCallUpdated(tool_call_id=of) | ToolOutputDelta(tool_call_id=of):
                return of in block.shown
            case _:
                return False

    def _show_call(self, block: _Block, tool_call_id: str) -> Iterator[tuple[str, JsonObject]]:
        """Show a call before the client gets its permission request."""
        started = block.calls.get(tool_call_id)
        if started is not None and tool_call_id not in block.shown:
            block.shown.add(tool_call_id)
            yield self._session_id, block.updates.started(started)

    def _take(self, block: _Block, event: Event) -> bool:
        """Apply ``event`` to the block; whether its text changes."""
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

    def _call_update(self, block: _Block) -> JsonObject:
        agents = [
            {"agentId": one.info.agent_id, "label": one.info.label, "status": one.status.value}
            for one in self._by_call[block.call_id].values()
        ]
        meta = {"deputy": {"agents": agents}}
        return call_update(block.call_id, content=self.content_of_call(block.call_id), _meta=meta)


def _escape(text: str) -> str:
    """``text`` without Markdown markup."""
    return "".join(f"\\{char}" if char in "\\`*_{}[]<>#|" else char for char in visible(text))
