"""Encodes a :class:`ModelRequest` for the Chat Completions API of OpenAI and of the many services that speak it."""

import json
import re
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import TypeAlias

from deputy_agents.domain.message import Block, Image, Message, Text, Thinking, ToolResult, ToolUse
from deputy_agents.domain.model_card import Effort, ThinkingType
from deputy_agents.ports.model import ModelRequest

Param: TypeAlias = dict[str, object]

_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]")
NAME_LENGTH = 64
EFFORTS = {Effort.LOW: "low", Effort.MEDIUM: "medium", Effort.HIGH: "high", Effort.XHIGH: "xhigh", Effort.MAX: "xhigh"}
"""The levels of effort of OpenAI. The highest one has no own name there."""
NO_OUTPUT = "(no output)"
_IMAGES_OF = "The images of the tool result above:"


def tool_name(name: str) -> str:
    """``name`` as the API accepts it: models invent invalid names."""
    return _NOT_IN_NAMES.sub("_", name)[:NAME_LENGTH]


def result_text(result: ToolResult) -> str:
    """The text of a result. The API has no flag for an error."""
    text = result.content if result.content.strip() else NO_OUTPUT
    return f"Error: {text}" if result.is_error else text


def image_url(image: Image) -> str:
    return f"data:{image.media_type};base64,{image.data}"


def effort_of(request: ModelRequest) -> str | None:
    """The effort to ask for; ``None`` for that of the model."""
    if request.thinking is not None and request.thinking.type is ThinkingType.DISABLED:
        return "none"
    return EFFORTS[request.effort] if request.effort is not None else None


class Field(StrEnum):
    """A field that some services or models reject."""

    COMPLETION_TOKENS = "max_completion_tokens"
    """Its older name is ``max_tokens``. Some models know only one of them."""
    USAGE = "stream_options"
    ENCRYPTED_REASONING = "include"


def chat_body(request: ModelRequest, plain: frozenset[Field] = frozenset()) -> Param:
    """The body of ``POST /chat/completions``, without the fields of ``plain``."""
    messages: list[Param] = []
    if request.system.strip():
        messages.append({"role": "system", "content": request.system})
    for message in request.messages:
        messages += _user_messages(message) if message.role == "user" else _assistant_message(message)
    body: Param = {"model": request.model, "messages": messages, "stream": True}
    if Field.USAGE not in plain:
        body["stream_options"] = {"include_usage": True}
    body["max_tokens" if Field.COMPLETION_TOKENS in plain else "max_completion_tokens"] = request.max_tokens
    if request.temperature is not None:
        body["temperature"] = request.temperature
    if (effort := effort_of(request)) is not None:
        body["reasoning_effort"] = effort
    if request.tools:
        body["tools"] = [
            {
                "type": "function",
                "function": {
                    "name": spec.name,
                    "description": spec.description,
                    "parameters": dict(spec.input_schema),
                },
            }
            for spec in request.tools
        ]
    return body


def _user_messages(message: Message) -> Iterator[Param]:
    """Tool results are messages of their own, and come first. Their images follow in a message of the user."""
    results = [block for block in message.content if isinstance(block, ToolResult)]
    for result in results:
        yield {"role": "tool", "tool_call_id": result.tool_use_id, "content": result_text(result)}
    parts: list[Param] = []
    for images in (result.images for result in results if result.images):
        parts += [_text(_IMAGES_OF), *map(_image, images)]
    parts += _parts(message.content)
    if parts and all(part["type"] == "text" for part in parts):
        yield {"role": "user", "content": "\n\n".join(str(part["text"]) for part in parts)}
    elif parts:
        yield {"role": "user", "content": parts}


def _parts(blocks: Sequence[Block]) -> Iterator[Param]:
    for block in blocks:
        match block:
            case Text(text) if text.strip():
                yield _text(text)
            case Image():
                yield _image(block)
            case _:
                pass


def _assistant_message(message: Message) -> Iterator[Param]:
    text = "".join(block.text for block in message.content if isinstance(block, Text))
    thoughts = [block.thinking for block in message.content if isinstance(block, Thinking) and block.thinking]
    calls = [_call(block) for block in message.content if isinstance(block, ToolUse)]
    if not text.strip() and not calls:
        return
    param: Param = {"role": "assistant", "content": text if text.strip() else None}
    if calls:
        param["tool_calls"] = calls
        if thoughts:  # some services reject a call of a tool without the thinking before it
            param["reasoning_content"] = "\n\n".join(thoughts)
    yield param


def _call(use: ToolUse) -> Param:
    arguments = json.dumps(dict(use.input), ensure_ascii=False)
    return {"id": use.id, "type": "function", "function": {"name": tool_name(use.name), "arguments": arguments}}


def _text(text: str) -> Param:
    return {"type": "text", "text": text}


def _image(image: Image) -> Param:
    return {"type": "image_url", "image_url": {"url": image_url(image)}}
