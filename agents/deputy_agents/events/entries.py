"""Reads entries of transcripts: the view knows which events make them up, and the store has the events."""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from anyio import to_thread

from deputy_agents.domain.errors import StoreError, UnknownAgent
from deputy_agents.domain.event import AgentStarted, Event, MessageAdded, ThoughtAdded, ToolCallStarted, ToolCallUpdated
from deputy_agents.events.transcript_index import EntryRef
from deputy_agents.events.view import AgentNode, ChildBlock, Entry, EntryBody, ToolCall, View

logger = logging.getLogger(__name__)

ReadEvents: TypeAlias = Callable[[Sequence[int]], Awaitable[Mapping[int, Event]]]
"""Reads events by their numbers; what is not there is left out."""

READ_AT_ONCE = 2000
"""Entries that are read from the store in one step."""
_MANY = 200
"""Entries that are put together on the event loop, at most."""


@dataclass(frozen=True, slots=True)
class TranscriptPage:
    """Entries of one agent's transcript, in order. ``last_seq`` is the number of the last event that they include,
    ``earlier`` whether there are entries before them."""

    entries: Sequence[Entry]
    last_seq: int
    earlier: bool = False


async def read_page(
    view: View,
    read: ReadEvents,
    agent_id: str,
    after: int = 0,
    before: int | None = None,
    limit: int | None = None,
) -> TranscriptPage:
    """The entries of an agent numbered above ``after`` and below ``before``: at most ``limit``, the last ones if
    ``before`` is given, else the first. All are as of the call; later events are not included.

    Raises:
        UnknownAgent: the session has no such agent.
        StoreError: the store cannot be read.
    """
    if agent_id not in view.agents:
        raise UnknownAgent(f"This session has no agent {agent_id}.")
    refs, earlier = view.transcripts.page(agent_id, after, before, limit)
    last_seq = view.last_seq
    return TranscriptPage(await read_entries(view, read, refs), last_seq, earlier)


async def read_entries(view: View, read: ReadEvents, refs: Sequence[EntryRef]) -> Sequence[Entry]:
    """The entries of ``refs``, except those whose events cannot be read. Sub-agents are as of the call.

    Raises:
        StoreError: the store cannot be read.
    """
    agents = dict(view.agents)
    found: list[Entry] = []
    for start in range(0, len(refs), READ_AT_ONCE):
        some = refs[start : start + READ_AT_ONCE]
        events = await read(numbers_of(some))
        if len(some) > _MANY:
            found += await to_thread.run_sync(entries_of, some, events, agents)
        else:
            found += entries_of(some, events, agents)
    return found


async def read_message(view: View, read: ReadEvents, seq: int | None) -> MessageAdded | None:
    """The message of an entry; ``None`` if the entry is no message, or cannot be read."""
    try:
        entries = await read_entries(view, read, view.transcripts.refs([] if seq is None else [seq]))
    except StoreError as error:
        logger.warning("a message cannot be read: %s", error)
        return None
    return next((entry.body for entry in entries if isinstance(entry.body, MessageAdded)), None)


def numbers_of(refs: Sequence[EntryRef]) -> list[int]:
    """The numbers of the events that make up the entries."""
    return sorted({number for ref in refs for number in ref if number})


def entries_of(refs: Sequence[EntryRef], events: Mapping[int, Event], agents: Mapping[str, AgentNode]) -> list[Entry]:
    """The entries of ``refs`` whose ``events`` are there, with sub-agents as in ``agents``."""
    found: list[Entry] = []
    for ref in refs:
        event = events.get(ref.seq)
        if event is not None and (body := _body(event, events.get(ref.updated), agents)) is not None:
            found.append(Entry(ref.seq, event.agent_id or "", event.run or 1, event.time, body))
    return found


def _body(event: Event, update: Event | None, agents: Mapping[str, AgentNode]) -> EntryBody | None:
    match event.body:
        case MessageAdded() | ThoughtAdded() as body:
            return body
        case ToolCallStarted() as body:
            changed = update.body if update is not None else None
            return ToolCall(body, changed if isinstance(changed, ToolCallUpdated) else None)
        case AgentStarted(info):
            node = agents.get(info.agent_id)
            return node and ChildBlock(node)
        case _:
            return None
