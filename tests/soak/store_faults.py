"""A server whose session file fails while its agents work; and what must hold after each fault.

At the end of every turn the session file has all that the client has seen, or the client was notified that it has not.
Once the fault is gone, the file has all of it.

As a process, which :mod:`tests.support.small_disk` gives a disk: ``python -m tests.soak.store_faults SEED FAULTS
FOLDER``. It prints its findings as JSON.
"""

import asyncio
import json
import os
import random
import signal
import sqlite3
import sys
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from dataclasses import asdict, dataclass
from pathlib import Path

from anyio import to_thread

from deputy_agents.events.commit_queue import RETRY
from deputy_agents.store.database_file import LOCK_TIMEOUT
from deputy_agents.store.sqlite import SqliteStore
from deputy_server.convert.event import event_to_wire
from tests.soak.store_damage import Fault, StoreDamage
from tests.support.commands import marked, until
from tests.support.findings import Findings
from tests.support.messages_api import messages_api
from tests.support.model_replies import Json, Play, call, calls, say
from tests.support.pings import pinging
from tests.support.rpc import PATIENCE, RpcClient, RpcFailure
from tests.support.small_disk import Disk
from tests.support.sockets import Server

CATCH_UP = RETRY + 3 * LOCK_TIMEOUT + 10
"""Seconds in which the file must have everything after the end of a fault."""
TURN = 120.0
"""Seconds that a turn may take while the session file fails, and the start of a server on a busy machine."""
_LATEST = 25
"""Events of a turn after which a fault begins at the latest."""


class StoreFaults:
    """Lives of one session with faults, by ``seed``."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.findings = Findings()
        self.kinds: Counter[str] = Counter()
        self._random = random.Random(seed)
        self._folder = folder
        self._disk = Disk(folder / "disk")
        self._workspace = folder / "workspace"
        self._url = ""
        self._session_id = ""
        self._prompts = 0
        self._seen: dict[int, Json] = {}
        """What clients have seen of the session, by number."""

    async def run(self, faults: int) -> None:
        """Lives with at least ``faults`` faults."""
        damage = StoreDamage(self._disk, self._random)
        async with messages_api(self._script) as api:
            self._url = api.url
            while self.findings.tries < faults:
                await self._live(damage, self._random.randrange(1, 4))
                await self._check_file(damage)
                await self._start_with_fault(damage)
            await self._live(damage, 0)
            await self._check_file(damage)
            self.findings.invalid += api.violations
        await until(lambda: not marked(self._workspace))

    # -- lives ---------------------------------------------------------------------------------------------------------

    async def _live(self, damage: StoreDamage, faults: int) -> None:
        """Loads the session, works with ``faults`` faults, and ends in order or by a signal."""
        async with self._serving() as server, pinging(server) as pings, self._connected(server) as client:
            await self._open(client)
            await self._turn(client)
            for fault in self._random.sample(damage.while_running(server.process.pid), faults):
                await self._work_with(fault, client, damage)
            await self._turn(client)
            await self._wait_until_stored(client, damage, "the end of a life")
        pings.add_to(self.findings)
        if pings.late:
            self.findings.notes.append(f"{pings.late} of {pings.count} pings were late, after {pings.late_after} s")

    async def _work_with(self, fault: Fault, client: RpcClient, damage: StoreDamage) -> None:
        self.findings.tries += 1
        self.kinds[fault.name] += 1
        begun = asyncio.Event()
        notices = len(_notices(client))

        async def begin() -> None:
            await to_thread.run_sync(fault.begin)
            begun.set()

        try:
            if self._random.random() < 0.3:
                await begin()
            else:
                await self._turn(client, begin)
                await asyncio.wait_for(begun.wait(), PATIENCE)
            await self._turn(client)  # Deputy notices a fault when it uses the file
            await self._check_notified(fault, client, damage, notices)
        finally:
            await to_thread.run_sync(fault.end)
        await self._wait_until_stored(client, damage, fault.name)

    async def _check_notified(self, fault: Fault, client: RpcClient, damage: StoreDamage, before: int) -> None:
        missing = await self._missing(client, damage)
        if missing and len(_notices(client)) == before:
            self.findings.lost.append(
                f"{fault.name}: nobody was notified that {missing} events are not stored; before: {_notices(client)}"
            )

    async def _start_with_fault(self, damage: StoreDamage) -> None:
        """A server that finds a fault answers everything, and shows what it cannot read or store."""
        fault = self._random.choice(damage.before_start())
        self.findings.tries += 1
        self.kinds[fault.name] += 1
        await to_thread.run_sync(damage.keep_copy)
        whole = await self._loaded()
        await to_thread.run_sync(damage.keep_copy)
        await to_thread.run_sync(fault.begin)
        try:
            found = await self._loaded()
        finally:
            await to_thread.run_sync(fault.end)
        if found.entries < whole.entries and not found.problems:
            self.findings.lost.append(f"{fault.name}: {whole.entries - found.entries} entries are missing in silence")

    # -- one server ----------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _serving(self) -> AsyncGenerator[Server]:
        home = self._folder / "home"
        home.mkdir(exist_ok=True)
        env = os.environ | {
            "HOME": str(home),
            "ANTHROPIC_API_KEY": "test-key",
            "DEPUTY_STATE": str(self._disk.folder / "state"),
        }
        command = (*self._disk.prefix, sys.executable, "-m", "deputy_server", "serve", "--tcp", "0")
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*command, env=env, stdout=pipe, stderr=pipe)
        assert process.stdout is not None
        assert process.stderr is not None
        errors = asyncio.create_task(process.stderr.read())
        try:
            line = await asyncio.wait_for(process.stdout.readline(), TURN)
            yield Server(process, json.loads(line))
            process.send_signal(signal.SIGKILL if self._random.random() < 0.3 else signal.SIGTERM)
            await asyncio.wait_for(process.wait(), TURN)
        except BaseException as error:
            error.add_note(f"exit code of the server, if it had ended: {process.returncode}")
            raise
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
            text = (await errors).decode(errors="replace")
            with (self._folder / "stderr.txt").open("a") as file:
                file.write(text)

    @asynccontextmanager
    async def _connected(self, server: Server) -> AsyncGenerator[RpcClient]:
        options = {"model": "m", "baseUrl": self._url}
        async with server.opened(self._workspace, options=options) as client:
            client.handlers["deputy/permission/request"] = lambda _: {
                "outcome": {"outcome": "selected", "optionId": "allow_once"}
            }
            yield client

    async def _open(self, client: RpcClient) -> None:
        if self._session_id:
            await client.request("deputy/session/load", {"sessionId": self._session_id})
        else:
            self._session_id, _ = await client.session()

    async def _turn(self, client: RpcClient, begin: Callable[[], Awaitable[None]] | None = None) -> None:
        """A turn, during which ``begin`` is called at a random moment. It ends, whatever the store does."""
        last = len(client.events()) + self._random.randrange(_LATEST)
        beginning: list[asyncio.Task[None]] = []

        def look(_: Json) -> None:
            if begin is not None and not beginning and len(client.events()) >= last:
                beginning.append(asyncio.ensure_future(begin()))

        client.on_message = look
        self._prompts += 1
        await self._prompt(client, self._session_id, f"prompt {self._prompts}")
        client.on_message = lambda _: None
        if begin is not None and not beginning:
            beginning.append(asyncio.ensure_future(begin()))
        await asyncio.gather(*beginning)
        self._seen |= {event["seq"]: event for event in client.events() if "seq" in event}

    async def _prompt(self, client: RpcClient, session_id: str, text: str) -> None:
        request = client.start_prompt(session_id, text)
        until = time.monotonic() + TURN
        while True:
            try:
                answer = await client.answer(request)
                break
            except TimeoutError:
                if time.monotonic() > until:
                    raise
        assert answer["result"]["stopReason"] == "end_turn"

    async def _loaded(self) -> "_Loaded":
        """What a server shows of the session, and the problems that it names."""
        async with self._serving() as server, self._connected(server) as client:
            problems: list[str] = []
            entries = 0
            try:
                listed = await client.request("deputy/session/list", {"children": True})
                loaded = await client.request("deputy/session/load", {"sessionId": self._session_id})
                entries = len(listed["sessions"]) + len(loaded["agents"]) + len(loaded["transcript"])
                problems += [entry["type"] for entry in loaded["transcript"] if entry["type"] == "unknown"]
            except RpcFailure as failure:
                problems.append(failure.message)
            new, _ = await client.session()
            await self._prompt(client, new, "is all well?")
            return _Loaded(entries, [*problems, *_notices(client)])

    # -- what must hold ------------------------------------------------------------------------------------------------

    async def _missing(self, client: RpcClient, damage: StoreDamage) -> int:
        """The number of events that the client has seen and the file does not have now."""
        seen = {event["seq"] for event in client.events() if "seq" in event}
        return len(seen - await to_thread.run_sync(_stored_numbers, damage.file, self._session_id))

    async def _wait_until_stored(self, client: RpcClient, damage: StoreDamage, when: str) -> None:
        until = time.monotonic() + CATCH_UP
        while missing := await self._missing(client, damage):
            if time.monotonic() > until:
                self.findings.lost.append(f"{when}: {missing} events are not stored {CATCH_UP:.0f} s later")
                break
            await asyncio.sleep(0.2)

    async def _check_file(self, damage: StoreDamage) -> None:
        """After the end of a server: the file is sound, and every event that a client saw is in it as it was."""
        await to_thread.run_sync(_check_integrity, damage.file)
        store = await to_thread.run_sync(SqliteStore.open, damage.folder)
        try:
            stored = {event.seq: event_to_wire(event) for event in await store.events(self._session_id)}
        finally:
            await store.close()
        changed = [seq for seq, event in self._seen.items() if stored.get(seq) != event]
        self.findings.lost += [f"event {seq} is not stored as it was seen" for seq in changed]
        self.findings.check()

    def _script(self, body: Json, _: int) -> Play:
        last = body["messages"][-1]["content"]
        if isinstance(last, list) and any(block["type"] == "tool_result" for block in last):
            return say("All of it is done, and nothing is left.", piece=4, gap=0.005)
        if not any(tool["name"] == "spawn_agents" for tool in body.get("tools", ())):
            return calls(call("list_dir", path="."))
        tasks = [{"task": f"look at part {number}"} for number in range(3)]
        return calls(
            call("todo", entries=[{"content": "look at all", "status": "in_progress"}]),
            call("spawn_agents", tasks=tasks),
            call("write_file", path=f"file-{self._prompts}.txt", content=f"{self._prompts}\n" * 2000),
        )


@dataclass(frozen=True, slots=True)
class _Loaded:
    entries: int
    problems: list[str]


def _notices(client: RpcClient) -> list[str]:
    shown = [m["params"]["message"] for m in client.received if m.get("method") == "window/showMessage"]
    return [text for text in shown if "session" in text]


def _stored_numbers(file: Path, session_id: str) -> set[int]:
    sql = "SELECT seq FROM events JOIN sessions ON sessions.id = events.session WHERE session_id = ?"
    try:
        with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True, timeout=LOCK_TIMEOUT)) as connection:
            return {seq for (seq,) in connection.execute(sql, (session_id,))}
    except sqlite3.Error:
        return set()


def _check_integrity(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


async def _main(seed: str, faults: str, folder: str) -> None:
    runner = StoreFaults(int(seed), Path(folder))
    try:
        await runner.run(int(faults))
    finally:
        runner.findings.notes.append(f"seed {seed}: {', '.join(sorted(runner.kinds))}")
        print(json.dumps(asdict(runner.findings)), flush=True)


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))
