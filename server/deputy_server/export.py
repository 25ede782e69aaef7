"""A session as a file for users (Markdown) or programs (JSON, in the types of the wire)."""

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
from deputy_server.transcript import code, fenced, inline_text, link

_SPEAKERS = {"user": "You", "assistant": "Deputy"}
_MAX_OUTPUT = 4000
"""Characters of a tool result in Markdown; JSON has all that is stored."""


def export_text(reading: Reading, format: ExportFormat) -> str:
    """The session with the transcripts of all agents."""
    return "".join(_json(reading) if format is ExportFormat.JSON else _markdown(reading))


def _json(reading: Reading) -> Iterator[str]:
    nodes = reading.agents()
    document = {
        "session": to_wire(session_to_wire(replace(reading.record, agent_count=len(nodes)))),
        "agents": [to_wire(agent_node_to_wire(node)) for node in nodes],
        "transcripts": {
            node.info.agent_id: [to_wire(entry_to_wire(entry)) for entry in reading.transcript(node.info.agent_id)[0]]
            for node in nodes
        },
    }
    yield json.dumps(document, ensure_ascii=False, indent=2) + "\n"


def _markdown(reading: Reading) -> Iterator[str]:
    record = reading.record
    yield f"# {inline_text(record.title) or 'Session'}\n\n"
    yield f"- Folder: {code(visible(record.cwd))}\n- Model: {visible(record.model)}\n"
    yield f"- Started: {_date(record.created_at)}\n"
    nodes = reading.agents()
    for node in nodes:
        if node.info.parent_id is not None:
            yield _heading(node)
        for entry in reading.transcript(node.info.agent_id)[0]:
            yield f"\n{_entry(entry, node)}\n"


def _heading(node: AgentNode) -> str:
    calls = f"{node.tool_call_count} tool call{'' if node.tool_call_count == 1 else 's'}"
    reason = f": {inline_text(node.error)}" if node.error else ""
    return (
        f'\n<a id="{node.info.agent_id}"></a>\n## {inline_text(node.info.label)}\n\n'
        f"{visible(node.info.definition)}, {node.status.value}{reason} · {calls}\n"
    )


def _entry(entry: Entry, node: AgentNode) -> str:
    match entry.body:
        case MessageAdded(role=role, text=text) as body:
            speaker = _SPEAKERS[role] if node.info.parent_id is None else {"user": "Task", "assistant": "Answer"}[role]
            return f"**{speaker}**\n\n{text or f'[images: {body.pictures}]'}"
        case ToolCall(started, update):
            status = (update.status if update else started.status).value
            output = (update.content or "") if update else ""
            if (more := len(output) - _MAX_OUTPUT) > 0:
                output = f"{output[:_MAX_OUTPUT]}\n[truncated: {more} more characters]"
            block = f"\n\n{fenced(output)}" if output else ""
            return f"{code(visible(started.title))}: {status}{block}"
        case ChildBlock(child):
            info = child.info
            return f"→ {link(info.label, f'#{info.agent_id}')} ({visible(info.definition)}, {child.status.value})"


def _date(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")
