"""The system prompt of the primary agent lists the sub-agents."""

from deputy_agents.definition.definition import Definition, Mode
from deputy_agents.definition.describe import SECTION_LENGTH, describe
from deputy_agents.definition.loader import built_in


def test_typed_sub_agents_are_described_separately() -> None:
    text = describe(built_in().values())
    tools, _, named = text.partition("`subagent_type`")
    for name in ("code_search", "code_review", "planner"):
        assert f"- `{name}`: {built_in()[name].description}" in tools
    assert "- `general`: " in named
    assert "`primary`" not in text


def test_description_is_empty_without_sub_agents() -> None:
    assert describe([Definition("primary", "d", "p", mode=Mode.PRIMARY)]) == ""


def test_summary_is_one_line_without_examples() -> None:
    text = describe([Definition("x", "Use it\n  well.\n<example>\nuser: hi\n</example>", "p")])
    assert text.endswith("- `x`: Use it well.")


def test_only_names_are_listed_for_very_many_sub_agents() -> None:
    text = describe([Definition(f"agent_{index}", "word " * 200, "p") for index in range(50)])
    assert len(text) < SECTION_LENGTH
    assert all(f"`agent_{index}`" in text for index in range(50))
