"""Messages to and from a model, made of content blocks.

The vocabulary is common to chat models with tool use. Words of one provider, such as its stop reasons and content block
types, stay in the adapters in ``model/``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, TypeAlias


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Text:
    """Plain or Markdown text."""

    text: str
    type: Literal["text"] = "text"


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Thinking:
    """A thinking block of the model. ``signature`` is opaque and must be sent back unchanged, because the provider
    checks it; an unsigned block is never sent back. ``redacted`` holds opaque data instead of text."""

    thinking: str
    signature: str | None = None
    redacted: str | None = None
    type: Literal["thinking"] = "thinking"


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Image:
    """An image: base64 ``data`` of a ``media_type`` such as ``image/png``."""

    media_type: str
    data: str
    type: Literal["image"] = "image"


@dataclass(frozen=True, slots=True, weakref_slot=True)
class ToolUse:
    """A tool call of the model. ``error`` is set when its input was not a valid JSON object; ``input`` is then empty,
    and the result of the call is an error that the model can correct."""

    id: str
    name: str
    input: Mapping[str, object] = field(default_factory=dict[str, object])
    error: str | None = None
    type: Literal["tool_use"] = "tool_use"


@dataclass(frozen=True, slots=True, weakref_slot=True)
class ToolResult:
    """The result of the :class:`ToolUse` with id ``tool_use_id``. Each has exactly one."""

    tool_use_id: str
    content: str
    is_error: bool = False
    images: tuple[Image, ...] = ()
    type: Literal["tool_result"] = "tool_result"


Block: TypeAlias = Text | Thinking | Image | ToolUse | ToolResult


@dataclass(frozen=True, slots=True)
class Message:
    """One message. ``id`` identifies it in events: its deltas and the complete message have the same one."""

    role: Literal["user", "assistant"]
    content: tuple[Block, ...]
    id: str = ""

    @property
    def text(self) -> str:
        """Its text blocks, joined by newlines."""
        return text_of(self.content)


class StopReason(StrEnum):
    """Why the model stopped. Adapters map the stop reasons of their provider; unknown ones become ``OTHER``."""

    END_TURN = "end_turn"
    TOOL_USE = "tool_use"
    MAX_TOKENS = "max_tokens"
    STOP_SEQUENCE = "stop_sequence"
    PAUSE_TURN = "pause_turn"
    REFUSAL = "refusal"
    CONTEXT_WINDOW = "context_window"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens used, and their cost in US dollars where a price is known. Sums with ``+``.
    ``long_cache_write_tokens`` are those of ``cache_write_tokens`` that the provider keeps for an hour."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cost: float | None = None
    long_cache_write_tokens: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        cost = None if self.cost is None and other.cost is None else (self.cost or 0.0) + (other.cost or 0.0)
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cache_read_tokens + other.cache_read_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
            cost,
            self.long_cache_write_tokens + other.long_cache_write_tokens,
        )

    def since(self, earlier: "Usage") -> "Usage":
        """The difference to an earlier total."""
        return Usage(
            self.input_tokens - earlier.input_tokens,
            self.output_tokens - earlier.output_tokens,
            self.cache_read_tokens - earlier.cache_read_tokens,
            self.cache_write_tokens - earlier.cache_write_tokens,
            None if self.cost is None else self.cost - (earlier.cost or 0.0),
            self.long_cache_write_tokens - earlier.long_cache_write_tokens,
        )


@dataclass(frozen=True, slots=True)
class Source:
    """A page that the web search of a provider found."""

    url: str
    title: str


@dataclass(frozen=True, slots=True)
class Reply:
    """A complete reply of the model. ``searches`` counts the searches of the provider's own web search, ``sources`` are
    the pages it found."""

    message: Message
    stop_reason: StopReason
    usage: Usage = Usage()
    sources: tuple[Source, ...] = ()
    searches: int = 0


def text_of(content: Sequence[Block]) -> str:
    """The text blocks of a message or prompt, joined by newlines; other blocks are left out."""
    return "\n".join(block.text for block in content if isinstance(block, Text))


def tool_uses(message: Message) -> tuple[ToolUse, ...]:
    """The tool calls of ``message``, in the order of the model."""
    return tuple(block for block in message.content if isinstance(block, ToolUse))


def thought_of(message: Message) -> str:
    """The text of its thinking blocks, separated by blank lines."""
    thoughts = (block.thinking for block in message.content if isinstance(block, Thinking))
    return "\n\n".join(filter(str.strip, thoughts))


def final_text(messages: Sequence[Message]) -> str:
    """The text of the last assistant message that has any: the answer of a child that simply stops."""
    for message in reversed(messages):
        if message.role == "assistant" and (text := message.text.strip()):
            return text
    return ""
