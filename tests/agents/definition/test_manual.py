"""docs/agents.md matches the code."""

import re
from pathlib import Path

from deputy_agents.definition.definition import BUILT_IN
from deputy_agents.definition.loader import MAX_TIMEOUT, parse_definition
from deputy_agents.definition.template import PLACEHOLDERS
from deputy_agents.definition.typed import first_message, parse_input

MANUAL = (Path(__file__).parents[3] / "docs" / "agents.md").read_text("utf-8")


def block(language: str) -> str:
    found = re.search(rf"^```{language}\n(.*?)^```$", MANUAL, re.DOTALL | re.MULTILINE)
    assert found is not None
    return found[1]


def test_documented_example_loads_with_every_field() -> None:
    parsed = parse_definition("test_writer.md", block("markdown"), "here")
    assert parsed.problems == ()
    definition = parsed.definition
    assert definition is not None
    assert definition.input_schema is not None
    assert definition.result_format == "{result}\n\n({tool_calls} tool calls)"
    assert (definition.timeout, definition.temperature, definition.max_iterations) == (600, 0.2, 20)


def test_documented_first_message_matches() -> None:
    definition = parse_definition("test_writer.md", block("markdown"), "here").definition
    assert definition is not None
    input = parse_input(definition, {"target": "src/backoff.py:40", "cases": ["no retries", "a wait above the cap"]})
    assert first_message(definition, input) + "\n" == block("text")


def test_documentation_names_every_built_in_agent_and_placeholder() -> None:
    assert all(f"`{name}`" in MANUAL for name in BUILT_IN)
    assert all(f"`{{{name}}}`" in MANUAL for name in PLACEHOLDERS)
    assert f"1 to {MAX_TIMEOUT:g}" in MANUAL
