"""Comparable content of a view."""

from collections.abc import Iterable
from dataclasses import replace

from deputy_agents.domain.event import Event
from deputy_agents.events.entries import entries_of
from deputy_agents.events.view import ChildBlock, Entry, View


def folded(events: Iterable[Event], onto: View | None = None) -> View:
    view = onto or View()
    for event in events:
        view.apply(event)
    return view


def transcripts(view: View, events: Iterable[Event]) -> dict[str, list[Entry]]:
    """The transcripts of all agents, from all ``events`` of their session."""
    by_number = {event.seq: event for event in events if event.seq is not None}
    pages = {agent_id: view.transcripts.page(agent_id)[0] for agent_id in view.agents}
    return {agent_id: entries_of(refs, by_number, view.agents) for agent_id, refs in pages.items()}


def shown(view: View, events: Iterable[Event]) -> object:
    """The content that follows from durable events, without activities."""
    return (
        view.last_seq,
        [replace(node, activity=None) for node in view.tree()],
        view.permission_requests,
        view.plans,
        {agent_id: list(map(_without_activity, entries)) for agent_id, entries in transcripts(view, events).items()},
    )


def _without_activity(entry: Entry) -> Entry:
    match entry.body:
        case ChildBlock(node):
            return replace(entry, body=ChildBlock(replace(node, activity=None)))
        case _:
            return entry
