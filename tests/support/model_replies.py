"""Replies of a model of the Messages API, for tests, and their event streams."""

import asyncio
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]
Block: TypeAlias = Mapping[str, Any]

_ids = itertools.count(1)


class Failure(Enum):
    """A failure of a reply. Failures of a stream occur after ``Play.after`` deltas."""

    CLOSE_BEFORE_HEADERS = auto()
    STALL_BEFORE_HEADERS = auto()
    CUT = auto()
    """The connection closes in the middle of the body."""
    RESET = auto()
    NO_STOP = auto()
    """The body ends regularly, but without ``message_stop``."""
    STALL = auto()
    PINGS = auto()
    """Only pings follow."""
    ERROR_EVENT = auto()
    LINGER = auto()
    """All events are sent, but the body does not end."""


@dataclass(frozen=True)
class Play:
    """One reply.

    ``blocks`` come from :func:`text`, :func:`think` and :func:`call`. ``first_byte`` and ``gap`` are the seconds before
    the headers and between deltas, ``piece`` is the number of characters per delta (0: one delta per block). A
    ``status`` other than 200 sends ``error`` (type, message) instead. The server waits for ``gate`` before the headers,
    and for ``hold`` where a failure would occur. ``raw`` replaces the event stream; ``chunk`` is the number of its
    bytes per write, to split characters. ``body`` is sent with ``status`` and ``headers`` alone, instead of all else.
    """

    blocks: Sequence[Block] = ()
    stop_reason: str | None = None
    first_byte: float = 0
    gap: float = 0
    piece: int = 0
    status: int = 200
    error: tuple[str, str] = ("api_error", "Internal server error")
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    failure: Failure | None = None
    after: int = 1
    gate: asyncio.Event | None = None
    hold: asyncio.Event | None = None
    raw: bytes | None = None
    body: bytes | None = None
    chunk: int = 0
    usage: Mapping[str, int] = field(default_factory=lambda: {"input_tokens": 10, "output_tokens": 1})
    final_usage: Mapping[str, int] = field(default_factory=lambda: {"output_tokens": 5})


def text(words: str) -> Block:
    return {"type": "text", "text": words}


def think(words: str, signature: str = "c2lnbmF0dXJl") -> Block:
    return {"type": "thinking", "thinking": words, "signature": signature}


def redacted(data: str) -> Block:
    return {"type": "redacted_thinking", "data": data}


def call(name: str, *, id: str | None = None, json_text: str | None = None, **input: Any) -> Block:
    """A tool call. ``json_text``, valid or not, replaces its input."""
    return {
        "type": "tool_use",
        "id": id or f"toolu_{next(_ids):06d}",
        "name": name,
        "json": json.dumps(input) if json_text is None else json_text,
    }


def say(words: str, **how: Any) -> Play:
    return Play((text(words),), **how)


def calls(*blocks: Block, **how: Any) -> Play:
    return Play(blocks, **how)


def failing(status: int, kind: str, message: str = "", **headers: str) -> Play:
    """A reply with an HTTP error; header names have underscores instead of hyphens."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Play(status=status, error=(kind, message or kind), headers=named)


def answering(status: int, body: Json | list[Any] | str, content_type: str = "", **headers: str) -> Play:
    """A reply with any body: JSON or a text. Header names have underscores instead of hyphens."""
    data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    kind = content_type or ("text/plain" if isinstance(body, str) else "application/json")
    return Play(status=status, body=data, headers={"content-type": kind, **named})


def event(kind: str, **data: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **data})}\n\n".encode()


# -- event streams -------------------------------------------------------------------------------------------------


def frames(play: Play, model: str) -> Iterator[bytes]:
    """The complete event stream of ``play``; each delta is one frame."""
    yield event("message_start", message=message_of(play, model, content=[])) + event("ping")
    for index, block in enumerate(play.blocks):
        yield from _block_frames(index, block, play.piece)
    delta = {"stop_reason": stop_reason_of(play), "stop_sequence": None}
    yield event("message_delta", delta=delta, usage=dict(play.final_usage))
    yield event("message_stop")


def stop_reason_of(play: Play) -> str:
    called = any(block["type"] == "tool_use" for block in play.blocks)
    return play.stop_reason or ("tool_use" if called else "end_turn")


def _block_frames(index: int, block: Block, piece: int) -> Iterator[bytes]:
    opening: Json
    match block["type"]:
        case "text":
            opening, deltas = {"type": "text", "text": ""}, _deltas("text_delta", "text", block["text"], piece)
        case "thinking":
            opening = {"type": "thinking", "thinking": "", "signature": ""}
            signature = [{"type": "signature_delta", "signature": block["signature"]}] if block["signature"] else []
            deltas = [*_deltas("thinking_delta", "thinking", block["thinking"], piece), *signature]
        case "tool_use":
            opening = {"type": "tool_use", "id": block["id"], "name": block["name"], "input": {}}
            deltas = _deltas("input_json_delta", "partial_json", block["json"], piece)
        case _:
            opening, deltas = dict(block), []
    yield event("content_block_start", index=index, content_block=opening)
    for delta in deltas:
        yield event("content_block_delta", index=index, delta=delta)
    yield event("content_block_stop", index=index)


def _deltas(kind: str, key: str, value: str, piece: int) -> list[Json]:
    size = piece or max(1, len(value))
    return [{"type": kind, key: value[at : at + size]} for at in range(0, len(value), size)]


def message_of(play: Play, model: str, content: list[Json]) -> Json:
    return {
        "id": f"msg_{next(_ids):06d}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": content,
        "stop_reason": None,
        "stop_sequence": None,
        "usage": dict(play.usage),
    }


def full_message(play: Play, model: str) -> Json:
    content = [
        {"type": "tool_use", "id": block["id"], "name": block["name"], "input": json.loads(block["json"])}
        if block["type"] == "tool_use"
        else dict(block)
        for block in play.blocks
    ]
    return {**message_of(play, model, content), "stop_reason": stop_reason_of(play)}
