"""Stored sessions of any length, for tests and benchmarks."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from deputy_agents.domain import event as ev
from deputy_agents.domain.message import Message, Text, ToolResult, ToolUse, Usage
from deputy_agents.domain.outcome import AgentStatus
from deputy_agents.ports.store import HistoryRecord, Record
from deputy_agents.store.sqlite import SqliteStore
from tests.support.stored_sessions import PRIMARY, record

Commit: TypeAlias = tuple[list[ev.Event], list[Record]]


class _Writer:
    """Numbers the events of one session."""

    def __init__(self) -> None:
        self.seq = 0
        self._agents: dict[str, int] = {}

    def events(self, agent_id: str, *bodies: ev.Body) -> list[ev.Event]:
        events: list[ev.Event] = []
        for body in bodies:
            self.seq += 1
            number = self._agents[agent_id] = self._agents.get(agent_id, 0) + 1
            events.append(ev.Event("s", 1e9 + self.seq, body, agent_id, 1, self.seq, number))
        return events


def _call(number: int, size: int) -> tuple[ev.ToolCallStarted, ev.ToolCallUpdated, list[Message]]:
    call_id, path = f"toolu_{number:08}", f"src/module_{number % 97}.py"
    text = f"    return value {number}\n" * (size // 24)
    started = ev.ToolCallStarted(
        call_id, "read_file", f"read_file({path})", ev.ToolKind.READ, ev.CallStatus.PENDING, {"path": path}
    )
    messages = [
        Message("assistant", (ToolUse(call_id, "read_file", {"path": path}),), f"r{number}"),
        Message("user", (ToolResult(call_id, text),), f"t{number}"),
    ]
    return started, ev.ToolCallUpdated(call_id, ev.CallStatus.COMPLETED, text[:16_000]), messages


def long_session(count: int) -> Iterator[Commit]:
    """About ``count`` events of a primary agent: turns of two messages and 23 calls."""
    writer = _Writer()
    yield writer.events("p", ev.AgentStarted(PRIMARY, AgentStatus.IDLE)), []
    number = 0
    while writer.seq < count - 75:
        turn = f"turn-{writer.seq}"
        prompt = Message("user", (Text(f"Please go on with part {writer.seq}. " * 8),), turn)
        shown = ev.MessageAdded(turn, "user", prompt.text)
        yield (
            writer.events("p", ev.StatusChanged(AgentStatus.RUNNING), ev.TurnStarted(turn), shown),
            [HistoryRecord("p", prompt)],
        )
        for _ in range(23):
            number += 1
            started, ended, messages = _call(number, 640)
            used = ev.UsageChanged(Usage(100 * number, number))
            yield writer.events("p", used, started, ended), [HistoryRecord("p", message) for message in messages]
        answer = Message("assistant", (Text("This part is done. " * 40),), f"a-{turn}")
        yield (
            writer.events(
                "p",
                ev.MessageAdded(answer.id, "assistant", answer.text),
                ev.TurnFinished(turn, "end_turn"),
                ev.StatusChanged(AgentStatus.IDLE),
            ),
            [HistoryRecord("p", answer)],
        )


def many_children(children: int, size: int) -> Iterator[Commit]:
    """A primary agent whose sub-agents have ended, each with a history of about ``size`` characters."""
    writer = _Writer()
    yield writer.events("p", ev.AgentStarted(PRIMARY, AgentStatus.IDLE)), []
    number = 0
    for child in range(children):
        agent_id = f"child-{child}"
        info = replace(PRIMARY, agent_id=agent_id, parent_id="p", depth=1, label=f"look {child}", tool_call_id="t")
        task = Message("user", (Text(f"Look at part {child}."),), f"task-{child}")
        bodies = (ev.AgentStarted(info, AgentStatus.RUNNING), ev.MessageAdded(task.id, "user", task.text))
        yield writer.events(agent_id, *bodies), [HistoryRecord(agent_id, task)]
        for _ in range(30):
            number += 1
            started, ended, messages = _call(number, size // 30)
            yield writer.events(agent_id, started, ended), [HistoryRecord(agent_id, message) for message in messages]
        answer = Message("assistant", (Text(f"Found {child}. " * 100),), f"a-{child}")
        end = ev.AgentFinished(AgentStatus.COMPLETED, answer.text, Usage(1000, 100), 30, 31)
        bodies = (ev.MessageAdded(answer.id, "assistant", answer.text), end)
        yield writer.events(agent_id, *bodies), [HistoryRecord(agent_id, answer)]


async def stored(folder: Path, commits: Iterator[Commit]) -> Path:
    """A state folder with the session ``s``, which was closed in order."""
    store = await asyncio.to_thread(SqliteStore.open, folder)
    await store.create(record(cwd=str(folder)))
    for events, records in commits:
        await store.append("s", events, records)
    await store.close()
    return folder
