"""Builds a :class:`Reply` from the chunks of the Chat Completions API.

Chunks are plain dicts. Services differ: arguments of calls come in pieces of any size, ``content`` may be null, usage
comes in a last chunk without choices or never, and some streams end without a finish reason or ``[DONE]``.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import cast

from deputy_agents.domain.message import Block, Message, Reply, StopReason, Text, Thinking, Usage
from deputy_agents.model.event_stream import DONE
from deputy_agents.model.reply_builder import Json, as_json, as_text, count_of, tool_use
from deputy_agents.ports.model import TextPart, ThinkingPart, UsageReported
from deputy_agents.text import well_formed

STOP_REASONS = {
    "stop": StopReason.END_TURN,
    "end_turn": StopReason.END_TURN,
    "tool_calls": StopReason.TOOL_USE,
    "function_call": StopReason.TOOL_USE,
    "length": StopReason.MAX_TOKENS,
    "content_filter": StopReason.REFUSAL,
}
_THOUGHTS = ("reasoning_content", "reasoning")
"""Fields in which services send the reasoning of the model."""


@dataclass(slots=True)
class _OpenCall:
    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list[str])


class ChatReplyBuilder:
    """Builds one reply. Pass every chunk to :meth:`add`, then call :meth:`close` and :meth:`reply`."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._thoughts: list[str] = []
        self._refused = False
        self._calls: dict[object, _OpenCall] = {}
        self._last_call: _OpenCall | None = None
        self._usage: Usage | None = None
        self._finish = ""
        self._done = False

    @property
    def ended(self) -> bool:
        return bool(self._finish) or self._done

    @property
    def complete(self) -> bool:
        return self._done or bool(self._finish and self._usage is not None)

    def close(self) -> None:
        """Some services end the stream without a finish reason. It counts if what arrived is a whole reply."""
        calls = all(_is_json("".join(call.arguments)) for call in self._calls.values())
        self._done = self._done or (calls and bool(self._calls or "".join(self._text).strip()))

    def add(self, event: Json) -> TextPart | ThinkingPart | UsageReported | None:
        if event is DONE:
            self._done = self.ended or bool(self._text or self._calls)
            return None
        reported = self._count(as_json(event.get("usage")))
        choices = event.get("choices")
        choice = as_json(cast("list[object]", choices)[0] if isinstance(choices, list) and choices else None)
        delta = as_json(choice.get("delta")) or as_json(choice.get("message"))
        part = self._delta(delta)
        self._finish = as_text(choice.get("finish_reason")) or self._finish
        return part or reported

    def reply(self) -> Reply | None:
        if not self.ended:
            return None
        content = tuple(self._content())
        called = bool(self._calls)
        stop = STOP_REASONS.get(self._finish, StopReason.OTHER if self._finish else StopReason.END_TURN)
        if called and stop in (StopReason.END_TURN, StopReason.OTHER):  # some services say `stop` for calls too
            stop = StopReason.TOOL_USE
        elif stop is StopReason.TOOL_USE and not called:
            stop = StopReason.END_TURN
        if self._refused and not called:
            stop = StopReason.REFUSAL
        return Reply(Message("assistant", content), stop, self._usage or Usage())

    def _delta(self, delta: Json) -> TextPart | ThinkingPart | None:
        self._add_calls(delta)
        thought = next((text for name in _THOUGHTS if (text := as_text(delta.get(name)))), "")
        if thought:
            self._thoughts.append(thought)
        refusal = as_text(delta.get("refusal"))
        self._refused = self._refused or bool(refusal)
        text = _content_text(delta.get("content")) or refusal
        if text:
            self._text.append(text)
            return TextPart(well_formed(text))
        return ThinkingPart(well_formed(thought)) if thought else None

    def _add_calls(self, delta: Json) -> None:
        """Pieces of a call have its index. Where it is missing, a piece with an id or a name begins a call."""
        sent = delta.get("tool_calls")
        for piece in map(as_json, cast("list[object]", sent) if isinstance(sent, list) else ()):
            function = as_json(piece.get("function"))
            call_id, name = as_text(piece.get("id")), as_text(function.get("name"))
            index = piece.get("index")
            if not isinstance(index, int):
                is_new = (
                    self._last_call is None or call_id not in ("", self._last_call.id) or (bool(name) and not call_id)
                )
                index = len(self._calls) if is_new else len(self._calls) - 1
            call = self._calls.setdefault(index, _OpenCall())
            call.id, call.name = call.id or call_id, call.name or name
            arguments = function.get("arguments")
            call.arguments.append(json.dumps(arguments) if isinstance(arguments, dict) else as_text(arguments))
            self._last_call = call

    def _count(self, usage: Json) -> UsageReported | None:
        if not usage:
            return None
        self._usage = chat_usage(usage)
        return UsageReported(self._usage)

    def _content(self) -> Iterator[Block]:
        if thought := "".join(self._thoughts):
            yield Thinking(well_formed(thought))
        if text := "".join(self._text):
            yield Text(well_formed(text))
        ids: set[str] = set()
        for call in self._calls.values():
            yield tool_use(call.id, call.name, well_formed("".join(call.arguments)), ids)


def chat_usage(usage: Json) -> Usage:
    """The usage of the API. Its prompt tokens include those from the cache."""
    details = as_json(usage.get("prompt_tokens_details")) or as_json(usage.get("input_tokens_details"))
    prompt = count_of(usage.get("prompt_tokens")) or count_of(usage.get("input_tokens")) or 0
    cached = count_of(details.get("cached_tokens")) or count_of(usage.get("prompt_cache_hit_tokens")) or 0
    cached = min(cached, prompt)
    output = count_of(usage.get("completion_tokens")) or count_of(usage.get("output_tokens")) or 0
    return Usage(input_tokens=prompt - cached, output_tokens=output, cache_read_tokens=cached)


def _content_text(content: object) -> str:
    if isinstance(content, list):  # some services send parts
        return "".join(as_text(as_json(part).get("text")) for part in cast("list[object]", content))
    return as_text(content)


def _is_json(text: str) -> bool:
    try:
        json.loads(text or "{}")
    except (ValueError, RecursionError):
        return False
    return True
