"""Whether a provider would accept a model history, checked on domain messages.

The rules of the API come from :mod:`tests.support.api_rules` and are applied after messages of the same role are
merged, as an adapter may do. Rules that merging would hide are checked before: a tool result must be in the next
message.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby

from deputy_agents.domain.message import Block, Image, Message, Text, Thinking, ToolResult, ToolUse, tool_uses
from tests.support.api_rules import Json, broken_rules

_HEADERS = {"anthropic-version": "2023-06-01"}


def broken_history_rules(history: Sequence[Message]) -> list[str]:
    """A sentence for every rule that ``history`` breaks as the messages of a request."""
    body = {"model": "any", "max_tokens": 1, "messages": _merged(history)}
    return [*_shape(history), *_tool_results(history), *broken_rules(_HEADERS, body)]


def _shape(history: Sequence[Message]) -> Iterator[str]:
    for index, message in enumerate(history):
        if not message.content:
            yield f"{index}: a message needs content"
        elif message.role == "assistant" and isinstance(message.content[-1], Thinking):
            yield f"{index}: the last block of an assistant message is thinking"


def _tool_results(history: Sequence[Message]) -> Iterator[str]:
    for index, message in enumerate(history):
        expected = [use.id for use in tool_uses(history[index - 1])] if index else []
        given = [block.tool_use_id for block in message.content if isinstance(block, ToolResult)]
        if expected != given:
            yield f"{index}: the previous message calls {expected}, and this one has results for {given}"


def _merged(history: Sequence[Message]) -> list[Json]:
    return [
        {"role": role, "content": [_wire(block) for message in group for block in message.content]}
        for role, group in groupby(history, key=lambda message: message.role)
    ]


def _wire(block: Block) -> Json:
    match block:
        case Text(text):
            return {"type": "text", "text": text}
        case Thinking(redacted=str(data)):
            return {"type": "redacted_thinking", "data": data}
        case Thinking(thinking, signature):
            return {"type": "thinking", "thinking": thinking, "signature": signature}
        case Image(media_type, data):
            return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}}
        case ToolUse():
            return {"type": "tool_use", "id": block.id, "name": block.name, "input": dict(block.input)}
        case ToolResult():
            return {
                "type": "tool_result",
                "tool_use_id": block.tool_use_id,
                "content": block.content,
                "is_error": block.is_error,
            }
