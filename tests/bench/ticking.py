"""A Messages API whose children speak at a fixed rate and say in each delta when it was sent.

As a process: prints its URL. The first request of an agent that can start others is answered with a call for each
stream; every child's answer is ``rate * seconds`` deltas, each the time in seconds.
"""

import asyncio
import json
import sys
import time
from collections.abc import AsyncGenerator

from tests.support.api_rules import blocks_of
from tests.support.model_replies import Json, Play, call, calls, event, frames, say

_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


class Ticking:
    def __init__(self, streams: int, rate: int, seconds: int) -> None:
        self._streams = streams
        self._interval = 1 / rate
        self._deltas = rate * seconds

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await head_of(reader):
            length = next(int(line.split(b":")[1]) for line in head if line.lower().startswith(b"content-length"))
            body = json.loads(await reader.readexactly(length))
            writer.write(_HEAD)
            async for frame in self._answer(body):
                writer.write(b"%x\r\n%s\r\n" % (len(frame), frame))
            writer.write(b"0\r\n\r\n")
        writer.close()

    async def _answer(self, body: Json) -> AsyncGenerator[bytes]:
        if not any(tool["name"] == "spawn_agent" for tool in body.get("tools", ())):
            async for frame in self._ticks():
                yield frame
            return
        for frame in frames(self._lead(body), "m"):
            yield frame

    def _lead(self, body: Json) -> Play:
        if any(block["type"] == "tool_result" for block in blocks_of(body["messages"][-1])):
            return say("done")
        return calls(*(call("spawn_agent", instructions=f"stream {index}") for index in range(self._streams)))

    async def _ticks(self) -> AsyncGenerator[bytes]:
        opening, *_, closing, stop = frames(say("x"), "m")
        yield opening + event("content_block_start", index=0, content_block={"type": "text", "text": ""})
        due = time.monotonic()
        for _ in range(self._deltas):
            due += self._interval
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            yield event("content_block_delta", index=0, delta={"type": "text_delta", "text": f"{time.time():.6f} "})
        yield event("content_block_stop", index=0) + closing + stop


async def head_of(reader: asyncio.StreamReader) -> list[bytes]:
    try:
        return (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")
    except asyncio.IncompleteReadError:
        return []


async def main(streams: int, rate: int, seconds: int) -> None:
    server = await asyncio.start_server(Ticking(streams, rate, seconds).serve, "127.0.0.1", 0)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(*map(int, sys.argv[1:])))
