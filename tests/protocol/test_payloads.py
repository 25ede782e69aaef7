"""Payloads: which values are valid, and how they are serialized."""

import json
from typing import Any, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pydantic import BaseModel, ValidationError

from deputy_protocol.agent import AgentStatus, Usage
from deputy_protocol.base import rfc3339, to_json, to_json_in_steps, to_wire
from deputy_protocol.capabilities import ClientCapabilities, ServerCapabilities
from deputy_protocol.command_table import COMMANDS
from deputy_protocol.contract import Request
from deputy_protocol.event import AgentActivity, EventParams, MessageDelta, ThoughtDelta, activity, delta
from deputy_protocol.methods import METHODS, SESSION_LIST
from deputy_protocol.permission import DiffPreview, PermissionPreviewResult
from deputy_protocol.place import Location
from deputy_protocol.progress import child_token, turn_token
from deputy_protocol.schema import document
from deputy_protocol.settings import Settings
from tests.protocol.json_like import JSON, allowed

CONTRACT = document()
TYPES: dict[str, Any] = CONTRACT["$defs"]


def payloads() -> dict[str, type[BaseModel]]:
    found: list[type[BaseModel]] = [ClientCapabilities, ServerCapabilities, Settings]
    for method in METHODS:
        found += [method.params, method.result] if isinstance(method, Request) else [method.params]
    for command in COMMANDS:
        found += [command.argument, command.result]
    return {model.__name__: model for model in found}


PAYLOADS = payloads()


def contains(whole: Any, part: Any) -> bool:
    """Whether ``whole`` contains everything in ``part``. It may have further fields."""
    match part:
        case dict():
            return isinstance(whole, dict) and all(k in whole and contains(whole[k], part[k]) for k in part)
        case list():
            return isinstance(whole, list) and len(whole) == len(part) and all(map(contains, whole, part))
        case _:
            return bool(whole == part)


@pytest.mark.parametrize("name", PAYLOADS)
@given(data=st.data())
@settings(max_examples=15, deadline=None)
def test_values_allowed_by_the_schema_survive_a_round_trip(name: str, data: st.DataObject) -> None:
    raw = data.draw(allowed(TYPES[name], TYPES))
    model = PAYLOADS[name].model_validate(raw)
    sent = to_wire(model)
    assert contains(sent, raw)
    assert json.loads(to_json(model)) == sent
    Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": TYPES}).validate(sent)
    assert PAYLOADS[name].model_validate(sent) == model


@pytest.mark.parametrize("name", [name for name in PAYLOADS if name != "EventParams"])
@given(data=st.data())
@settings(max_examples=10, deadline=None)
def test_unknown_fields_are_ignored(name: str, data: st.DataObject) -> None:
    raw = data.draw(allowed(TYPES[name], TYPES))
    model = PAYLOADS[name]
    assert model.model_validate(raw | {"xUnknown": {"deep": [1]}}) == model.model_validate(raw)


@pytest.mark.parametrize("name", PAYLOADS)
@given(raw=JSON)
@settings(max_examples=25, deadline=None)
def test_arbitrary_json_is_parsed_or_rejected(name: str, raw: object) -> None:
    try:
        PAYLOADS[name].model_validate(raw)
    except ValidationError:
        return


def test_event_is_parsed_into_its_class() -> None:
    event = MessageDelta(session_id="s", agent_id="a", run=1, time="t", after_seq=3, message_id="m", text="x")
    assert EventParams.model_validate(to_wire(event)).root == event


def test_event_of_unknown_type_is_rejected() -> None:
    with pytest.raises(ValidationError, match="nonsense"):
        EventParams.model_validate({"type": "nonsense"})


def test_deltas_built_without_a_model_equal_those_built_with_one() -> None:
    envelope: dict[str, Any] = {"session_id": "s", "agent_id": "a", "run": 2, "time": "t", "after_seq": 3}
    message = {"message_id": "m", "text": "x"}
    assert delta("message_delta", **envelope, **message) == to_wire(MessageDelta(**envelope, **message))
    assert delta("thought_delta", **envelope, **message) == to_wire(ThoughtDelta(**envelope, **message))
    fields: dict[str, Any] = {"text": "reads", "tool_call_count": 4}
    assert activity(**envelope, **fields) == to_wire(AgentActivity(**envelope, **fields))


def test_absent_fields_are_omitted() -> None:
    assert to_wire(Location(uri="file:///a")) == {"uri": "file:///a"}
    assert "cost" not in to_wire(Usage())


def test_old_text_of_a_new_file_is_null_and_not_absent() -> None:
    preview = DiffPreview(uri="file:///a", old_text=None, new_text="x")
    assert to_wire(preview) == {"type": "diff", "uri": "file:///a", "oldText": None, "newText": "x"}
    assert json.loads(to_json(preview)) == to_wire(preview)


@pytest.mark.parametrize("old", [None, "", 'a"\\\né😀' * 9])
def test_long_texts_are_encoded_in_steps_as_at_once(old: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deputy_protocol.base._PART", 5)
    preview = DiffPreview(uri="file:///a", old_text=old, new_text="new text\n" * 9)
    result = PermissionPreviewResult(preview=preview)
    assert json.loads(to_json_in_steps(result)) == to_wire(result)


def test_null_param_equals_absent_param() -> None:
    given_nulls = SESSION_LIST.parse({"cwd": None, "includeChildren": None, "limit": None})
    assert given_nulls == SESSION_LIST.parse({}) == SESSION_LIST.parse(None)


def test_nulls_inside_tool_input_are_kept() -> None:
    params = next(m for m in METHODS if m.name == "deputy/permission/answer").params
    raw = {"requestId": "r", "outcome": {"outcome": "selected", "optionId": "o", "input": {"a": None}}}
    assert to_wire(params.model_validate(raw)) == raw


@pytest.mark.parametrize("value", ["yes", 1, "true", [], {}])
def test_flag_accepts_only_booleans(value: object) -> None:
    with pytest.raises(ValidationError):
        SESSION_LIST.params.model_validate({"includeChildren": value})


@pytest.mark.parametrize("value", ["5", 1.5, True, -1, 0])
def test_limit_accepts_only_positive_integers(value: object) -> None:
    with pytest.raises(ValidationError):
        SESSION_LIST.params.model_validate({"limit": value})


def test_payloads_are_immutable() -> None:
    place = Location(uri="file:///a")
    with pytest.raises(ValidationError, match="frozen"):
        place.uri = "file:///b"  # pyright: ignore[reportAttributeAccessIssue]


def test_numbers_and_flags_are_not_converted_from_other_types() -> None:
    for model in PAYLOADS.values():
        bare = {bool, int, float} & set(get_type_hints(model, include_extras=True).values())
        assert not bare, model


def test_enum_values_are_plain_strings_on_the_wire() -> None:
    assert json.dumps(AgentStatus.RUNNING) == '"running"'


def test_times_are_utc_with_milliseconds() -> None:
    assert rfc3339(0) == "1970-01-01T00:00:00.000Z"
    assert rfc3339(1_767_225_600.25) == "2026-01-01T00:00:00.250Z"


def test_every_run_and_turn_has_a_distinct_progress_token() -> None:
    tokens = [child_token("a"), child_token("a", 2), child_token("b"), turn_token("a", "t")]
    assert tokens == ["deputy/a", "deputy/a/2", "deputy/b", "deputy/a/t"]
