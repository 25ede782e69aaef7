"""Parts of a :class:`ModelRequest` as parameters of the Messages API. They are pure functions of the request, including
the order of keys."""

import re
from collections.abc import Iterator, Mapping
from typing import TypeAlias

from deputy_agents.domain.message import Block, Image, Text, Thinking, ToolResult, ToolUse
from deputy_agents.domain.model_card import ThinkingType
from deputy_agents.ports.model import ModelRequest

Param: TypeAlias = dict[str, object]

_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]")
_NAME_LENGTH = 128
_WEB_SEARCH: Param = {"type": "web_search_20250305", "name": "web_search", "max_uses": 5}
"""A tool that the service runs."""

CACHED: Param = {"type": "ephemeral"}
CACHED_LONG: Param = {"type": "ephemeral", "ttl": "1h"}
_THINKING: Mapping[ThinkingType, Param] = {
    ThinkingType.ADAPTIVE: {"type": "adaptive", "display": "summarized"},
    ThinkingType.BUDGET: {"type": "enabled", "display": "summarized"},
    ThinkingType.BETWEEN_TOOLS: {"type": "between_tools"},
    ThinkingType.DISABLED: {"type": "disabled"},
}
"""Most models leave out the text of their thinking unless they are asked for it."""
_NO_OUTPUT = "(no output)"
"""Replaces an empty result: the API rejects an empty error result, and models misread empty results."""


def head_params(request: ModelRequest) -> Param:
    """The body of ``POST /v1/messages``, streaming, without its messages. The last tool and the system text have cache
    breakpoints."""
    params: Param = {"model": request.model, "max_tokens": request.max_tokens, "stream": True}
    if request.temperature is not None:
        params["temperature"] = request.temperature
    if (thinking := request.thinking) is not None:
        budget: Param = {"budget_tokens": thinking.budget} if thinking.type is ThinkingType.BUDGET else {}
        params["thinking"] = {**_THINKING[thinking.type], **budget}
    if request.effort is not None:
        params["output_config"] = {"effort": request.effort.value}
    cached = CACHED_LONG if request.long_cache_of_head else CACHED
    if request.search:
        params["tools"] = [dict(_WEB_SEARCH)]
    elif tools := _tools(request):
        tools[-1]["cache_control"] = cached
        params["tools"] = tools
    if request.system.strip():
        params["system"] = [{"type": "text", "text": request.system, "cache_control": cached}]
    return params


def _tools(request: ModelRequest) -> list[Param]:
    return [
        {"name": spec.name, "description": spec.description, "input_schema": dict(spec.input_schema)}
        for spec in request.tools
    ]


def block_params(block: Block) -> Iterator[Param]:
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
