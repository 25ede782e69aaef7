"""The rules of the Messages API for requests, as far as Deputy could break them.

:func:`broken_rules` checks a single request and returns a sentence for every broken rule; an empty list means that the
real service would accept the request.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from jsonschema import Draft202012Validator

from tests.support.model_infos import EFFORTS, THINKING, known_model

Json = Mapping[str, Any]

_TOOL_ID = re.compile(r"^[a-zA-Z0-9_-]+$")
_TOOL_NAME = re.compile(r"^[a-zA-Z0-9_-]{1,128}$")
_PROPERTY = re.compile(r"^[a-zA-Z0-9_.-]{1,64}$")
_VALIDATOR = Draft202012Validator(Draft202012Validator.META_SCHEMA)
_MAPS = ("properties", "$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties")
_MAX_CACHE_BREAKPOINTS = 4
_BLOCKS = {
    "user": {"text", "image", "tool_result"},
    "assistant": {"text", "tool_use", "thinking", "redacted_thinking"},
}


def broken_rules(headers: Mapping[str, str], body: Json) -> list[str]:
    """Every rule that a ``POST /v1/messages`` with these headers (lower-case names) and this body breaks."""
    return [*_head(headers, body), *_reasoning(body), *_tools(body), *_messages(body), *_cache(body)]


def _head(headers: Mapping[str, str], body: Json) -> Iterator[str]:
    if "anthropic-version" not in headers:
        yield "anthropic-version: header is required"
    if not isinstance(body.get("model"), str) or not body["model"]:
        yield "model: a name is required"
    max_tokens = body.get("max_tokens")
    if not isinstance(max_tokens, int) or max_tokens < 1:
        yield "max_tokens: a positive integer is required"
    system = body.get("system", "x")
    texts = [system] if isinstance(system, str) else [block.get("text") for block in system]
    if not texts or not all(isinstance(text, str) and text.strip() for text in texts):
        yield "system: text must be non-empty"


_WITHOUT_THINKING = ("disabled", "between_tools")
_FIELDS = {
    "adaptive": {"type", "display"},
    "enabled": {"type", "display", "budget_tokens"},
    **{kind: {"type"} for kind in _WITHOUT_THINKING},
}


def _reasoning(body: Json) -> Iterator[str]:
    """Thinking, effort, and what cannot be combined with them. Of models that the service does not know, only what
    holds for all is checked."""
    model = known_model(str(body.get("model")))
    thinking: Json = body.get("thinking") or {}
    effort = (body.get("output_config") or {}).get("effort")
    kind = thinking.get("type")
    if thinking and kind not in THINKING:
        yield f"thinking.type: Input tag {kind!r} found using 'type' does not match any of the expected tags"
        return
    if thinking.keys() - _FIELDS.get(str(kind), set()):
        yield f"thinking.{kind}: Extra inputs are not permitted"
    if effort is not None and effort not in EFFORTS:
        yield f"output_config.effort: Input should be one of {EFFORTS}"
    if kind in _WITHOUT_THINKING and effort in ("xhigh", "max"):
        yield f"output_config.effort: {effort!r} is not supported when thinking is off"
    if model is not None and kind and kind not in model.thinking:
        yield f'"thinking.type.{kind}" is not supported for this model'
    if model is not None and effort is not None and effort not in model.efforts:
        yield f"This model does not support the effort level {effort!r} (output_config.effort)"
    if model is not None and not model.sampling and "temperature" in body:
        yield "temperature: this model does not support sampling parameters"
    if kind in ("adaptive", "enabled"):
        yield from _thinking_rules(body, thinking)


def _thinking_rules(body: Json, thinking: Json) -> Iterator[str]:
    if body.get("temperature", 1) != 1:
        yield "`temperature` may only be set to 1 when thinking is enabled or in adaptive mode"
    if (body.get("tool_choice") or {}).get("type") in ("any", "tool"):
        yield "Thinking may not be enabled when tool_choice forces tool use"
    if thinking["type"] != "enabled":
        return
    budget = thinking.get("budget_tokens")
    if not isinstance(budget, int) or budget < 1024:
        yield "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024"
    elif budget >= body.get("max_tokens", 0):
        yield "`max_tokens` must be greater than `thinking.budget_tokens`"
    messages: Sequence[Json] = body.get("messages") or []
    if len(messages) > 1 and any(block.get("type") == "tool_result" for block in blocks_of(messages[-1])):
        first = (blocks_of(messages[-2]) or [{}])[0].get("type")
        if first not in ("thinking", "redacted_thinking"):
            yield (
                f"messages.{len(messages) - 2}.content.0.type: Expected `thinking` or `redacted_thinking`, but found "
                f"`{first}`. When `thinking` is enabled, a final `assistant` message must start with a thinking block"
            )


_SERVER_TOOLS = ("web_search_20250305",)
"""Tools that the service runs."""


def _tools(body: Json) -> Iterator[str]:
    names: set[str] = set()
    for index, tool in enumerate(body.get("tools", [])):
        name = tool.get("name")
        if not isinstance(name, str) or not _TOOL_NAME.match(name):
            yield f"tools.{index}.name: invalid"
        elif name in names:
            yield "tools: names must be unique"
        else:
            names.add(name)
        if tool.get("type") not in _SERVER_TOOLS:
            yield from (f"tools.{index}.custom.input_schema{broken}" for broken in broken_schema(tool["input_schema"]))


def broken_schema(schema: Json) -> Iterator[str]:
    """The rules that an input schema breaks."""
    if schema.get("type") != "object":
        yield ".type: must be object"
    if any(key in schema for key in ("oneOf", "allOf", "anyOf")):
        yield ": input_schema does not support oneOf, allOf, or anyOf at the top level"
    names = [name for properties in _all_properties(schema) for name in properties]
    if not all(map(_PROPERTY.match, names)):
        yield f".properties: Property keys should match pattern '{_PROPERTY.pattern}'"
    if not _VALIDATOR.is_valid(schema):
        yield ": JSON schema is invalid. It must match JSON Schema draft 2020-12"


def _all_properties(node: Any) -> Iterator[Json]:
    """All ``properties`` in a schema, at any depth."""
    if isinstance(node, list):
        for one in node:
            yield from _all_properties(one)
    if not isinstance(node, Mapping):
        return
    if isinstance(found := node.get("properties"), Mapping):
        yield found
    for key, one in node.items():
        if key in _MAPS and isinstance(one, Mapping):
            yield from _all_properties(list(one.values()))
        elif key not in ("default", "const", "enum", "examples"):
            yield from _all_properties(one)


def _messages(body: Json) -> Iterator[str]:
    messages: Sequence[Json] = body.get("messages") or []
    if not messages:
        yield "messages: at least one message is required"
        return
    if messages[0].get("role") != "user":
        yield "messages: first message must use the user role"
    seen: set[str] = set()
    previous: Json = {}
    for index, message in enumerate(messages):
        role = message.get("role")
        if role not in _BLOCKS:
            yield f"messages.{index}.role: unknown role {role!r}"
            continue
        if role == previous.get("role"):
            yield f"messages.{index}: roles must alternate"
        blocks = blocks_of(message)
        if not blocks:
            yield f"messages.{index}: content must be non-empty"
        for place, block in enumerate(blocks):
            yield from _block(f"messages.{index}.content.{place}", role, block)
        yield from _ids(index, blocks, seen)
        yield from _tool_results(index, blocks_of(previous) if previous.get("role") == "assistant" else [], blocks)
        previous = message
    yield from _final_blocks(messages)
    yield from _last_message(messages[-1], len(messages) - 1)


def blocks_of(message: Json) -> list[Json]:
    """The content blocks of a message; a plain string counts as one text block."""
    content: Any = message.get("content") or []
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def _block(where: str, role: str, block: Json) -> Iterator[str]:
    kind = block.get("type")
    if kind not in _BLOCKS[role]:
        yield f"{where}: a {kind} block is not allowed in a message of the {role}"
        return
    yield from _CHECKS[kind](where, block)


def _text(where: str, block: Json) -> Iterator[str]:
    if not str(block.get("text", "")).strip():
        yield f"{where}: text content blocks must contain non-whitespace text"


def _thinking(where: str, block: Json) -> Iterator[str]:
    if not block.get("signature"):
        yield f"{where}.thinking.signature: field required"


def _redacted(where: str, block: Json) -> Iterator[str]:
    if not block.get("data"):
        yield f"{where}.redacted_thinking.data: field required"


def _use(where: str, block: Json) -> Iterator[str]:
    if not isinstance(block.get("input"), dict):
        yield f"{where}.tool_use.input: input should be an object"
    if not _TOOL_NAME.match(str(block.get("name", ""))):
        yield f"{where}.tool_use.name: string should match the pattern of a tool's name"


def _result(where: str, block: Json) -> Iterator[str]:
    content = block.get("content")
    if block.get("is_error") and not content:
        yield f"{where}: content cannot be empty if is_error is true"
    if isinstance(content, list):
        parts: list[Json] = list(content)  # pyright: ignore[reportUnknownArgumentType]
        for part in parts:
            check = _image if part.get("type") == "image" else _text
            yield from check(f"{where}.content", part)


def _image(where: str, block: Json) -> Iterator[str]:
    source = block.get("source", {})
    if source.get("type") != "base64" or not source.get("data") or not source.get("media_type"):
        yield f"{where}.image.source: a base64 source is required"


_CHECKS: Mapping[str, Callable[[str, Json], Iterator[str]]] = {
    "text": _text,
    "thinking": _thinking,
    "redacted_thinking": _redacted,
    "tool_use": _use,
    "tool_result": _result,
    "image": _image,
}


def _ids(index: int, blocks: Sequence[Json], seen: set[str]) -> Iterator[str]:
    for block in blocks:
        if block.get("type") != "tool_use":
            continue
        tool_id = str(block.get("id", ""))
        if not _TOOL_ID.match(tool_id):
            yield f"messages.{index}: tool_use.id {tool_id!r} does not match the pattern"
        if tool_id in seen:
            yield f"messages.{index}: tool_use ids must be unique"
        seen.add(tool_id)


def _tool_results(index: int, previous: Sequence[Json], blocks: Sequence[Json]) -> Iterator[str]:
    """Each tool_use has exactly one tool_result in the next message, before all other blocks."""
    expected = [block["id"] for block in previous if block.get("type") == "tool_use"]
    kinds = [block.get("type") for block in blocks]
    given = [block.get("tool_use_id") for block in blocks if block.get("type") == "tool_result"]
    for tool_id in expected:
        if given.count(tool_id) != 1:
            yield f"messages.{index}: tool_use {tool_id} has {given.count(tool_id)} tool_result blocks directly after"
    for tool_id in given:
        if tool_id not in expected:
            yield f"messages.{index}: unexpected tool_use_id {tool_id} in tool_result blocks"
    if "tool_result" in kinds[len(given) :]:
        yield f"messages.{index}: tool_result blocks must come first"


def _last_message(last: Json, index: int) -> Iterator[str]:
    if last.get("role") == "assistant" and any(block.get("type") == "tool_use" for block in blocks_of(last)):
        yield f"messages.{index}: tool_use without a tool_result directly after"
    text = blocks_of(last)[-1].get("text", "") if last.get("role") == "assistant" and blocks_of(last) else ""
    if text != text.rstrip():
        yield f"messages.{index}: final assistant content cannot end with trailing whitespace"


def _final_blocks(messages: Sequence[Json]) -> Iterator[str]:
    """Thinking comes before what it leads to."""
    for index, message in enumerate(messages):
        kinds = [block.get("type") for block in blocks_of(message)]
        if message.get("role") == "assistant" and kinds and kinds[-1] in ("thinking", "redacted_thinking"):
            yield f"messages.{index}: The final block in an assistant message cannot be `thinking`"


def _cache(body: Json) -> Iterator[str]:
    system = body.get("system", "")
    blocks: list[Json] = [] if isinstance(system, str) else list(system)
    blocks += body.get("tools", [])
    messages: Sequence[Json] = body.get("messages") or []
    for message in messages:
        blocks += blocks_of(message)
    marked = [block for block in blocks if "cache_control" in block]
    if len(marked) > _MAX_CACHE_BREAKPOINTS:
        yield f"cache_control: at most {_MAX_CACHE_BREAKPOINTS} blocks, found {len(marked)}"
    if any(block.get("type") in ("thinking", "redacted_thinking") for block in marked):
        yield "cache_control: not allowed on thinking"
    # The order of the service: tools, system, messages.
    tools = body.get("tools", [])
    ordered = [block for block in (*tools, *(block for block in blocks if block not in tools)) if block in marked]
    lives = [block["cache_control"].get("ttl", "5m") for block in ordered]
    if set(lives) - {"5m", "1h"}:
        yield "cache_control.ttl: Input should be '5m' or '1h'"
    if lives != sorted(lives):
        yield "cache_control.ttl: a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block"
