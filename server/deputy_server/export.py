"""A session as a file for people (Markdown) or programs (JSON, in the shapes of the wire)."""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

from deputy_agents.domain.event import MessageAdded
from deputy_agents.events.view import AgentNode, ChildBlock, Entry, ToolCall
from deputy_agents.session.snapshot import Reading
from deputy_agents.text import visible
from deputy_protocol.base import to_wire
from deputy_protocol.session import ExportFormat
from deputy_server.convert.agent import agent_node_to_wire
from deputy_server.convert.session import session_to_wire
from deputy_server.convert.transcript import entry_to_wire
from deputy_server.transcript import code, fenced, link, words

_SPEAKERS = {"user": "You", "assistant": "Deputy"}
_CUT = 4000
"""Characters of one tool's output in Markdown; JSON has all that is kept."""


def exported(reading: Reading, kind: ExportFormat) -> str:
    """The whole session, transcripts of all agents included."""
    return "".join(_json(reading) if kind is ExportFormat.JSON else _markdown(reading))


def _json(reading: Reading) -> Iterator[str]:
    nodes = reading.agents()
    told = {
        "session": to_wire(session_to_wire(replace(reading.record, agent_count=len(nodes)))),
        "agents": [to_wire(agent_node_to_wire(node)) for node in nodes],
        "transcripts": {
            node.info.agent_id: [to_wire(entry_to_wire(entry)) for entry in reading.transcript(node.info.agent_id)[0]]
            for node in nodes
        },
    }
    yield json.dumps(told, ensure_ascii=False, indent=2) + "\n"


def _markdown(reading: Reading) -> Iterator[str]:
    record = reading.record
    yield f"# {words(record.title) or 'Session'}\n\n"
    yield f"- Folder: {code(visible(record.cwd))}\n- Model: {visible(record.model)}\n"
    yield f"- Begun: {_date(record.created_at)}\n"
    nodes = reading.agents()
    for node in nodes:
        if node.info.parent_id is not None:
            yield _heading(node)
        for entry in reading.transcript(node.info.agent_id)[0]:
            yield f"\n{_entry(entry, node)}\n"


def _heading(node: AgentNode) -> str:
    calls = f"{node.tool_call_count} tool call{'' if node.tool_call_count == 1 else 's'}"
    why = f": {words(node.error)}" if node.error else ""
    return (
        f'\n<a id="{node.info.agent_id}"></a>\n## {words(node.info.label)}\n\n'
        f"{visible(node.info.definition)}, {node.status.value}{why} · {calls}\n"
    )


def _entry(entry: Entry, node: AgentNode) -> str:
    match entry.body:
        case MessageAdded(role=role, text=text) as body:
            speaker = _SPEAKERS[role] if node.info.parent_id is None else {"user": "Task", "assistant": "Answer"}[role]
            return f"**{speaker}**\n\n{text or f'[pictures: {body.pictures}]'}"
        case ToolCall(started, update):
            status = (update.status if update else started.status).value
            output = (update.content or "") if update else ""
            cut = output if len(output) <= _CUT else f"{output[:_CUT]}\n[cut: {len(output) - _CUT} more characters]"
            block = f"\n\n{fenced(cut)}" if cut else ""
            return f"{code(visible(started.title))}: {status}{block}"
        case ChildBlock(child):
            info = child.info
            return f"→ {link(info.label, f'#{info.agent_id}')} ({visible(info.definition)}, {child.status.value})"


def _date(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")
