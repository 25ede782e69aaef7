"""Encodes a :class:`ModelRequest` for the Responses API of OpenAI. Nothing is stored there: each request has the whole
conversation, with the encrypted reasoning of the model."""

import json
from collections.abc import Iterator

from deputy_agents.domain.message import Block, Image, Message, Text, Thinking, ToolResult, ToolUse
from deputy_agents.model.chat_body import NO_OUTPUT, Field, Param, effort_of, image_url, result_text, tool_name
from deputy_agents.ports.model import ModelRequest

REASONING = "reasoning:"
"""The beginning of the signature of a thinking block that holds the id and the content of a reasoning item."""


def responses_body(request: ModelRequest, plain: frozenset[Field] = frozenset()) -> Param:
    """The body of ``POST /responses``, without the fields of ``plain``."""
    body: Param = {
        "model": request.model,
        "input": [item for message in request.messages for item in _items(message)],
        "stream": True,
        "store": False,
        "max_output_tokens": request.max_tokens,
    }
    if Field.ENCRYPTED_REASONING not in plain:
        body["include"] = ["reasoning.encrypted_content"]
    if request.system.strip():
        body["instructions"] = request.system
    if request.temperature is not None:
        body["temperature"] = request.temperature
    effort = effort_of(request)
    if effort is not None or request.thinking is not None:
        reasoning: Param = {"summary": "auto"}
        body["reasoning"] = reasoning if effort is None else {**reasoning, "effort": effort}
    if request.tools:
        body["tools"] = [
            {
                "type": "function",
                "name": spec.name,
                "description": spec.description,
                "parameters": dict(spec.input_schema),
                "strict": False,
            }
            for spec in request.tools
        ]
    return body


def signature_of(item_id: str, content: str) -> str:
    """What a thinking block keeps of a reasoning item."""
    return REASONING + json.dumps([item_id, content])


def _items(message: Message) -> Iterator[Param]:
    """The items of a message: tool results first, then what the user wrote."""
    results = [block for block in message.content if isinstance(block, ToolResult)]
    for result in results:
        yield {"type": "function_call_output", "call_id": result.tool_use_id, "output": _output(result)}
    parts: list[Param] = []
    for block in message.content:
        match block:
            case Text(text) if text.strip():
                kind = "input_text" if message.role == "user" else "output_text"
                parts.append({"type": kind, "text": text})
            case Image():
                parts.append({"type": "input_image", "image_url": image_url(block)})
            case Thinking() | ToolUse():
                yield from _flushed(message.role, parts)
                parts = []
                yield from _item(block)
            case _:
                pass
    yield from _flushed(message.role, parts)


def _flushed(role: str, parts: list[Param]) -> Iterator[Param]:
    if parts:
        yield {"type": "message", "role": role, "content": parts}


def _item(block: Block) -> Iterator[Param]:
    match block:
        case Thinking(signature=str(signature)) if signature.startswith(REASONING):
            item_id, content = json.loads(signature.removeprefix(REASONING))
            summary = [{"type": "summary_text", "text": block.thinking}] if block.thinking else []
            yield {"type": "reasoning", "id": item_id, "summary": summary, "encrypted_content": content}
        case ToolUse():
            arguments = json.dumps(dict(block.input), ensure_ascii=False)
            name = tool_name(block.name)
            yield {"type": "function_call", "call_id": block.id, "name": name, "arguments": arguments}
        case _:
            return


def _output(result: ToolResult) -> object:
    if not result.images:
        return result_text(result)
    text = result_text(result)
    parts: list[Param] = [] if text == NO_OUTPUT else [{"type": "input_text", "text": text}]
    return [*parts, *({"type": "input_image", "image_url": image_url(image)} for image in result.images)]
