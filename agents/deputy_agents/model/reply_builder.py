"""Builds a :class:`Reply` from the event stream of the Messages API.

Events are plain dicts. Unknown or invalid parts are ignored and never raise; only :meth:`ReplyBuilder.reply` detects an
incomplete stream.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias, cast

from deputy_agents.domain.ids import new_id
from deputy_agents.domain.message import Block, Message, Reply, Source, StopReason, Text, Thinking, ToolUse, Usage
from deputy_agents.ports.model import TextPart, ThinkingPart, UsageReported
from deputy_agents.text import well_formed

Json: TypeAlias = Mapping[str, object]

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

    @property
    def text(self) -> str:
        return well_formed("".join(self.parts))


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
        """The reply is complete; later events do not count."""
        return self._stopped

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
            if isinstance(count := usage.get(wire_name), int):
                self._usage[name] = count
        if isinstance(searches := as_json(usage.get("server_tool_use")).get("web_search_requests"), int):
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
                    content.append(_tool_use(opened, ids))
                case _:
                    pass
        return content


def _tool_use(opened: _OpenBlock, ids: set[str]) -> ToolUse:
    tool_id = as_text(opened.start.get("id"))
    if not _TOOL_ID.fullmatch(tool_id) or tool_id in ids:
        # Some servers send invalid or duplicate ids, for which the API would reject every later request.
        tool_id = f"toolu_{new_id()}"
    ids.add(tool_id)
    name = as_text(opened.start.get("name")) or "unnamed"
    raw = "".join(opened.parts)
    if not raw.strip():
        return ToolUse(tool_id, name, dict(as_json(opened.start.get("input"))))
    try:
        return ToolUse(tool_id, name, _object(raw))
    except (ValueError, RecursionError) as error:
        return ToolUse(tool_id, name, error=str(error))


def _object(raw: str) -> dict[str, object]:
    value: object = json.loads(raw, parse_constant=_reject_constant)
    if not isinstance(value, dict):
        raise ValueError(f"got {type(value).__name__}")
    # Half a surrogate pair could not be encoded in any later request.
    json.dumps(value, ensure_ascii=False).encode()
    return cast("dict[str, object]", value)


def _reject_constant(name: str) -> object:
    raise ValueError(f"{name} is not allowed in JSON")
