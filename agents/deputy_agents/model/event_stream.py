"""Server-sent events of services with OpenAI's API.

The stream of the SDK cannot be used: it hides whether the stream ended in order, and the signs of life between events.
"""

import json
from collections.abc import AsyncGenerator, AsyncIterator

from deputy_agents.model.reply_builder import Json, as_json

PING: Json = {"type": "ping"}
DONE: Json = {"type": "done"}
"""Stands for the end of the stream."""
MAX_EVENT = 64 * 2**20
"""Bytes of an event, at most."""


async def read_events(parts: AsyncIterator[bytes]) -> AsyncGenerator[Json]:
    """The JSON of all events in a body. Comments are :data:`PING`.

    Raises:
        ValueError: an event is not JSON, or is too long.
    """
    buffer, data = bytearray(), list[bytes]()
    async for part in parts:
        buffer += part
        *lines, rest = buffer.split(b"\n")
        buffer = bytearray(rest)
        if len(buffer) > MAX_EVENT:
            raise ValueError("an event is too long")
        for raw in lines:
            line = bytes(raw).rstrip(b"\r")
            if line.startswith(b"data:"):
                data.append(line[5:].strip())
            elif line.startswith(b":"):
                yield PING
            elif not line and data:
                yield _event(b"\n".join(data))
                data = []
    if buffer.startswith(b"data:"):
        data.append(bytes(buffer[5:]).strip())
    if data:
        yield _event(b"\n".join(data))


def _event(data: bytes) -> Json:
    text = data.decode()
    return DONE if text.startswith("[DONE]") else as_json(json.loads(text) if text else None)
