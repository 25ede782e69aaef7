"""The stored format of events, messages and rules: JSON with stable names that are independent of class names.

Decoding is tolerant, because a file may be older or newer than the program: unknown fields are ignored, missing fields
get their defaults, an unknown or invalid event becomes :class:`~deputy_agents.domain.event.Unknown`, and an invalid
block of a message is omitted.
"""

import json
import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, Literal, TypeAlias, cast

from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError, to_json

from deputy_agents.concurrency.long_json import json_parts
from deputy_agents.domain import event as ev
from deputy_agents.domain import message as msg
from deputy_agents.domain.review import ChangesReviewed, CheckpointCreated, SessionRewound
from deputy_agents.domain.rule import Rule
from deputy_agents.ports.store import ContextRecord, PendingPrompt, ViewRecord

logger = logging.getLogger(__name__)

Redact: TypeAlias = Callable[[object], object]
"""Removes secrets from a JSON value."""


def no_redaction(value: object) -> object:
    """Returns ``value`` unchanged."""
    return value


MAX_EVENT = 1024 * 1024
"""Maximum bytes of a stored event. Longer texts in it are truncated with a note. Messages of a model's history are
never truncated, because the model must receive exactly the same messages again."""

MAX_DEPTH = 150
"""Maximum nesting of a stored value. Pydantic's encoder supports about 255 levels."""

EVENTS: Mapping[str, type[ev.Durable]] = {
    "turn_started": ev.TurnStarted,
    "turn_finished": ev.TurnFinished,
    "agent_started": ev.AgentStarted,
    "agent_status": ev.StatusChanged,
    "message": ev.MessageAdded,
    "thought": ev.ThoughtAdded,
    "tool_call": ev.ToolCallStarted,
    "tool_call_update": ev.ToolCallUpdated,
    "permission_requested": ev.PermissionRequested,
    "permission_resolved": ev.PermissionResolved,
    "input_requested": ev.InputRequested,
    "input_resolved": ev.InputResolved,
    "plan": ev.PlanChanged,
    "usage": ev.UsageChanged,
    "agent_finished": ev.AgentFinished,
    "checkpoint_created": CheckpointCreated,
    "session_rewound": SessionRewound,
    "changes_reviewed": ChangesReviewed,
}
"""The stored names of events. A name never changes its meaning."""

BLOCKS: Mapping[str, type[msg.Block]] = {
    "text": msg.Text,
    "thinking": msg.Thinking,
    "image": msg.Image,
    "tool_use": msg.ToolUse,
    "tool_result": msg.ToolResult,
}

_NAMES = {body: name for name, body in EVENTS.items()}

STORED_FIELDS: Mapping[type[object], Mapping[str, str]] = {
    ev.PermissionRequested: {"request": "question"},
    Rule: {"decision": "effect"},
}
"""Fields whose stored name differs from the name in the class. A stored name never changes."""

_TEXT_LIMITS = (64 * 1024, 4 * 1024, 256)
"""Lengths to which texts are truncated, tried in order until the event is small enough."""


def event_type(body: object) -> str | None:
    """The stored name of ``body``; ``None`` if it is never stored."""
    return _NAMES.get(cast("type[ev.Durable]", type(body)))


def encode_event(body: object, redact: Redact = no_redaction) -> str:
    """``body`` as JSON of at most :data:`MAX_EVENT` bytes."""
    stored = _json(body, redact)
    if len(stored) <= MAX_EVENT:
        return stored.decode()
    plain = json.loads(stored)
    for length in _TEXT_LIMITS:
        stored = to_json(_truncated(plain, length))
        if len(stored) <= MAX_EVENT:
            break
    return stored.decode()


def decode_event(name: str, stored: str) -> ev.Body:
    """The body stored under ``name``. Never raises."""
    kind = EVENTS.get(name)
    if kind is None:
        return ev.Unknown(name)
    try:
        if kind in STORED_FIELDS:
            return cast("ev.Durable", _adapter(kind).validate_python(_loaded(kind, json.loads(stored))))
        return cast("ev.Durable", _adapter(kind).validate_json(stored))
    except (ValueError, RecursionError) as error:
        logger.warning("stored event %r cannot be read: %s", name, type(error).__name__)
        return ev.Unknown(name)


def encode_message(message: msg.Message, redact: Redact = no_redaction) -> str:
    head = to_json({"role": message.role, "id": message.id}).decode()
    blocks = ",".join(_json(block, _redaction_for(block, redact)).decode() for block in message.content)
    return f'{head[:-1]},"content":[{blocks}]}}'


def decode_message(stored: str) -> msg.Message | None:
    """The message, or ``None`` if it has no valid block. Never raises."""
    try:
        plain = json.loads(stored)
        blocks = tuple(filter(None, map(_block, cast("list[dict[str, object]]", plain["content"]))))
        role: Literal["user", "assistant"] = "assistant" if plain["role"] == "assistant" else "user"
        return msg.Message(role, blocks, str(plain.get("id", ""))) if blocks else None
    except (ValueError, KeyError, TypeError, AttributeError):
        logger.warning("a stored message cannot be read")
        return None


def _block(plain: Mapping[str, object]) -> msg.Block | None:
    kind = BLOCKS.get(str(plain.get("type")))
    try:
        return None if kind is None else cast("msg.Block", _adapter(kind).validate_python(plain))
    except ValidationError:
        logger.warning("a block %r of a stored message cannot be read", plain.get("type"))
        return None


def encode_context(record: ContextRecord, redact: Redact = no_redaction) -> str:
    return _json(record, redact).decode()


def decode_context(stored: str) -> ContextRecord | None:
    """The record, or ``None`` if it is invalid, which costs a model its thinking. Never raises."""
    try:
        return cast("ContextRecord", _adapter(ContextRecord).validate_json(stored))
    except (ValueError, RecursionError):
        logger.warning("a stored context cannot be read")
        return None


def encode_prompts(prompts: Sequence[PendingPrompt], redact: Redact = no_redaction) -> str:
    stored = [
        {
            "id": prompt.prompt_id,
            "shown": redact(_encodable(prompt.shown)),
            "origin": prompt.origin,
            "message": encode_message(prompt.message, redact),
        }
        for prompt in prompts
    ]
    return to_json(stored).decode()


def decode_prompts(stored: str) -> tuple[PendingPrompt, ...]:
    """The prompts; empty if they cannot be read. Never raises."""
    try:
        return tuple(
            PendingPrompt(str(plain["id"]), message, str(plain["shown"]), str(plain["origin"]))
            for plain in json.loads(stored)
            if (message := decode_message(plain["message"])) is not None
        )
    except (ValueError, KeyError, TypeError, RecursionError):
        logger.warning("stored prompts cannot be read")
        return ()


def encode_notes(notes: Sequence[str], redact: Redact = no_redaction) -> str:
    return to_json([redact(_encodable(note)) for note in notes]).decode()


def decode_notes(stored: str) -> tuple[str, ...]:
    """The notes; empty if they cannot be read. Never raises."""
    try:
        return tuple(map(str, json.loads(stored)))
    except (ValueError, TypeError, RecursionError):
        logger.warning("stored notes cannot be read")
        return ()


def encode_view(record: ViewRecord, redact: Redact = no_redaction) -> tuple[bytes, bytes]:
    """The facts and the index of a saved view. Of the facts, each agent is encoded by itself: no other thread runs
    while the library encodes."""
    return _json_of_fields(record.facts, redact), _json(record.index, no_redaction)


def encode_rules(rules: Sequence[Rule]) -> str:
    plain = _adapter(tuple[Rule, ...]).dump_python(tuple(rules), mode="json")
    return to_json([_stored(Rule, rule) for rule in plain]).decode()


def decode_rules(stored: str) -> tuple[Rule, ...]:
    """The rules; empty if they are invalid, so that the user is asked more often, not less. Never raises."""
    try:
        rules = [_loaded(Rule, rule) for rule in json.loads(stored)]
        return cast("tuple[Rule, ...]", _adapter(tuple[Rule, ...]).validate_python(rules))
    except (ValueError, TypeError, RecursionError):
        logger.warning("stored rules cannot be read")
        return ()


@cache
def _adapter(kind: type[object]) -> TypeAdapter[Any]:
    return TypeAdapter[Any](kind)


def _redaction_for(block: msg.Block, redact: Redact) -> Redact:
    """Signed thinking must be sent back unchanged, and an image contains no text."""
    return no_redaction if isinstance(block, msg.Thinking | msg.Image) else redact


def _json_of_fields(value: Any, redact: Redact) -> bytes:
    """``value``, a dataclass; what its tuples contain is encoded one by one."""
    encoded: list[bytes] = []
    for name in (field.name for field in fields(value)):
        content: object = getattr(value, name)
        if isinstance(content, tuple):
            json = b"[%b]" % b",".join(_json(one, redact) for one in cast("tuple[object, ...]", content))
        else:
            json = _json(content, redact)
        encoded.append(b"%b:%b" % (to_json(name), json))
    return b"{%b}" % b",".join(encoded)


def _json(value: object, redact: Redact) -> bytes:
    adapter = _adapter(type(value))
    try:
        if redact is no_redaction and type(value) not in STORED_FIELDS:
            return adapter.dump_json(value)
        plain = redact(_stored(type(value), adapter.dump_python(value, mode="json")))
        return b"".join(json_parts(plain))
    except (PydanticSerializationError, ValueError, RecursionError):
        # Models, MCP servers and hooks can produce values that JSON or its encoder does not support. One such value
        # must not prevent the rest of the session from being stored.
        return to_json(redact(_stored(type(value), _encodable(value))))


def _stored(kind: type[object], plain: object) -> object:
    """``plain``, the fields of a ``kind``, with their stored names."""
    return _renamed(plain, STORED_FIELDS[kind]) if kind in STORED_FIELDS else plain


def _loaded(kind: type[object], plain: object) -> object:
    """The inverse of :func:`_stored`."""
    names = {stored: name for name, stored in STORED_FIELDS[kind].items()}
    return _renamed(plain, names)


def _renamed(plain: object, names: Mapping[str, str]) -> object:
    if not isinstance(plain, dict):
        return plain
    return {names.get(name, name): field for name, field in cast("dict[str, object]", plain).items()}


def _encodable(value: object, depth: int = 0) -> object:
    """``value`` as JSON: halves of surrogate pairs and numbers that JSON does not have are replaced, and what is nested
    deeper than :data:`MAX_DEPTH` is left out."""
    if depth > MAX_DEPTH:
        return "[… nested too deeply to be stored]"
    match value:
        case str():
            return value.encode("utf-8", "replace").decode()
        case float():
            return value if math.isfinite(value) else str(value)
        case None | int() | Enum():
            return value
        case Mapping():
            found = cast("Mapping[object, object]", value)
            return {str(_encodable(str(name))): _encodable(field, depth + 1) for name, field in found.items()}
        case list() | tuple() | set() | frozenset():
            return [_encodable(item, depth + 1) for item in cast("Iterable[object]", value)]
        case _ if is_dataclass(value):
            return {field.name: _encodable(getattr(value, field.name), depth) for field in fields(value)}
        case _:
            return _encodable(str(value))


def _truncated(value: object, length: int) -> object:
    """``value`` with texts of at most ``length`` characters, and lists and objects of at most ``length`` entries."""
    match value:
        case str() if len(value) > length:
            return f"{value[:length]}\n[… {len(value) - length} more characters were not stored]"
        case dict():
            found = list(cast("dict[str, object]", value).items())
            return {name[:length]: _truncated(field, length) for name, field in found[:length]}
        case list():
            return [_truncated(item, length) for item in cast("list[object]", value)[:length]]
        case _:
            return value
