"""Builds a :class:`Reply` from the event stream of the Messages API.

Events are plain dicts. Unknown or invalid parts are ignored and never raise; only :meth:`ReplyBuilder.reply` detects an
incomplete stream.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias, cast

from deputy_agents.domain.ids import new_id
from deputy_agents.domain.message import Block, Message, Reply, Source, StopReason, Text, Thinking, ToolUse, Usage
from deputy_agents.ports.model import TextPart, ThinkingPart, UsageReported
from deputy_agents.text import is_well_formed, well_formed

Json: TypeAlias = Mapping[str, object]

MAX_DEPTH = 100
"""Maximum nesting of a tool's input. Encoders and clients have limits of about 255; no tool needs more than a few."""
MAX_TOKENS = 2**53
"""Maximum of a reported token count: larger numbers are not exact in all clients."""

_EMPTY: Json = {}
_TOOL_ID = re.compile(r"[a-zA-Z0-9_-]+")

STOP_REASONS = {
    "end_turn": StopReason.END_TURN,
    "tool_use": StopReason.TOOL_USE,
    "max_tokens": StopReason.MAX_TOKENS,
    "stop_sequence": StopReason.STOP_SEQUENCE,
    "pause_turn": StopReason.PAUSE_TURN,
    "refusal": StopReason.REFUSAL,
    "model_context_window_exceeded": StopReason.CONTEXT_WINDOW,
}

_COUNTERS = {
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
    "cache_read_input_tokens": "cache_read_tokens",
    "cache_creation_input_tokens": "cache_write_tokens",
}


def as_json(value: object) -> Json:
    """``value`` if it is an object, else an empty one."""
    return cast("Json", value) if isinstance(value, dict) else _EMPTY


def as_text(value: object) -> str:
    return value if isinstance(value, str) else ""


@dataclass(slots=True)
class _OpenBlock:
    """A content block in progress: ``parts`` of its text or JSON, and the data of its ``start`` event."""

    kind: str
    start: Json
    parts: list[str] = field(default_factory=list[str])
    signature: str = ""
    is_well_formed: bool = True
    """No part contains half of a surrogate pair, of which the other half may be in the next one."""

    @property
    def text(self) -> str:
        text = "".join(self.parts)
        return text if self.is_well_formed else well_formed(text)


class ReplyBuilder:
    """Builds one reply. Pass every event to :meth:`add`, then call :meth:`reply`."""

    def __init__(self) -> None:
        self._blocks: dict[object, _OpenBlock] = {}
        self._usage: dict[str, int] = {}
        self._searches = 0
        self._stop_reason = ""
        self._stopped = False

    @property
    def complete(self) -> bool:
        """The reply is complete: all of its content is sent before its stop reason. Later events do not count, and no
        later failure takes the reply back."""
        return self._stopped

    @property
    def ended(self) -> bool:
        """As :attr:`complete`: nothing that counts follows the stop reason."""
        return self._stopped

    def close(self) -> None:
        """A stream that ends without a stop reason is incomplete, so nothing follows."""

    def add(self, event: Json) -> TextPart | ThinkingPart | UsageReported | None:
        """Adds one event; returns the part of the reply that it contains, if any."""
        match event.get("type"):
            case "content_block_delta":
                return self._delta(event.get("index"), as_json(event.get("delta")))
            case "content_block_start":
                return self._start(event.get("index"), as_json(event.get("content_block")))
            case "message_start":
                return self._count(as_json(as_json(event.get("message")).get("usage")))
            case "message_delta":
                self._stop_reason = as_text(as_json(event.get("delta")).get("stop_reason")) or self._stop_reason
                self._stopped = self._stopped or bool(self._stop_reason)
                return self._count(as_json(event.get("usage")))
            case "message_stop":
                self._stopped = True
            case _:
                pass
        return None

    def reply(self) -> Reply | None:
        """The reply, or ``None`` if the stream ended before it was complete."""
        if not self._stopped:
            return None
        message = Message("assistant", tuple(self._content()))
        stop_reason = STOP_REASONS.get(self._stop_reason, StopReason.OTHER)
        return Reply(message, stop_reason, Usage(**self._usage), tuple(self._sources()), self._searches)

    def _start(self, index: object, block: Json) -> TextPart | ThinkingPart | None:
        opened = self._blocks[index] = _OpenBlock(as_text(block.get("type")), block)
        opened.signature = as_text(block.get("signature"))
        return self._append(opened, as_text(block.get("text")) or as_text(block.get("thinking")))

    def _delta(self, index: object, delta: Json) -> TextPart | ThinkingPart | None:
        if (opened := self._blocks.get(index)) is None:
            return None
        match delta.get("type"):
            case "text_delta":
                return self._append(opened, as_text(delta.get("text")))
            case "thinking_delta":
                return self._append(opened, as_text(delta.get("thinking")))
            case "input_json_delta":
                opened.parts.append(as_text(delta.get("partial_json")))
            case "signature_delta":
                opened.signature += as_text(delta.get("signature"))
            case _:
                pass
        return None

    @staticmethod
    def _append(opened: _OpenBlock, text: str) -> TextPart | ThinkingPart | None:
        if not text:
            return None
        opened.parts.append(text)
        opened.is_well_formed &= is_well_formed(text)
        match opened.kind:
            case "text":
                return TextPart(well_formed(text))
            case "thinking":
                return ThinkingPart(well_formed(text))
            case _:
                return None

    def _count(self, usage: Json) -> UsageReported:
        """Counts are cumulative, so later ones replace earlier ones; a server may omit unchanged counts."""
        for wire_name, name in _COUNTERS.items():
            if (count := count_of(usage.get(wire_name))) is not None:
                self._usage[name] = count
        if (long := count_of(as_json(usage.get("cache_creation")).get("ephemeral_1h_input_tokens"))) is not None:
            self._usage["long_cache_write_tokens"] = long
        if (searches := count_of(as_json(usage.get("server_tool_use")).get("web_search_requests"))) is not None:
            self._searches = searches
        return UsageReported(Usage(**self._usage))

    def _sources(self) -> Iterator[Source]:
        """The web pages found by the service, each once."""
        known: set[str] = set()
        for opened in self._blocks.values():
            found = opened.start.get("content") if opened.kind == "web_search_tool_result" else None
            for result in map(as_json, cast("list[object]", found) if isinstance(found, list) else ()):
                if (url := as_text(result.get("url"))) and url not in known:
                    known.add(url)
                    yield Source(url, as_text(result.get("title")) or url)

    def _content(self) -> list[Block]:
        content: list[Block] = []
        ids: set[str] = set()
        for opened in self._blocks.values():
            match opened.kind:
                case "text":
                    content += [Text(opened.text)] if opened.text else []
                case "thinking":
                    content.append(Thinking(opened.text, opened.signature or None))
                case "redacted_thinking":
                    content.append(Thinking("", redacted=as_text(opened.start.get("data"))))
                case "tool_use":
                    content.append(
                        tool_use(
                            as_text(opened.start.get("id")),
                            as_text(opened.start.get("name")),
                            "".join(opened.parts),
                            ids,
                            opened.start.get("input"),
                        )
                    )
                case _:
                    pass
        return content


def tool_use(tool_id: str, name: str, raw: str, ids: set[str], default: object = None) -> ToolUse:
    """A tool call with the JSON text ``raw`` as its input, or ``default`` without one. ``ids`` are those of earlier
    calls."""
    if not _TOOL_ID.fullmatch(tool_id) or tool_id in ids:
        # Some servers send invalid or duplicate ids, for which the API would reject every later request.
        tool_id = f"toolu_{new_id()}"
    ids.add(tool_id)
    name = name or "unnamed"
    try:
        return ToolUse(tool_id, name, _object(json.loads(raw) if raw.strip() else default or {}))
    except RecursionError:
        return ToolUse(tool_id, name, error=_TOO_DEEP)
    except ValueError as error:
        return ToolUse(tool_id, name, error=str(error))


_TOO_DEEP = f"it is nested more than {MAX_DEPTH} levels deep"


def _object(value: object) -> dict[str, object]:
    """``value`` if it is an object that every later request, client and store can carry as JSON.

    Raises:
        ValueError: it is not; the text says why.
    """
    if not isinstance(value, dict):
        raise ValueError(f"got {type(value).__name__}")
    level: list[object] = [value]
    for _ in range(MAX_DEPTH + 1):
        level = [child for parent in level for child in _children(parent)]
    if level:
        raise ValueError(_TOO_DEEP)
    # Half a surrogate pair could not be encoded.
    json.dumps(value, ensure_ascii=False).encode()
    return cast("dict[str, object]", value)


def _children(value: object) -> Iterator[object]:
    match value:
        case float() if not math.isfinite(value):
            raise ValueError("a number is not finite or too large")
        case dict():
            yield from cast("Json", value).values()
        case list():
            yield from cast("list[object]", value)
        case _:
            pass


def count_of(value: object) -> int | None:
    """``value`` if it is a valid count."""
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 <= value <= MAX_TOKENS else None
