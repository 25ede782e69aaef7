"""Definitions with an input schema: each is a tool of the primary's own, whose calls start a child of that kind."""

import json
from collections.abc import Mapping

from deputy_agents.definition.definition import Definition
from deputy_agents.definition.schema import check_input, properties
from deputy_agents.definition.template import fill
from deputy_agents.domain.outcome import Completed, Outcome


def schema_of(definition: Definition) -> Mapping[str, object]:
    """The schema of its input; of a definition without one, that of an object without fields."""
    return definition.input_schema or {"type": "object", "properties": {}, "additionalProperties": False}


def parse_input(definition: Definition, input: Mapping[str, object]) -> dict[str, object]:
    """``input`` with top-level defaults filled in.

    Raises:
        ToolError: naming the fields that do not fit.
    """
    return check_input(schema_of(definition), input)


def label_source(definition: Definition, input: Mapping[str, object]) -> str:
    """The text that names a child: the first string of its input in the order of the schema, else its kind."""
    name = _lead(definition, input)
    return str(input[name]) if name else definition.name


def first_message(definition: Definition, input: Mapping[str, object]) -> str:
    """What the child is told: the first string of its input as it is, then each other field under its name."""
    lead = _lead(definition, input)
    rest = [_line(name, input[name]) for name in _order(definition, input) if name != lead]
    return "\n\n".join(([str(input[lead])] if lead else []) + (["\n".join(rest)] if rest else [])) or "(no input)"


def format_result(definition: Definition, outcome: Outcome) -> str:
    """The result of the tool: the child's answer, put into the definition's template if it has one. Only a child that
    completed has a result of this form."""
    if not isinstance(outcome.ending, Completed):
        raise ValueError("only a completed child has a result")
    return fill(definition.result_format or "{result}", outcome)


def _order(definition: Definition, input: Mapping[str, object]) -> list[str]:
    in_schema = properties(schema_of(definition))
    return [name for name in in_schema if name in input] + [name for name in input if name not in in_schema]


def _lead(definition: Definition, input: Mapping[str, object]) -> str | None:
    texts = (name for name in _order(definition, input) if isinstance(input[name], str))
    return next((name for name in texts if str(input[name]).strip()), None)


def _line(name: str, value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return f"{name}:\n{text}" if "\n" in text else f"{name}: {text}"
