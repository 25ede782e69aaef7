"""Converts a :class:`ModelRequest` to parameters of the Messages API.

The conversion is a pure function of the request, including the order of keys. Later requests of a conversation start
with the same bytes, which the provider's prompt cache requires.
"""

import re
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from deputy_agents.domain.message import Block, Image, Message, Text, Thinking, ToolResult, ToolUse
from deputy_agents.ports.model import ModelRequest

Param: TypeAlias = dict[str, object]

_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]")
_NAME_LENGTH = 128
_WEB_SEARCH: Param = {"type": "web_search_20250305", "name": "web_search", "max_uses": 5}
"""A tool that the service runs."""

_CACHED: Param = {"type": "ephemeral"}
_NO_OUTPUT = "(no output)"
"""Replaces an empty result: the API rejects an empty error result, and models misread empty results."""


def to_params(request: ModelRequest) -> Param:
    """The body of ``POST /v1/messages``, streaming.

    The last tool, the system text and the last block of the last two user messages have cache breakpoints. Of the last
    two, one reads what the previous request wrote and one writes for the next request.
    """
    params: Param = {"model": request.model, "max_tokens": request.max_tokens, "stream": True}
    if request.temperature is not None:
        params["temperature"] = request.temperature
    if request.search:
        params["tools"] = [dict(_WEB_SEARCH)]
    elif tools := _tools(request):
        tools[-1]["cache_control"] = _CACHED
        params["tools"] = tools
    if request.system.strip():
        params["system"] = [{"type": "text", "text": request.system, "cache_control": _CACHED}]
    turns = _turns(request.messages)
    for _, blocks in [turn for turn in turns if turn[0] == "user"][-2:]:
        blocks[-1]["cache_control"] = _CACHED
    params["messages"] = [{"role": role, "content": blocks} for role, blocks in turns]
    return params


def _tools(request: ModelRequest) -> list[Param]:
    specs = sorted(request.tools, key=lambda spec: spec.name)
    return [
        {"name": spec.name, "description": spec.description, "input_schema": dict(spec.input_schema)} for spec in specs
    ]


def _turns(messages: Sequence[Message]) -> list[tuple[str, list[Param]]]:
    """Messages as the API requires them: roles alternate, none is empty, and tool results come first."""
    turns: list[tuple[str, list[Param]]] = []
    for message in messages:
        blocks = [param for block in message.content for param in _block(block)]
        if not blocks:
            continue
        if turns and turns[-1][0] == message.role:
            turns[-1][1].extend(blocks)
        else:
            turns.append((message.role, blocks))
    for _, blocks in turns:
        blocks.sort(key=lambda block: block["type"] != "tool_result")
    if turns and turns[-1][0] == "assistant":
        _strip_end(turns[-1][1][-1])
    return turns


def _strip_end(block: Param) -> None:
    """Removes trailing whitespace, which the API rejects in a reply that the model continues."""
    if isinstance(text := block.get("text"), str):
        block["text"] = text.rstrip()


def _block(block: Block) -> Iterator[Param]:
    """The block in the form of the API, or nothing if the API would reject it."""
    match block:
        case Text(text):
            if text.strip():
                yield {"type": "text", "text": text}
        case Image():
            yield _image(block)
        case Thinking(redacted=str(data)):
            yield {"type": "redacted_thinking", "data": data}
        case Thinking(thinking, str(signature)):
            yield {"type": "thinking", "thinking": thinking, "signature": signature}
        case Thinking():
            return
        case ToolUse():
            name = _NOT_IN_NAMES.sub("_", block.name)[:_NAME_LENGTH]  # models invent invalid names
            yield {"type": "tool_use", "id": block.id, "name": name, "input": dict(block.input)}
        case ToolResult():
            yield _result(block)


def _image(image: Image) -> Param:
    source = {"type": "base64", "media_type": image.media_type, "data": image.data}
    return {"type": "image", "source": source}


def _result(result: ToolResult) -> Param:
    text = result.content if result.content.strip() else ""
    content: object = text or _NO_OUTPUT
    if result.images:
        parts: list[Param] = [{"type": "text", "text": text}] if text else []
        content = parts + [_image(image) for image in result.images]
    param: Param = {"type": "tool_result", "tool_use_id": result.tool_use_id, "content": content}
    return {**param, "is_error": True} if result.is_error else param
