"""A definition with an input schema is a tool: its input, first message, label and result."""

import pytest

from deputy_agents.definition.definition import Definition
from deputy_agents.definition.loader import built_in
from deputy_agents.definition.typed import first_message, label_source, parse_input
from deputy_agents.domain.errors import ToolError
from deputy_agents.domain.message import Usage
from deputy_agents.domain.outcome import Completed, Failed, FailureReason, Outcome
from deputy_agents.run.result import delegation_result
from deputy_agents.run.state import Children
from deputy_agents.tool.delegate import TypedAgentTool
from deputy_agents.tool.spawn_options import option_fields
from deputy_agents.tool.typed import TypedArgs, parse_typed, spec_of


def typed(schema: dict[str, object], result_format: str | None = None) -> Definition:
    return Definition("kind", "d", "p", input_schema={"type": "object", **schema}, result_format=result_format)


def fields(**of: dict[str, object]) -> Definition:
    return typed({"properties": of})


def test_built_in_typed_agents_have_the_documented_inputs_tools_and_limits() -> None:
    search, review, planner = (built_in()[name] for name in ("code_search", "code_review", "planner"))
    readers = {"read_file", "glob", "grep", "list_dir"}
    assert (set(search.tools or ()), search.max_iterations) == (readers, 8)
    assert (set(review.tools or ()), review.max_iterations) == (readers - {"list_dir"}, 6)
    assert (set(planner.tools or ()), planner.max_iterations) == (readers, 6)
    assert parse_input(search, {"query": "q", "scope": "src"}) == {"query": "q", "scope": "src"}
    assert parse_input(review, {"target": "t"}) == {"target": "t", "focus": "all"}
    for focus in ("bugs", "style", "performance", "security", "all"):
        assert parse_input(review, {"target": "t", "focus": focus})["focus"] == focus
    assert parse_input(planner, {"task": "t", "constraints": "c"}) == {"task": "t", "constraints": "c"}


def test_built_in_agents_have_a_description_an_icon_and_a_prompt() -> None:
    for definition in built_in().values():
        assert definition.description
        assert definition.prompt
        assert definition.icon
        assert definition.source == "built-in"


def test_tool_has_the_name_description_and_schema_of_its_definition_and_the_options() -> None:
    search = built_in()["code_search"]
    spec = spec_of(search)
    assert (spec.name, spec.description) == ("code_search", search.description)
    own, offered = dict(search.input_schema or {}), dict(spec.input_schema)
    offered_fields, own_fields = offered.pop("properties"), own.pop("properties")
    assert offered == own
    assert isinstance(offered_fields, dict)
    for name, option in option_fields().items():
        assert offered_fields.pop(name) == option  # pyright: ignore[reportUnknownMemberType]
    assert offered_fields == own_fields


@pytest.mark.parametrize("wrong", [0, -1, "soon", True])
def test_invalid_timeout_is_rejected_by_name(wrong: object) -> None:
    with pytest.raises(ToolError, match="timeout: "):
        parse_typed(built_in()["code_search"], {"query": "q", "timeout": wrong})


def test_timeout_field_of_the_schema_is_passed_on() -> None:
    kind = fields(timeout={"type": "string"})
    offered = spec_of(kind).input_schema["properties"]
    assert offered == {**option_fields(), "timeout": {"type": "string"}}
    assert parse_typed(kind, {"timeout": "soon"}) == TypedArgs({"timeout": "soon"})


@pytest.mark.parametrize(
    ("name", "input", "message"),
    [
        ("code_search", {}, "'query' is a required property"),
        ("code_search", {"query": None}, "query: None is not of type 'string'"),
        ("code_search", {"query": ""}, "query: '' should be non-empty"),
        ("code_search", {"query": "q", "path": "."}, "'path' was unexpected"),
        ("code_review", {"target": "t", "focus": "speed"}, "focus: 'speed' is not one of"),
    ],
)
def test_invalid_input_is_rejected_and_the_field_named(name: str, input: dict[str, object], message: str) -> None:
    with pytest.raises(ToolError) as caught:
        parse_input(built_in()[name], input)
    assert message in str(caught.value)


def test_null_in_an_optional_field_means_absent() -> None:
    assert parse_input(built_in()["code_review"], {"target": "t", "focus": None}) == {"target": "t", "focus": "all"}


def test_nested_fields_are_named_by_path() -> None:
    kind = fields(files={"type": "array", "items": {"type": "object", "properties": {"line": {"type": "integer"}}}})
    with pytest.raises(ToolError, match=r"files\.1\.line: 'x' is not of type 'integer'"):
        parse_input(kind, {"files": [{"line": 1}, {"line": "x"}]})


@pytest.mark.parametrize("target", ["#/$defs/none", "#"])
def test_unresolvable_or_circular_schema_is_a_tool_error(target: str) -> None:
    kind = typed({"allOf": [{"$ref": target}]})
    with pytest.raises(ToolError, match="schema of this tool is invalid"):
        parse_input(kind, {})


def test_error_for_a_huge_input_is_short() -> None:
    with pytest.raises(ToolError) as caught:
        parse_input(fields(a={"type": "integer"}), {"a": "x" * 100_000})
    assert len(str(caught.value)) < 1000


def test_first_message_is_the_first_text_then_the_other_fields_by_name() -> None:
    kind = fields(number={"type": "integer"}, task={"type": "string"}, notes={"type": "string"})
    input = {"notes": "one\ntwo", "task": "do it", "number": 3}
    assert first_message(kind, input) == "do it\n\nnumber: 3\nnotes:\none\ntwo"
    assert label_source(kind, input) == "do it"


def test_single_text_is_the_whole_first_message() -> None:
    assert first_message(built_in()["code_search"], {"query": "where?"}) == "where?"


def test_input_without_texts_has_a_message_and_a_label() -> None:
    kind = fields(number={"type": "integer"})
    assert first_message(kind, {"number": 3}) == "number: 3"
    assert first_message(kind, {}) == "(no input)"
    assert label_source(kind, {"number": 3}) == "kind"


def test_blank_text_is_not_used_as_label() -> None:
    kind = fields(a={"type": "string"}, b={"type": "string"})
    assert label_source(kind, {"a": " ", "b": "real"}) == "real"


OUTCOME = Outcome("id-1", Completed("{status} <answer>"), usage=Usage(10, 20), tool_calls=3)


def tool_result(outcome: Outcome, template: str | None = None) -> str:
    """What the caller of the tool of a typed definition reads."""
    style = TypedAgentTool(typed({}, result_format=template)).style
    done = delegation_result("t1", Children((outcome.agent_id,), (), (outcome,), style), 10_000)
    return done.result.content


def test_result_is_the_plain_answer_by_default() -> None:
    assert tool_result(OUTCOME) == "{status} <answer>"


def test_template_is_filled_once_and_other_braces_are_kept() -> None:
    template = '{"a": {}, "by": "{agent_id}", "n": [{tool_calls},{input_tokens},{output_tokens}]} {status}: {result}'
    assert tool_result(OUTCOME, template) == '{"a": {}, "by": "id-1", "n": [3,10,20]} completed: {status} <answer>'


def test_template_is_filled_for_a_completed_sub_agent_only() -> None:
    failed = Outcome("id-1", Failed(FailureReason.TIMED_OUT, "late", "half"))
    assert tool_result(failed, "by {agent_id}") == "Sub-agent failed (timed_out): late\n\nhalf"
