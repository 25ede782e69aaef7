"""Which events make up the transcripts of a session. Their texts stay in the store, so that a session needs little
memory however long it is."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from deputy_agents.domain.event import CallStatus, MessageAdded, ToolCallStarted, ToolCallUpdated, ToolKind

_OPEN = (CallStatus.PENDING, CallStatus.IN_PROGRESS)
_BACKGROUND = "task"
"""The tool that starts background tasks."""


class EntryRef(NamedTuple):
    """An entry of a transcript: the numbers of the event that created it, and of the last one that changed it, or 0."""

    seq: int
    updated: int


@dataclass(slots=True)
class TranscriptIndex:
    """The entries of all agents of a session. All keys are texts or numbers, so that it can be stored as JSON."""

    entries: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    """The numbers of the events that created the entries, in order, by the agent whose transcript they belong to."""
    calls: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])
    """The entries of tool calls, by agent, then by run and call."""
    updates: dict[int, int] = field(default_factory=dict[int, int])
    """The number of the last event that changed an entry."""
    open_calls: dict[int, str] = field(default_factory=dict[int, str])
    """The agents of tool calls that have not ended."""
    tasks: set[int] = field(default_factory=set[int])
    """Tool calls that start background tasks."""
    open_edits: set[int] = field(default_factory=set[int])
    """Edits that are not completed."""
    edited: set[str] = field(default_factory=set[str])
    """Agents with a completed edit."""
    last_messages: dict[str, int] = field(default_factory=dict[str, int])
    """The last message in the transcript of each agent."""
    last_answers: dict[str, int] = field(default_factory=dict[str, int])
    """The last message of each agent's model."""
    hidden: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    """The entries that were gone back over, as in ``entries``."""

    # -- reading -----------------------------------------------------------------------------------------------------

    def page(
        self, agent_id: str, after: int = 0, before: int | None = None, limit: int | None = None
    ) -> tuple[list[EntryRef], bool]:
        """Entries of one agent numbered above ``after`` and below ``before``: at most ``limit``, the last ones if
        ``before`` is given, else the first; and whether there are earlier entries."""
        numbers = self.entries.get(agent_id, [])
        start = bisect_right(numbers, after)
        stop = len(numbers) if before is None else max(start, bisect_left(numbers, before))
        if limit is not None and before is not None:
            start = max(start, stop - limit)
        elif limit is not None:
            stop = min(stop, start + limit)
        return self.refs(numbers[start:stop]), start > 0

    def refs(self, numbers: Sequence[int]) -> list[EntryRef]:
        """The entries that the events with these numbers have created, in their latest state."""
        updates = self.updates
        return [EntryRef(seq, updates.get(seq, 0)) for seq in numbers]

    def call(self, agent_id: str, tool_call_id: str, runs: int) -> int | None:
        """The entry of a tool call in the last of an agent's ``runs`` that has it."""
        calls = self.calls.get(agent_id, {})
        found = (calls.get(_key(run, tool_call_id)) for run in range(runs, 0, -1))
        return next((seq for seq in found if seq is not None), None)

    def copy(self) -> "TranscriptIndex":
        """A copy that later events do not change."""
        return TranscriptIndex(
            {agent_id: list(numbers) for agent_id, numbers in self.entries.items()},
            {agent_id: dict(calls) for agent_id, calls in self.calls.items()},
            dict(self.updates),
            dict(self.open_calls),
            set(self.tasks),
            set(self.open_edits),
            set(self.edited),
            dict(self.last_messages),
            dict(self.last_answers),
            {agent_id: list(numbers) for agent_id, numbers in self.hidden.items()},
        )

    # -- folding -----------------------------------------------------------------------------------------------------

    def add(self, agent_id: str, seq: int) -> None:
        self.entries.setdefault(agent_id, []).append(seq)

    def add_message(self, agent_id: str, seq: int, body: MessageAdded) -> None:
        self.add(agent_id, seq)
        self.last_messages[agent_id] = seq
        if body.role == "assistant":
            self.last_answers[agent_id] = seq

    def start_call(self, agent_id: str, run: int, seq: int, body: ToolCallStarted) -> bool:
        """Adds a tool call. Returns ``False`` if it is known."""
        calls = self.calls.setdefault(agent_id, {})
        key = _key(run, body.tool_call_id)
        if key in calls:
            return False
        calls[key] = seq
        self.add(agent_id, seq)
        if body.tool == _BACKGROUND:
            self.tasks.add(seq)
        if body.kind is ToolKind.EDIT:
            self.open_edits.add(seq)
        self._set_status(agent_id, seq, body.status)
        return True

    def update_call(self, agent_id: str, run: int, seq: int, body: ToolCallUpdated) -> None:
        started = self.calls.get(agent_id, {}).get(_key(run, body.tool_call_id))
        if started is None:
            return
        self.updates[started] = seq
        self._set_status(agent_id, started, body.status)
        if body.status is CallStatus.COMPLETED and started in self.open_edits:
            self.open_edits.remove(started)
            self.edited.add(agent_id)

    def hide(self, is_hidden: Callable[[int], bool]) -> None:
        """Hides these entries, and shows all others."""
        for agent_id in {**self.entries, **self.hidden}:
            numbers = sorted((*self.entries.get(agent_id, ()), *self.hidden.get(agent_id, ())))
            self.entries[agent_id] = [number for number in numbers if not is_hidden(number)]
            self.hidden[agent_id] = [number for number in numbers if is_hidden(number)]
        for last in (self.last_messages, self.last_answers):
            for agent_id in [agent_id for agent_id, number in last.items() if is_hidden(number)]:
                del last[agent_id]

    def _set_status(self, agent_id: str, seq: int, status: CallStatus) -> None:
        if status in _OPEN:
            self.open_calls[seq] = agent_id
        else:
            self.open_calls.pop(seq, None)


def _key(run: int, tool_call_id: str) -> str:
    return f"{run} {tool_call_id}"
