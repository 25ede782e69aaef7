"""The primary is told which sub-agents there are, briefly."""

from deputy_agents.definition.definition import Definition, Mode
from deputy_agents.definition.describe import SECTION_LENGTH, describe
from deputy_agents.definition.loader import built_in


def test_sub_agents_are_described_typed_ones_apart() -> None:
    text = describe(built_in().values())
    tools, _, named = text.partition("`subagent_type`")
    for name in ("code_search", "code_review", "planner"):
        assert f"- `{name}`: {built_in()[name].description}" in tools
    assert "- `general`: " in named
    assert "`primary`" not in text


def test_without_sub_agents_there_is_nothing_to_say() -> None:
    assert describe([Definition("primary", "d", "p", mode=Mode.PRIMARY)]) == ""


def test_a_description_is_one_line_without_its_examples() -> None:
    text = describe([Definition("x", "Use it\n  well.\n<example>\nuser: hi\n</example>", "p")])
    assert text.endswith("- `x`: Use it well.")


def test_with_very_many_sub_agents_the_names_remain() -> None:
    text = describe([Definition(f"agent_{index}", "word " * 200, "p") for index in range(50)])
    assert len(text) < SECTION_LENGTH
    assert all(f"`agent_{index}`" in text for index in range(50))
