"""A server that is killed at a random moment while its agents run, write and ask; and what must hold afterwards."""

import asyncio
import random
import signal
import sqlite3
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, closing, suppress
from itertools import count
from pathlib import Path

from anyio import to_thread

from deputy_agents.domain.event import AgentFinished, AgentStarted, Event
from deputy_agents.store.sqlite import FILE, SqliteStore
from deputy_server.convert.event import event_to_wire
from tests.support.commands import marked, until
from tests.support.findings import Findings
from tests.support.messages_api import MessagesApi, messages_api
from tests.support.model_replies import Json, Play, call, calls, say
from tests.support.rpc import EVERYTHING, RpcClient, RpcFailure, Unanswered, serving

FILES = ("a.txt", "b.txt", "c.txt")
BEFORE = "one\ntwo\nthree\n"
MOST_EVENTS = 180
"""About as many as a whole run has: a kill may come after its end, too."""
MOST_QUESTIONS = 10
STUCK = 20
"""Seconds after which it is killed anyway."""


def _primary(body: Json) -> Play:
    said = len(body["messages"])
    if said == 1:
        tasks = [{"task": f"change {name}", "mode": "default"} for name in FILES]
        return calls(
            call("todo", entries=[{"content": "change it all", "status": "in_progress"}]),
            call("spawn_agents", tasks=tasks),
            call("task", description="run it", prompt="run", subagent_type="general"),
        )
    return say("All is done.", piece=3)


def _child(body: Json) -> Play:
    task = str(body["messages"][0])
    name = next((name for name in FILES if name in task), None)
    steps = len(body["messages"]) // 2
    if name is None:
        return calls(call("shell", command="echo ready; sleep 600")) if steps == 0 else say("ran")
    plays = (
        calls(call("read_file", path=name)),
        calls(call("edit_file", path=name, old_string="one", new_string="1")),
        calls(
            call("edit_file", path=name, old_string="two", new_string="2"),
            call("write_file", path=f"new-{name}", content="new\n"),
        ),
        say(f"Changed {name}.", piece=4),
    )
    return plays[min(steps, 3)]


def _script(body: Json, _: int) -> Play:
    is_child = not any(tool["name"] == "spawn_agents" for tool in body.get("tools", ()))
    return _child(body) if is_child else _primary(body)


class Crash:
    """One life and one death, by ``seed``."""

    def __init__(self, seed: int, workspace: Path, state: Path) -> None:
        self.findings = Findings(tries=1)
        self._random = random.Random(seed)
        self._workspace = workspace
        self._state = state
        self._session_id = ""
        self._seen: list[Json] = []
        self._acknowledged: list[str] = []
        """Prompts that were shown in the queue, and messages that were answered."""

    async def run(self) -> None:
        for name in FILES:
            (self._workspace / name).write_text(BEFORE)
        async with messages_api(_script) as api:
            await self._live_and_die(api)
            await self._search_processes()
            await self._look_at_what_is_left()
            await self._go_on(api)
            self.findings.invalid += api.violations
        await self._search_processes()
        self.findings.check()

    def _serving(self) -> AbstractAsyncContextManager[RpcClient]:
        return serving(env={"ANTHROPIC_API_KEY": "test-key", "DEPUTY_STATE": str(self._state)})

    async def _initialize(self, client: RpcClient, api: MessagesApi) -> None:
        options = {"model": "m", "baseUrl": api.url, "agents": {"parallelWriters": True}}
        await client.initialize(self._workspace, EVERYTHING, initializationOptions=options)

    async def _live_and_die(self, api: MessagesApi) -> None:
        last = self._random.randrange(1, MOST_EVENTS)
        unanswered = self._random.randrange(MOST_QUESTIONS) if self._random.random() < 0.4 else None
        pause = self._random.random() * 0.03
        reached = asyncio.Event()
        permission_requests = count()

        def answer(_: Json) -> object:
            if next(permission_requests) == unanswered:
                reached.set()
                return Unanswered
            return {"outcome": {"outcome": "selected", "optionId": "allow_once"}}

        says_at = self._random.randrange(1, MOST_EVENTS)
        saying: list[asyncio.Task[None]] = []

        async with self._serving() as client:

            def look(_: Json) -> None:
                if len(client.events()) >= says_at and not saying:
                    saying.append(asyncio.create_task(self._say_more(client)))
                if len(client.events()) >= last or client.events("turn_finished"):
                    reached.set()

            await self._initialize(client, api)
            client.handlers["deputy/permission/request"] = answer
            client.on_message = look
            self._session_id, _ = await client.session()
            client.start_prompt(self._session_id, "change it all")
            with suppress(TimeoutError):
                await asyncio.wait_for(reached.wait(), STUCK)
            await asyncio.sleep(pause)  # a random moment: nothing is waited for
            client.process.send_signal(signal.SIGKILL)
            await client.gone()
            for task in saying:
                task.cancel()
            queues = [event["entries"] for event in client.events("prompt_queue")]
            self._acknowledged += {entry["text"] for entries in queues for entry in entries}
            self._seen = [event for event in client.events() if "seq" in event]
            assert "Traceback" not in client.stderr

    async def _say_more(self, client: RpcClient) -> None:
        """Queues prompts, and sends messages to the agent that runs."""
        primary = client.events("agent_started")[0]["agentId"]
        for number in range(3):
            client.start_prompt(self._session_id, f"queued prompt {number}", queue=True)
            message = {"sessionId": self._session_id, "agentId": primary, "text": f"message {number}"}
            with suppress(RpcFailure):  # the turn has ended
                await client.request("deputy/agent/message", message)
                self._acknowledged.append(f"message {number}")

    # -- what must hold --------------------------------------------------------------------------------------------

    async def _search_processes(self) -> None:
        with suppress(TimeoutError):
            await until(lambda: not marked(self._workspace))
        self.findings.orphans += map(str, marked(self._workspace))

    async def _look_at_what_is_left(self) -> None:
        """The file is sound, and has every event that the client saw, and every edit that reached a file."""
        with closing(sqlite3.connect(self._state / FILE)) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        store = await to_thread.run_sync(SqliteStore.open, self._state)
        try:
            stored = {event.seq: event_to_wire(event) for event in await store.events(self._session_id)}
            lost = [event["seq"] for event in self._seen if stored.get(event["seq"]) != event]
            self.findings.lost += [f"event {seq} is not stored as it was shown" for seq in lost]
            changes = await store.changes(self._session_id)
        finally:
            await store.close()
        for path in self._workspace.glob("*.txt"):
            text = path.read_text()
            kept = {change.after for change in changes if change.path == str(path)}
            assert text in kept or (path.name in FILES and text == BEFORE)

    async def _go_on(self, api: MessagesApi) -> None:
        """The session loads, every run in it has one end, and it takes a prompt."""
        async with self._serving() as client:
            await self._initialize(client, api)
            loaded = await client.request("deputy/session/load", {"sessionId": self._session_id})
            assert loaded["permissions"] == []
            assert {agent["status"] for agent in loaded["agents"]} <= {"idle", "completed", "failed"}
            api.script = lambda _body, _n: say("on we go")
            assert (await client.prompt(self._session_id, "and now?"))["stopReason"] == "end_turn"
            for _ in loaded["promptQueue"]:
                await client.prompt(self._session_id, "and then?", queue=True)
            reached = str(api.bodies[-1]["messages"])
            self.findings.lost += [text for text in self._acknowledged if text not in reached]
            assert await client.shut_down() == 0
        store = await to_thread.run_sync(SqliteStore.open, self._state)
        try:
            _check_runs(await store.events(self._session_id))
        finally:
            await store.close()


def _check_runs(events: Sequence[Event]) -> None:
    started = Counter((e.agent_id, e.run) for e in events if isinstance(e.body, AgentStarted) and e.body.info.parent_id)
    ended = Counter((e.agent_id, e.run) for e in events if isinstance(e.body, AgentFinished))
    assert started == ended
    assert set(started.values()) <= {1}
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
