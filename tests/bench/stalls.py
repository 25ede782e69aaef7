"""How long large inputs keep the server from doing anything else: the longest time in which the event loop of a real
server did not run, for each operation. An idle server is the reference: it shows what the machine itself takes.

The model is a process of its own, which does what the last text of the request asks for, as JSON.
"""

import asyncio
import json
import os
import random
import struct
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeAlias

from tests.bench.ticked import FORMAT
from tests.bench.ticking import head_of
from tests.support.model_replies import Json, Play, call, calls, frames, say
from tests.support.rpc import EVERYTHING, RpcClient, Unanswered, running

MB = 1_000_000
REPEATS = 3
FILES = 200_000
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
_MODELS = "[bench]\nwindow = 20000000\n"

Work: TypeAlias = Callable[[], Awaitable[object]]


# -- the model -----------------------------------------------------------------------------------------------------


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while head := await head_of(reader):
        length = next(int(line.split(b":")[1]) for line in head if line.lower().startswith(b"content-length"))
        play = _play(json.loads(await reader.readexactly(length)))
        writer.write(_HEAD)
        for frame in frames(play, "bench"):
            writer.write(b"%x\r\n%b\r\n" % (len(frame), frame))
            await writer.drain()
        writer.write(b"0\r\n\r\n")
    writer.close()


def _play(body: Json) -> Play:
    first, *_ = body["messages"][-1]["content"]
    if first["type"] == "tool_result":
        return say(f"done: {str(first['content'])[:200]}")
    asked = json.loads(first["text"].rpartition("\n")[2])
    if "call" in asked:
        return calls(call(asked["call"], **asked["input"]))
    return say(_text(asked.get("say", 10), seed=1), piece=200)


async def _model() -> None:
    server = await asyncio.start_server(_serve, "127.0.0.1", 0, limit=2**27)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


def _text(size: int, seed: int) -> str:
    """Lines of words, paths, numbers and assignments, as output of tools has."""
    chance = random.Random(seed)
    kinds = ("load", "src/core/", "value_", "api_key_name", "https://a.b/", '"name": "', "größe", "\tskip: ")
    words = [f"{chance.choice(kinds)}{number}" for number in range(997)]
    lines: list[str] = []
    length = 0
    while length < size:
        lines.append(" ".join(chance.choices(words, k=9)))
        length += len(lines[-1]) + 1
    return "\n".join(lines)[:size]


# -- the server ----------------------------------------------------------------------------------------------------


class Server:
    """A server with its client and one session. ``folder`` is the workspace."""

    def __init__(self, client: RpcClient, folder: Path, clock: Path) -> None:
        self.client = client
        self.folder = folder
        self._clock = clock
        self.session_id = ""

    async def open(self) -> None:
        await self.client.initialize(self.folder, EVERYTHING)
        self.client.handlers["deputy/permission/request"] = lambda _: {
            "outcome": {"outcome": "selected", "optionId": "allow_once"}
        }
        self.session_id, _ = await self.client.session()
        await self.ask(say=10)  # imports what the first prompt needs

    async def ask(self, before: str = "", **what: object) -> object:
        self.client.received.clear()
        result = self.client.start_prompt(self.session_id, f"{before}\n{json.dumps(what)}")
        async with asyncio.timeout(120):
            while True:
                try:
                    return await self.client.result(result)
                except TimeoutError:
                    continue

    async def measured(self, work: Work) -> tuple[float, float, float]:
        """The longest time without the loop while ``work`` ran and shortly after, by the clock and on a processor, and
        how long ``work`` took."""
        self._write_clock(0.0, 0.0)
        began = time.perf_counter()
        await work()
        took = time.perf_counter() - began
        await asyncio.sleep(0.5)
        waited, worked = struct.unpack(FORMAT, self._clock.read_bytes())
        return waited, worked, took

    def _write_clock(self, *times: float) -> None:
        with self._clock.open("r+b") as file:  # the server has it mapped, so it must not be shortened
            file.write(struct.pack(FORMAT, *times))


@asynccontextmanager
async def _server(url: str) -> AsyncGenerator[Server]:
    with tempfile.TemporaryDirectory() as name:
        folder, clock, models = (Path(name, part) for part in ("workspace", "clock", "models.toml"))
        folder.mkdir()
        clock.write_bytes(bytes(struct.calcsize(FORMAT)))
        models.write_text(_MODELS)
        env = {
            "ANTHROPIC_BASE_URL": url,
            "ANTHROPIC_API_KEY": "bench",
            "DEPUTY_MODEL": "bench",
            "DEPUTY_MODELS": str(models),
            "DEPUTY_STATE": str(Path(name, "state")),
            "SOME_SECRET": "a-secret-of-the-environment",
            "HOME": name,
        }
        arguments = ["-X", "utf8", "-m", "tests.bench.ticked", str(clock), "deputy_server", "serve", "--stdio"]
        env["PYTHONPATH"] = os.pathsep.join(filter(None, (str(Path.cwd()), os.environ.get("PYTHONPATH"))))
        async with running(arguments, {**os.environ, **env}) as client:
            server = Server(client, folder, clock)
            await server.open()
            yield server


async def _report(server: Server, what: str, work: Work, repeats: int = REPEATS) -> None:
    waited, worked, took = zip(*[await server.measured(work) for _ in range(repeats)], strict=True)
    # The least by the clock: other processes of the machine only ever add to it.
    waited, worked, took = min(waited) * 1000, max(worked) * 1000, min(took) * 1000
    print(f"  {what:58} {worked:6.0f} ms ({waited:5.0f} ms by the clock) of {took:6.0f} ms", flush=True)


# -- operations ----------------------------------------------------------------------------------------------------


async def _requests(server: Server) -> None:
    for count in (1, 35):
        for number in range(count):
            await server.ask(_text(200_000, seed=number), say=10)
        await _report(server, f"request with {0.2 * count:g} MB more of history", lambda: server.ask(say=10))


async def _output(server: Server) -> None:
    (server.folder / "output.txt").write_text(_text(8 * MB, seed=3))
    run = {"command": "cat output.txt"}
    await _report(server, "shell output of 8 MB", lambda: server.ask(call="shell", input=run))


async def _answer(server: Server) -> None:
    async def answer() -> None:
        server.session_id, _ = await server.client.session()
        await server.ask(say=10 * MB)

    await _report(server, "answer of 10 MB", answer)


async def _edit(server: Server) -> None:
    path = server.folder / "large.txt"
    lines = _text(9 * MB, seed=4).split("\n")
    lines[len(lines) // 2] = "number 0"
    path.write_text("\n".join(lines))
    await server.ask(call="read_file", input={"path": path.name})
    numbers = iter(range(1000))

    async def edit() -> None:
        number = next(numbers)
        change = {"old_string": f"number {number}", "new_string": f"number {number + 1}"}
        await server.ask(call="edit_file", input={"path": path.name, **change})
        assert f"\nnumber {number + 1}\n" in path.read_text()

    await _report(server, "edit of one word in 9 MB, approved", edit)
    client, number = server.client, next(numbers)
    client.handlers["deputy/permission/request"] = lambda _: Unanswered
    change = {"old_string": f"number {number}", "new_string": f"number {number + 1}"}
    asked = client.start_prompt(
        server.session_id, json.dumps({"call": "edit_file", "input": {"path": path.name, **change}})
    )
    client.received.clear()
    request = await client.until(lambda m: m.get("method") == "deputy/permission/request")
    which = {"requestId": request["params"]["requestId"]}
    await _report(server, "complete texts of that change", lambda: client.request("deputy/permission/preview", which))
    await client.request("deputy/session/cancel", {"sessionId": server.session_id})
    await client.result(asked)


async def _pages(server: Server) -> None:
    path = server.folder / "huge.txt"
    block = _text(10 * MB, seed=5) + "\n"
    with path.open("w") as file:
        for _ in range(53):
            file.write(block)
    last = 53 * block.count("\n") - 100
    where = {"path": path.name, "offset": last, "limit": 50}
    await _report(server, "page at the end of 530 MB, first", lambda: server.ask(call="read_file", input=where), 1)
    await _report(server, "page at the end of 530 MB, again", lambda: server.ask(call="read_file", input=where))
    path.unlink()


async def _completion(server: Server) -> None:
    def create() -> None:
        for number in range(FILES):
            folder = server.folder / "tree" / f"part{number // 1000}" / f"module{number // 50}"
            if number % 50 == 0:
                folder.mkdir(parents=True)
            (folder / f"file_{number}.py").touch()

    await asyncio.to_thread(create)
    params = {"sessionId": server.session_id, "text": "look at @file_1999"}

    async def complete() -> None:
        items = await server.client.request("deputy/context/complete", params)
        assert items["items"]

    await _report(server, f"completion of @ in {FILES:,} files, first", complete, 1)
    await _report(server, f"completion of @ in {FILES:,} files, again", complete)


OPERATIONS = (_requests, _output, _answer, _edit, _pages, _completion)


async def main() -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.bench.stalls", "model", stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        url = (await process.stdout.readline()).decode().strip()
        print("stalls: the longest time of the server without its event loop, and the time of the whole operation")
        for operation in OPERATIONS:
            if sys.argv[1:] and operation.__name__.removeprefix("_") not in sys.argv[1:]:
                continue
            async with _server(url) as server:
                await _report(server, "nothing (reference)", lambda: asyncio.sleep(0.5))
                await operation(server)
    finally:
        process.kill()
        await process.wait()


if __name__ == "__main__":
    asyncio.run(_model() if sys.argv[1:] == ["model"] else main())
