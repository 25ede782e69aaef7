"""Events as readable lines: ``label: what happened``, with ids of agents as ``<label>``."""

import re
from collections.abc import Iterable, Iterator, Mapping

from deputy_agents.domain.event import (
    Activity,
    AgentFinished,
    AgentStarted,
    Event,
    MessageAdded,
    PermissionRequested,
    PermissionResolved,
    PlanChanged,
    SessionStatus,
    StatusChanged,
    ToolCallStarted,
    ToolCallUpdated,
    TurnFinished,
    TurnStarted,
    UsageChanged,
)
from deputy_agents.domain.message import Message, Text, ToolResult, ToolUse


def lines_of(events: Iterable[Event]) -> Iterator[str]:
    """One line per event, for most types of events; line breaks in texts become ``\\n``."""
    labels: dict[str, str] = {}
    titles: dict[str, str] = {}
    for event in events:
        if isinstance(event.body, AgentStarted):
            labels[event.body.info.agent_id] = event.body.info.label
        if isinstance(event.body, ToolCallStarted):
            titles[event.body.tool_call_id] = event.body.tool
        if description := _description(event, titles, labels):
            label = labels.get(event.agent_id or "", "")
            run = f" (run {event.run})" if event.run and event.run > 1 else ""
            yield named(f"{label}{run}: {description}" if label else description, labels)


def named(text: str, labels: Mapping[str, str]) -> str:
    """``text`` on one line, with labels of agents instead of ids."""
    for agent_id, label in labels.items():
        text = text.replace(agent_id, f"<{label}>")
    return text.replace("\n", "\\n")


def matches(pattern: str, line: str) -> bool:
    """Whether ``line`` matches ``pattern``, in which ``*`` is any text."""
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), line) is not None


def message_lines(messages: Iterable[Message]) -> Iterator[str]:
    """The messages of a request, one line per block."""
    for message in messages:
        for block in message.content:
            match block:
                case Text(text):
                    yield f"{message.role}: {text}"
                case ToolUse(name=name):
                    yield f"calls {name}"
                case ToolResult(content=content, is_error=is_error):
                    yield f"{'error' if is_error else 'result'}: {content}"
                case _:
                    pass


def _description(event: Event, titles: Mapping[str, str], labels: Mapping[str, str]) -> str:
    match event.body:
        case AgentStarted(info, status, place):
            below = f" below {labels[info.parent_id]}" if info.parent_id else ""
            access = info.access.value.replace("_", " ")
            return f"started {status}{_at(place)}, a {info.definition} on {info.model}, {access}{below}"
        case StatusChanged(status, place, detail):
            return f"is {status}{_at(place)}" + (f" ({detail})" if detail else "")
        case MessageAdded(role=role, text=text, references=places):
            shown = [f"{place.path.rpartition('/')[2]}:{place.start}-{place.end}" for place in places]
            return f"{role} says {text}" + (f" [{', '.join(shown)}]" if shown else "")
        case ToolCallStarted(title=title):
            return f"calls {title}"
        case ToolCallUpdated(call_id, status, content):
            return f"{titles[call_id]} {status}" + (f": {content}" if content is not None else "")
        case PermissionRequested(request):
            return f"asks {request.title}"
        case PermissionResolved(by=by, option_id=option):
            return f"answer by {by}" + (f": {option}" if option else "")
        case PlanChanged(entries):
            return "plans " + ", ".join(f"{entry.content} ({entry.status})" for entry in entries)
        case UsageChanged(usage):
            return f"used {usage.input_tokens} in, {usage.output_tokens} out"
        case AgentFinished() as end:
            return _ending(end)
        case TurnStarted(origin=origin):
            return f"turn by {origin}"
        case TurnFinished(stop_reason=reason):
            return f"turn over, {reason}"
        case Activity(text):
            return f"does {text}"
        case SessionStatus() as counts:
            return (
                f"{counts.primary} primary, {counts.pending} pending, {counts.running} running, "
                f"{counts.awaiting_permission} asking, {counts.finished} finished"
            )
        case _:
            return ""


def _ending(end: AgentFinished) -> str:
    how = f"{end.status} ({end.failure_reason})" if end.failure_reason else str(end.status)
    error = f", {end.error}" if end.error else ""
    cut = ", cut" if end.truncated else ""
    counts = f"{end.tool_call_count} calls, {end.iterations} replies"
    return f"ended {how}{error}, {counts}{cut}: {end.result}"


def _at(place: int | None) -> str:
    return f" at place {place}" if place is not None else ""
