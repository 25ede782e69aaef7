"""Typed definitions: those with an input schema. The primary agent calls each as a tool, which starts a sub-agent."""

import json
from collections.abc import Mapping

from deputy_agents.definition.definition import Definition
from deputy_agents.definition.schema import check_input, properties


def schema_of(definition: Definition) -> Mapping[str, object]:
    """The input schema of ``definition``; an object without fields by default."""
    return definition.input_schema or {"type": "object", "properties": {}, "additionalProperties": False}


def parse_input(definition: Definition, input: Mapping[str, object]) -> dict[str, object]:
    """Validate ``input`` and fill in top-level defaults.

    Raises:
        ToolError: the input is invalid; the message names the fields.
    """
    return check_input(schema_of(definition), input)


def label_source(definition: Definition, input: Mapping[str, object]) -> str:
    """The text for the label of a sub-agent: the first string of the input in schema order, else the definition's
    name."""
    name = _first_text(definition, input)
    return str(input[name]) if name else definition.name


def first_message(definition: Definition, input: Mapping[str, object]) -> str:
    """The first message to the sub-agent: the first string of the input, then the other fields with their names."""
    first = _first_text(definition, input)
    rest = [_line(name, input[name]) for name in _order(definition, input) if name != first]
    return "\n\n".join(([str(input[first])] if first else []) + (["\n".join(rest)] if rest else [])) or "(no input)"


def _order(definition: Definition, input: Mapping[str, object]) -> list[str]:
    in_schema = properties(schema_of(definition))
    return [name for name in in_schema if name in input] + [name for name in input if name not in in_schema]


def _first_text(definition: Definition, input: Mapping[str, object]) -> str | None:
    texts = (name for name in _order(definition, input) if isinstance(input[name], str))
    return next((name for name in texts if str(input[name]).strip()), None)


def _line(name: str, value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return f"{name}:\n{text}" if "\n" in text else f"{name}: {text}"
