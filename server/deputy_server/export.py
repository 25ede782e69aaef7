"""A session as a file for users (Markdown) or programs (JSON, in the types of the wire)."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from anyio import to_thread

from deputy_agents.domain.event import MessageAdded, ThoughtAdded
from deputy_agents.events.view import AgentNode, ChildBlock, Entry, ToolCall
from deputy_agents.ports.store import SessionRecord
from deputy_agents.session.snapshot import Reading
from deputy_agents.text import visible
from deputy_protocol.base import to_wire
from deputy_protocol.session import ExportFormat
from deputy_server.convert.agent import agent_node_to_wire
from deputy_server.convert.session import session_to_wire
from deputy_server.convert.transcript import entry_to_wire
from deputy_server.edit_diff import edit_diff
from deputy_server.transcript import code, fenced, folded_thought, inline_text, link

_SPEAKERS = {"user": "You", "assistant": "Deputy"}
_MAX_OUTPUT = 4000
"""Characters of a tool result in Markdown; JSON has all that is stored."""


async def export_text(reading: Reading, format: ExportFormat) -> str:
    """The session with the transcripts of all agents.

    Raises:
        StoreError: the store cannot be read.
    """
    record, nodes = reading.record, reading.agents()
    transcripts = {node.info.agent_id: (await reading.transcript(node.info.agent_id)).entries for node in nodes}
    export = _json if format is ExportFormat.JSON else _markdown
    return await to_thread.run_sync(lambda: "".join(export(record, nodes, transcripts)))


def _json(
    record: SessionRecord, nodes: Sequence[AgentNode], transcripts: Mapping[str, Sequence[Entry]]
) -> Iterator[str]:
    document = {
        "session": to_wire(session_to_wire(replace(record, agent_count=len(nodes)))),
        "agents": [to_wire(agent_node_to_wire(node)) for node in nodes],
        "transcripts": {
            agent_id: [to_wire(entry_to_wire(entry)) for entry in entries] for agent_id, entries in transcripts.items()
        },
    }
    yield json.dumps(document, ensure_ascii=False, indent=2) + "\n"


def _markdown(
    record: SessionRecord, nodes: Sequence[AgentNode], transcripts: Mapping[str, Sequence[Entry]]
) -> Iterator[str]:
    yield f"# {inline_text(record.title) or 'Session'}\n\n"
    yield f"- Folder: {code(visible(record.cwd))}\n- Model: {visible(record.model)}\n"
    yield f"- Started: {_date(record.created_at)}\n"
    for node in nodes:
        if node.info.parent_id is not None:
            yield _heading(node)
        for entry in transcripts[node.info.agent_id]:
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
        case ThoughtAdded(text=text):
            return folded_thought(text)
        case ToolCall(started, update):
            status = (update.status if update else started.status).value
            output = (update.content or "") if update else ""
            if (more := len(output) - _MAX_OUTPUT) > 0:
                output = f"{output[:_MAX_OUTPUT]}\n[truncated: {more} more characters]"
            block = f"\n\n{fenced(output)}" if output else ""
            diff = edit_diff(entry.body)
            block += f"\n\n{fenced(diff, 'diff')}" if diff else ""
            return f"{code(visible(started.title))}: {status}{block}"
        case ChildBlock(child):
            info = child.info
            return f"→ {link(info.label, f'#{info.agent_id}')} ({visible(info.definition)}, {child.status.value})"


def _date(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")
