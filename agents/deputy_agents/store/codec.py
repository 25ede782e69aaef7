"""Stored form of events, messages and rules: JSON, by tables of names that outlive the classes.

Reading is tolerant, as a file may be older or newer than the program: unknown fields are ignored, absent ones have
their defaults, an unknown or unreadable event becomes :class:`~deputy_agents.domain.event.Unknown`, and a block of a
message that cannot be read is left out.
"""

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Literal, TypeAlias, cast

from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError, to_json

from deputy_agents.domain import event as ev
from deputy_agents.domain import message as msg
from deputy_agents.domain.rule import Rule

logger = logging.getLogger(__name__)

Redact: TypeAlias = Callable[[object], object]
"""Takes secrets out of a JSON value."""


def no_redaction(value: object) -> object:
    """Takes nothing out."""
    return value


MAX_EVENT = 1024 * 1024
"""Bytes of one stored event. Longer texts in it are cut, with a mark that says so; a message of a model's history is
never cut, as the model must be told the same again."""

EVENTS: Mapping[str, type[ev.Durable]] = {
    "turn_started": ev.TurnStarted,
    "turn_finished": ev.TurnFinished,
    "agent_started": ev.AgentStarted,
    "agent_status": ev.StatusChanged,
    "message": ev.MessageAdded,
    "tool_call": ev.ToolCallStarted,
    "tool_call_update": ev.ToolCallUpdated,
    "permission_requested": ev.PermissionRequested,
    "permission_resolved": ev.PermissionResolved,
    "plan": ev.PlanChanged,
    "usage": ev.UsageChanged,
    "agent_finished": ev.AgentFinished,
}
"""Names under which events are stored. A name, once used, keeps its meaning."""

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
"""Fields that are stored under another name than the class gives them. A stored name never changes."""

_CUTS = (64 * 1024, 4 * 1024, 256)
"""Lengths to which texts are cut, one after the other, until an event fits."""


def event_type(body: object) -> str | None:
    """The name under which ``body`` is stored; ``None`` for what is never stored."""
    return _NAMES.get(cast("type[ev.Durable]", type(body)))


def encode_event(body: object, redact: Redact = no_redaction) -> str:
    """``body`` as JSON of at most :data:`MAX_EVENT` bytes."""
    stored = _json(body, redact)
    if len(stored) <= MAX_EVENT:
        return stored.decode()
    plain = json.loads(stored)
    for length in _CUTS:
        stored = to_json(_cut(plain, length))
        if len(stored) <= MAX_EVENT:
            break
    return stored.decode()


def decode_event(name: str, stored: str) -> ev.Body:
    """The body that was stored under ``name``. Never raises."""
    kind = EVENTS.get(name)
    if kind is None:
        return ev.Unknown(name)
    try:
        if kind in STORED_FIELDS:
            return cast("ev.Durable", _adapter(kind).validate_python(_loaded(kind, json.loads(stored))))
        return cast("ev.Durable", _adapter(kind).validate_json(stored))
    except ValueError as error:
        logger.warning("stored event %r cannot be read: %s", name, type(error).__name__)
        return ev.Unknown(name)


def encode_message(message: msg.Message, redact: Redact = no_redaction) -> str:
    head = to_json({"role": message.role, "id": message.id}).decode()
    blocks = ",".join(_json(block, _sparing(block, redact)).decode() for block in message.content)
    return f'{head[:-1]},"content":[{blocks}]}}'


def decode_message(stored: str) -> msg.Message | None:
    """The message, or ``None`` when nothing of it can be read. Never raises."""
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


def encode_rules(rules: Sequence[Rule]) -> str:
    plain = _adapter(tuple[Rule, ...]).dump_python(tuple(rules), mode="json")
    return to_json([_stored(Rule, rule) for rule in plain]).decode()


def decode_rules(stored: str) -> tuple[Rule, ...]:
    """The rules; none when they cannot be read, so that more is asked and not less. Never raises."""
    try:
        rules = [_loaded(Rule, rule) for rule in json.loads(stored)]
        return cast("tuple[Rule, ...]", _adapter(tuple[Rule, ...]).validate_python(rules))
    except (ValueError, TypeError):
        logger.warning("stored rules cannot be read")
        return ()


@cache
def _adapter(kind: type[object]) -> TypeAdapter[Any]:
    return TypeAdapter[Any](kind)


def _sparing(block: msg.Block, redact: Redact) -> Redact:
    """A signed thought is sent back as it came or not at all, and a picture is no text."""
    return no_redaction if isinstance(block, msg.Thinking | msg.Image) else redact


def _json(value: object, redact: Redact) -> bytes:
    adapter = _adapter(type(value))
    try:
        if redact is no_redaction and type(value) not in STORED_FIELDS:
            return adapter.dump_json(value)
        return to_json(redact(_stored(type(value), adapter.dump_python(value, mode="json"))))
    except PydanticSerializationError:
        # Halves of surrogate pairs, which a model can make and no encoding can hold.
        return to_json(redact(_stored(type(value), _sound(adapter.dump_python(value)))))


def _stored(kind: type[object], plain: object) -> object:
    """``plain``, the fields of a ``kind``, under the names that are stored."""
    return _renamed(plain, STORED_FIELDS[kind]) if kind in STORED_FIELDS else plain


def _loaded(kind: type[object], plain: object) -> object:
    """The inverse of :func:`_stored`."""
    names = {stored: name for name, stored in STORED_FIELDS[kind].items()}
    return _renamed(plain, names)


def _renamed(plain: object, names: Mapping[str, str]) -> object:
    if not isinstance(plain, dict):
        return plain
    return {names.get(name, name): field for name, field in cast("dict[str, object]", plain).items()}


def _sound(value: object) -> object:
    match value:
        case str():
            return value.encode("utf-8", "replace").decode()
        case Mapping():
            fields = cast("Mapping[object, object]", value)
            return {_sound(str(name)): _sound(field) for name, field in fields.items()}
        case list() | tuple():
            return [_sound(item) for item in cast("Sequence[object]", value)]
        case _:
            return value


def _cut(value: object, length: int) -> object:
    """``value`` with texts of at most ``length`` characters, and lists and objects of as many parts."""
    match value:
        case str() if len(value) > length:
            return f"{value[:length]}\n[… {len(value) - length} more characters were not stored]"
        case dict():
            fields = list(cast("dict[str, object]", value).items())
            return {name[:length]: _cut(field, length) for name, field in fields[:length]}
        case list():
            return [_cut(item, length) for item in cast("list[object]", value)[:length]]
        case _:
            return value
