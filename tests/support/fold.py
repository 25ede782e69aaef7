"""Comparable content of a view."""

from collections.abc import Iterable
from dataclasses import replace

from deputy_agents.domain.event import Event
from deputy_agents.events.view import ChildBlock, Entry, View


def folded(events: Iterable[Event], onto: View | None = None) -> View:
    view = onto or View()
    for event in events:
        view.apply(event)
    return view


def shown(view: View) -> object:
    """The content that follows from durable events, without activities."""
    return (
        view.last_seq,
        [replace(node, activity=None) for node in view.tree()],
        view.permission_requests,
        view.plans,
        {agent_id: list(map(_without_activity, view.transcript(agent_id))) for agent_id in view.agents},
    )


def _without_activity(entry: Entry) -> Entry:
    match entry.body:
        case ChildBlock(node):
            return replace(entry, body=ChildBlock(replace(node, activity=None)))
        case _:
            return entry
