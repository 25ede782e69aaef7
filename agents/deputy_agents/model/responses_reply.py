"""Builds a :class:`Reply` from the events of the Responses API. Events are plain dicts; unknown ones are ignored."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import cast

from deputy_agents.domain.message import Block, Message, Reply, StopReason, Text, Thinking, Usage
from deputy_agents.model.chat_reply import chat_usage
from deputy_agents.model.reply_builder import Json, as_json, as_text, tool_use
from deputy_agents.model.responses_body import signature_of
from deputy_agents.ports.model import TextPart, ThinkingPart, UsageReported
from deputy_agents.text import well_formed

_INCOMPLETE = {"max_output_tokens": StopReason.MAX_TOKENS, "content_filter": StopReason.REFUSAL}


@dataclass(slots=True)
class _Item:
    """An output item in progress; ``item`` is its latest state."""

    item: Json
    parts: list[str] = field(default_factory=list[str])
    refused: bool = False


class ResponsesReplyBuilder:
    """Builds one reply. Pass every event to :meth:`add`, then call :meth:`reply`."""

    def __init__(self) -> None:
        self._items: dict[int | None, _Item] = {}
        self._end = ""
        self._incomplete = ""
        self._usage = Usage()

    @property
    def ended(self) -> bool:
        return bool(self._end)

    @property
    def complete(self) -> bool:
        return bool(self._end)

    def close(self) -> None:
        """A stream that ends without its last event is incomplete."""

    def add(self, event: Json) -> TextPart | ThinkingPart | UsageReported | None:
        kind, sent = as_text(event.get("type")), event.get("output_index")
        index = sent if isinstance(sent, int) else None
        match kind:
            case "response.output_item.added":
                self._items[index] = _Item(as_json(event.get("item")))
            case "response.output_item.done":
                self._items.setdefault(index, _Item({})).item = as_json(event.get("item"))
            case "response.output_text.delta" | "response.refusal.delta":
                return self._text(index, as_text(event.get("delta")), refused="refusal" in kind)
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                return self._thought(index, as_text(event.get("delta")))
            case "response.function_call_arguments.delta":
                self._items.setdefault(index, _Item({})).parts.append(as_text(event.get("delta")))
            case "response.completed" | "response.incomplete":
                return self._finish(kind, as_json(event.get("response")))
            case _:
                pass
        return None

    def reply(self) -> Reply | None:
        if not self._end:
            return None
        content = tuple(self._content())
        called = any(one.item.get("type") == "function_call" for one in self._items.values())
        stop = StopReason.TOOL_USE if called else StopReason.END_TURN
        if self._end == "response.incomplete":
            stop = _INCOMPLETE.get(self._incomplete, StopReason.OTHER)
        elif not called and any(one.refused for one in self._items.values()):
            stop = StopReason.REFUSAL
        return Reply(Message("assistant", content), stop, self._usage)

    def _text(self, index: int | None, text: str, *, refused: bool) -> TextPart | None:
        item = self._items.setdefault(index, _Item({"type": "message"}))
        item.refused = item.refused or refused
        if not text:
            return None
        item.parts.append(text)
        return TextPart(well_formed(text))

    def _thought(self, index: int | None, text: str) -> ThinkingPart | None:
        self._items.setdefault(index, _Item({"type": "reasoning"})).parts.append(text)
        return ThinkingPart(well_formed(text)) if text else None

    def _finish(self, kind: str, response: Json) -> UsageReported:
        self._end = kind
        self._incomplete = as_text(as_json(response.get("incomplete_details")).get("reason"))
        self._usage = chat_usage(as_json(response.get("usage")))
        return UsageReported(self._usage)

    def _content(self) -> Iterator[Block]:
        ids: set[str] = set()
        for one in self._items.values():
            text = well_formed("".join(one.parts))
            match one.item.get("type"):
                case "message":
                    if text := text or _message_text(one.item):
                        yield Text(text)
                case "reasoning":
                    content = as_text(one.item.get("encrypted_content"))
                    signature = signature_of(as_text(one.item.get("id")), content) if content else None
                    if text or signature:
                        yield Thinking(text, signature)
                case "function_call":
                    raw = as_text(one.item.get("arguments")) or text
                    yield tool_use(as_text(one.item.get("call_id")), as_text(one.item.get("name")), raw, ids)
                case _:
                    pass


def _message_text(item: Json) -> str:
    """The text of a message that came without deltas."""
    parts = item.get("content")
    found = map(as_json, cast("list[object]", parts) if isinstance(parts, list) else ())
    return well_formed("".join(as_text(part.get("text")) or as_text(part.get("refusal")) for part in found))
