"""What is said to a model and by it: messages made of content blocks.

The vocabulary is that of chat models with tool use in general. Provider words (stop reasons of an API, content
block types of a wire) stay in the adapters under ``model/``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, TypeAlias


@dataclass(frozen=True, slots=True)
class Text:
    """Plain or Markdown text."""

    text: str
    type: Literal["text"] = "text"


@dataclass(frozen=True, slots=True)
class Thinking:
    """A reasoning block of the model. ``signature`` is opaque and must be sent back unchanged, as the model's
    provider checks it; an unsigned block is never sent back. ``redacted`` holds opaque data instead of text."""

    thinking: str
    signature: str | None = None
    redacted: str | None = None
    type: Literal["thinking"] = "thinking"


@dataclass(frozen=True, slots=True)
class Image:
    """A picture: base64 ``data`` of a ``media_type`` such as ``image/png``."""

    media_type: str
    data: str
    type: Literal["image"] = "image"


@dataclass(frozen=True, slots=True)
class ToolUse:
    """The model asks for a tool. ``error`` is set when its input was no valid JSON object (the raw text is then
    not kept in ``input``); such a call is answered with an error that the model can mend."""

    id: str
    name: str
    input: Mapping[str, object] = field(default_factory=dict[str, object])
    error: str | None = None
    type: Literal["tool_use"] = "tool_use"


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The one answer to the :class:`ToolUse` with id ``tool_use_id``."""

    tool_use_id: str
    content: str
    is_error: bool = False
    images: tuple[Image, ...] = ()
    type: Literal["tool_result"] = "tool_result"


Block: TypeAlias = Text | Thinking | Image | ToolUse | ToolResult


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of one side. ``id`` names it in events: deltas and the whole carry the same one."""

    role: Literal["user", "assistant"]
    content: tuple[Block, ...]
    id: str = ""

    @property
    def text(self) -> str:
        """Its words, without thinking and tool use."""
        return text_of(self.content)


class StopReason(StrEnum):
    """Why the model stopped; an adapter maps what its provider says, and ``OTHER`` holds all that is new."""

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
    """Tokens used, and their cost in US dollars where a price is known. Sums with ``+``."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cost: float | None = None

    def __add__(self, other: "Usage") -> "Usage":
        cost = None if self.cost is None and other.cost is None else (self.cost or 0.0) + (other.cost or 0.0)
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cache_read_tokens + other.cache_read_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
            cost,
        )

    def since(self, earlier: "Usage") -> "Usage":
        """What has come to ``earlier``, of which this is the later total."""
        return Usage(
            self.input_tokens - earlier.input_tokens,
            self.output_tokens - earlier.output_tokens,
            self.cache_read_tokens - earlier.cache_read_tokens,
            self.cache_write_tokens - earlier.cache_write_tokens,
            None if self.cost is None else self.cost - (earlier.cost or 0.0),
        )


@dataclass(frozen=True, slots=True)
class Source:
    """A page that a model's provider has found."""

    url: str
    title: str


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole answer of the model. ``searches`` counts those of the provider's own web search, which has found
    ``sources``."""

    message: Message
    stop_reason: StopReason
    usage: Usage = Usage()
    sources: tuple[Source, ...] = ()
    searches: int = 0


def text_of(content: Sequence[Block]) -> str:
    """The text blocks of a message or prompt joined by newlines; all else is left out."""
    return "\n".join(block.text for block in content if isinstance(block, Text))


def tool_uses(message: Message) -> tuple[ToolUse, ...]:
    """The tool calls of ``message``, in the order in which the model made them."""
    return tuple(block for block in message.content if isinstance(block, ToolUse))


def final_text(messages: Sequence[Message]) -> str:
    """The text of the last assistant message that has any: what a child that just stops has to say."""
    for message in reversed(messages):
        if message.role == "assistant" and (text := message.text.strip()):
            return text
    return ""
