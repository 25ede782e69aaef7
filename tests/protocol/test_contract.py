"""The table of methods contains every name that clients depend on."""

from typing import Any

import pytest

from deputy_protocol.command_table import COMMANDS
from deputy_protocol.contract import Direction, Notification
from deputy_protocol.errors import ErrorCode
from deputy_protocol.methods import METHODS
from deputy_protocol.schema import document
from tests.protocol import contract_names as names

CONTRACT = document()
TYPES: dict[str, Any] = CONTRACT["$defs"]


def assert_has(schema: dict[str, Any], fields: str) -> None:
    """``schema`` has ``fields``. Fields with ``?`` are optional, the others are required."""
    required = set(schema.get("required", ()))
    for field in fields.split():
        name = field.removesuffix("?")
        assert name in schema.get("properties", {}), name
        assert (name in required) is not field.endswith("?"), field


def resolve(reference: dict[str, str]) -> dict[str, Any]:
    return TYPES[reference["$ref"].rpartition("/")[2]]


def test_table_contains_every_method_once() -> None:
    assert sorted(method.name for method in METHODS) == sorted({*names.PARAMS_AND_RESULTS, *names.NOTIFICATIONS})


def test_table_contains_every_command_once() -> None:
    assert sorted(command.name for command in COMMANDS) == sorted(names.COMMANDS)


def test_methods_have_the_direction_of_the_contract() -> None:
    sent = {method.name for method in METHODS if method.direction is Direction.TO_CLIENT}
    assert sent == names.SENT_BY_SERVER
    assert {method.name for method in METHODS if isinstance(method, Notification)} == names.NOTIFICATIONS


@pytest.mark.parametrize("name", names.PARAMS_AND_RESULTS)
def test_method_has_the_fields_of_the_contract(name: str) -> None:
    params, result = names.PARAMS_AND_RESULTS[name]
    entry = CONTRACT["methods"][name]
    assert_has(resolve(entry["params"]), params)
    assert_has(resolve(entry["result"]), result)


@pytest.mark.parametrize("name", names.COMMANDS)
def test_command_has_the_fields_of_the_contract(name: str) -> None:
    argument, result = names.COMMANDS[name]
    entry = CONTRACT["commands"][name]
    assert_has(resolve(entry["argument"]), argument)
    assert_has(resolve(entry["result"]), result)


def test_every_event_type_has_the_fields_of_the_contract() -> None:
    mapping = {tag: resolve({"$ref": ref}) for tag, ref in TYPES["EventParams"]["discriminator"]["mapping"].items()}
    assert set(mapping) == set(names.EVENTS)
    for tag, fields in names.EVENTS.items():
        assert_has(mapping[tag], fields)


def test_only_durable_events_have_sequence_numbers() -> None:
    for tag, ref in TYPES["EventParams"]["discriminator"]["mapping"].items():
        fields = set(resolve({"$ref": ref})["properties"])
        assert (
            ("seq" in fields)
            is ("agentSeq" in fields)
            is ("afterSeq" not in fields)
            is ("seq" in names.EVENTS[tag].split())
        )


@pytest.mark.parametrize("name", names.TYPES)
def test_type_has_the_fields_of_the_contract(name: str) -> None:
    assert_has(TYPES[name], names.TYPES[name])


@pytest.mark.parametrize("name", names.ENUMS)
def test_enum_has_the_values_of_the_contract(name: str) -> None:
    assert set(names.ENUMS[name].split()) <= set(TYPES[name]["enum"])


def test_error_codes_are_those_of_the_contract() -> None:
    assert {code.name: code.value for code in ErrorCode}.items() >= names.ERRORS.items()
    assert len({code.value for code in ErrorCode}) == len(ErrorCode)


def test_everything_in_the_contract_has_a_description() -> None:
    entries = {**CONTRACT["methods"], **CONTRACT["commands"], **CONTRACT["errors"], **TYPES}
    assert [name for name, entry in entries.items() if not entry["description"].endswith(".")] == []


@pytest.mark.parametrize("section", ["Settings", "AgentSettings", "PermissionSettings", "RuleSetting"])
def test_every_setting_has_a_description_and_a_default(section: str) -> None:
    for name, shape in TYPES[section]["properties"].items():
        if shape.get("$ref", "").endswith("Settings"):
            continue
        optional_without_default = {
            "model",
            "smallModel",
            "fallbackModel",
            "effort",
            "baseUrl",
            "token",
            "pattern",
            "tool",
            "action",
        }
        assert "default" in shape or name in optional_without_default, name
        assert "description" in shape or name == "action", name
