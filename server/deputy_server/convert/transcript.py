"""Transcript entries."""

from collections.abc import Sequence

from anyio import to_thread

from deputy_agents.domain import event as ev
from deputy_agents.events import view
from deputy_protocol import message, tool, transcript
from deputy_protocol.base import rfc3339
from deputy_server.convert.agent import agent_node_to_wire
from deputy_server.convert.diff import diff_to_wire
from deputy_server.convert.place import location_to_wire, reference_to_wire

LARGE = 300
"""Entries that are converted on the event loop, at most."""


async def entries_to_wire(entries: Sequence[view.Entry]) -> tuple[transcript.Entry, ...]:
    """The entries in order. Many are converted in a thread."""
    if len(entries) <= LARGE:
        return tuple(map(entry_to_wire, entries))
    return await to_thread.run_sync(lambda: tuple(map(entry_to_wire, entries)))


def entry_to_wire(entry: view.Entry) -> transcript.Entry:
    match entry.body:
        case ev.MessageAdded(message_id, role, text, references, pictures):
            return transcript.MessageEntry(
                seq=entry.seq,
                agent_id=entry.agent_id,
                run=entry.run,
                time=rfc3339(entry.time),
                message_id=message_id,
                role=message.Role(role),
                text=text,
                references=tuple(map(reference_to_wire, references)) or None,
                pictures=pictures or None,
            )
        case ev.ThoughtAdded(message_id, text):
            return transcript.ThoughtEntry(
                seq=entry.seq,
                agent_id=entry.agent_id,
                run=entry.run,
                time=rfc3339(entry.time),
                message_id=message_id,
                text=text,
            )
        case view.ToolCall(started, update):
            places = started.locations if update is None or update.locations is None else update.locations
            return transcript.ToolCallEntry(
                seq=entry.seq,
                agent_id=entry.agent_id,
                run=entry.run,
                time=rfc3339(entry.time),
                tool_call_id=started.tool_call_id,
                tool=started.tool,
                title=started.title,
                kind=tool.ToolKind(started.kind),
                status=tool.ToolStatus(update.status if update else started.status),
                input=started.input,
                locations=tuple(map(location_to_wire, places)),
                reason=started.reason,
                content=update.content if update else None,
                truncated=(update is not None and update.truncated) or None,
                diff=None if update is None or update.diff is None else diff_to_wire(update.diff),
            )
        case view.ChildBlock(node):
            return transcript.AgentEntry(
                seq=entry.seq,
                agent_id=entry.agent_id,
                run=entry.run,
                time=rfc3339(entry.time),
                agent=agent_node_to_wire(node),
                tool_call_id=node.info.tool_call_id,
                result=node.summary,
            )
