"""A file is read as a definition, or reported with file, line and reason."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deputy_agents.definition.definition import Definition, Mode
from deputy_agents.definition.loader import Parsed, built_in, parse_definition
from deputy_agents.domain.permission_mode import PermissionMode

TOOLS = frozenset({"read_file", "list_dir", "glob", "grep", "edit_file", "write_file", "spawn_agent", "todo"})


def parse(head: str, body: str = "Prompt.", file: str = "some/agent_file.md") -> Parsed:
    return parse_definition(file, f"---\n{head}\n---\n{body}\n", "somewhere", TOOLS, built_in())


def loaded(head: str, body: str = "Prompt.") -> Definition:
    """The definition of a valid file, with the required fields added."""
    parsed = parse(f"description: d\n{head}", body)
    assert parsed.problems == ()
    assert parsed.definition is not None
    return parsed.definition


def warned(head: str) -> tuple[Definition, str]:
    parsed = parse(f"description: d\n{head}")
    assert parsed.definition is not None
    assert not any(problem.fatal for problem in parsed.problems)
    return parsed.definition, " ".join(problem.reason for problem in parsed.problems)


def rejected(head: str, body: str = "Prompt.") -> str:
    parsed = parse(head, body)
    assert parsed.definition is None
    return " ".join(f"{problem.file}:{problem.line}: {problem.reason}" for problem in parsed.problems if problem.fatal)


@pytest.mark.requirement("B1")
def test_all_fields_are_read() -> None:
    found = loaded(
        "name: scout\nicon: '⚲'\nmode: all\ntools: [read_file, grep]\ndisallowedTools: edit_file\n"
        "model: some-model\ntemperature: 0.5\nmax-iterations: 7\ntimeout: 30\npermission_mode: plan\n"
        "inputSchema: {type: object, properties: {query: {type: string}}}\nresultFormat: 'found: {result}'",
        "Look\naround.",
    )
    assert found == Definition(
        name="scout",
        description="d",
        prompt="Look\naround.",
        mode=Mode.ALL,
        icon="⚲",
        tools=("read_file", "grep"),
        disallowed_tools=("edit_file",),
        max_iterations=7,
        model="some-model",
        temperature=0.5,
        timeout=30,
        permission_mode=PermissionMode.PLAN,
        input_schema={"type": "object", "properties": {"query": {"type": "string"}}},
        result_format="found: {result}",
        source="somewhere",
    )


def test_missing_fields_have_defaults() -> None:
    assert loaded("color: blue") == Definition("agent_file", "d", "Prompt.", source="somewhere")


def test_file_with_an_unquoted_dialogue_loads() -> None:
    parsed = parse(
        "name: code-reviewer\n"
        'description: Use this agent when: code was written.\\n\\nExamples:\\n<example>\\nuser: \\"hi\\"\\n</example>\n'
        "tools: Read, Grep, Glob, TodoWrite\nmodel: sonnet\ncolor: green"
    )
    assert parsed.problems == ()
    assert parsed.definition is not None
    assert parsed.definition.description.split("\n") == [
        "Use this agent when: code was written.", "", "Examples:", "<example>", 'user: "hi"', "</example>",
    ]  # fmt: skip
    assert (parsed.definition.tools, parsed.definition.model) == (("read_file", "grep", "glob", "todo"), None)


@pytest.mark.parametrize(
    ("word", "model"),
    [
        ("inherit", None),
        ("haiku", "small"),
        ("small", "small"),
        ("Sonnet", None),
        ("opus", None),
        ("llama-9", "llama-9"),
    ],
)
def test_model_words_are_mapped(word: str, model: str | None) -> None:
    assert loaded(f"model: {word}").model == model


def test_small_model_is_the_configured_one_or_the_parents() -> None:
    small, own, inherited = loaded("model: haiku"), loaded("model: m"), loaded("model: inherit")
    assert small.model_for("big", "tiny") == "tiny"
    assert small.model_for("big", None) == "big"
    assert own.model_for("big", "tiny") == "m"
    assert inherited.model_for("big", "tiny") == "big"


@pytest.mark.parametrize(
    ("word", "mode"),
    [
        ("acceptEdits", PermissionMode.ACCEPT_EDITS),
        ("accept_edits", PermissionMode.ACCEPT_EDITS),
        ("bypassPermissions", PermissionMode.BYPASS),
        ("plan", PermissionMode.PLAN),
        ("default", PermissionMode.DEFAULT),
    ],
)
def test_spellings_of_permission_modes_are_mapped(word: str, mode: PermissionMode) -> None:
    assert loaded(f"permissionMode: {word}").permission_mode is mode


def test_unknown_permission_mode_falls_back_to_default() -> None:
    found, warning = warned("permissionMode: yolo")
    assert found.permission_mode is PermissionMode.DEFAULT
    assert "yolo" in warning


def test_unknown_mode_falls_back_to_subagent() -> None:
    found, warning = warned("mode: chat")
    assert found.mode is Mode.SUBAGENT
    assert "subagent" in warning


@pytest.mark.parametrize("field", ["maxIterations", "maxTurns", "timeout"])
@pytest.mark.parametrize("value", ["-1", "0", "99999999", "many", "true", "[1]", ".nan", "1e999"])
def test_invalid_limit_prevents_loading(field: str, value: str) -> None:
    reason = rejected(f"name: x\ndescription: d\n{field}: {value}")
    assert reason.startswith("some/agent_file.md:4: ")
    assert "must be a" in reason


@pytest.mark.parametrize("value", ["-0.1", "1.5", "hot"])
def test_temperature_out_of_range_prevents_loading(value: str) -> None:
    assert "temperature: must be a number from 0 to 1" in rejected(f"description: d\ntemperature: {value}")


def test_fractional_iterations_are_rejected() -> None:
    assert "whole number" in rejected("description: d\nmaxIterations: 2.5")


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ("text", "a JSON Schema of an object"),
        ("{type: string}", "type must be object"),
        ("{properties: {}}", "type must be object"),
        ("{type: object, properties: {a: {type: strnig}}}", "properties.a.type"),
        ("{type: object, properties: {a: {pattern: '('}}}", "properties.a.pattern"),
        ("{type: object, properties: {a: {$ref: 'http://x.test/s'}}}", "same schema"),
        ("{type: object, properties: {a: {$ref: 'file:///etc/passwd'}}}", "same schema"),
        ("{type: object, description: " + "x" * 20_000 + "}", "larger"),
    ],
)
def test_schema_that_cannot_describe_an_input_prevents_loading(schema: str, reason: str) -> None:
    assert reason in rejected(f"description: d\ninputSchema: {schema}")


def test_schema_that_is_not_yaml_is_reported_as_such() -> None:
    reason = rejected("description: d\ninputSchema:\n  type: object\n   wrong: [indent")
    assert "agent_file.md:3: inputSchema: " in reason


def test_typed_definition_cannot_have_the_name_of_a_tool() -> None:
    schema = "inputSchema: {type: object}"
    assert "a tool named 'read_file' exists" in rejected(f"name: read_file\ndescription: d\n{schema}")
    assert "not a tool name" in rejected(f"name: größe\ndescription: d\n{schema}")
    assert loaded("name: größe").name == "größe"


@pytest.mark.parametrize(
    ("template", "reason"), [("'{reslut} {result}'", "{reslut}"), ("'done'", "result would be lost")]
)
def test_invalid_template_prevents_loading(template: str, reason: str) -> None:
    assert reason in rejected(f"description: d\nresultFormat: {template}")


def test_template_can_be_json() -> None:
    assert loaded('resultFormat: \'{"status": "{status}", "x": {}, "r": {result}}\'').result_format is not None


def test_name_description_and_prompt_are_required() -> None:
    assert ":1: the description is missing" in rejected("name: x")
    assert ":2: the description is missing" in rejected("description:\nname: x")
    assert ":5: there is no prompt" in rejected("name: x\ndescription: d", " \n\n")
    assert "there is no name" in " ".join(
        problem.reason for problem in parse_definition("!.md", "---\ndescription: d\n---\np").problems
    )


def test_name_is_changed_to_a_valid_identifier() -> None:
    found, warning = warned("name: Code Reviewer!")
    assert found.name == "Code-Reviewer"
    assert "was changed to 'Code-Reviewer'" in warning


def test_control_characters_are_removed() -> None:
    parsed = parse('description: "a\\eb\\u0007c"\nname: "x\\u0000"', "evil \x1b[2Jprompt")
    assert parsed.definition is not None
    assert (parsed.definition.description, parsed.definition.prompt) == ("abc", "evil prompt")


def test_repeated_field_is_a_warning() -> None:
    found, warning = warned("tools: read_file\nallowedTools: edit_file\nmodel: a\nmodel: b")
    assert (found.tools, found.model) == (("read_file",), "a")
    assert warning.count("is repeated") == 2


def test_definition_that_replaces_a_built_in_one_keeps_its_interface() -> None:
    found = loaded("name: planner", "My way of planning.")
    old = built_in()["planner"]
    assert (found.mode, found.icon, found.input_schema) == (old.mode, old.icon, old.input_schema)
    assert (found.prompt, found.tools, found.max_iterations) == ("My way of planning.", None, 50)


def test_built_in_primary_and_sub_agents_keep_their_mode() -> None:
    assert loaded("name: primary").mode is Mode.PRIMARY
    assert loaded("name: general\nmode: all").mode is Mode.ALL
    assert "must be primary or all" in rejected("name: primary\ndescription: d\nmode: subagent")
    assert "must be subagent or all" in rejected("name: general\ndescription: d\nmode: primary")


@given(st.text())
def test_no_text_crashes_the_parser(text: str) -> None:
    for whole in (text, f"---\n{text}", f"---\n{text}\n---\nPrompt.", f"---\nname: {text}\n---\nPrompt."):
        parsed = parse_definition("any.md", whole, "here", TOOLS)
        assert (parsed.definition is None) == any(problem.fatal for problem in parsed.problems)
        assert all(problem.line >= 1 for problem in parsed.problems)


FIELDS = st.sampled_from(
    [
        "name",
        "description",
        "icon",
        "tools",
        "allowedTools",
        "disallowedTools",
        "model",
        "temperature",
        "maxTurns",
        "timeout",
        "permissionMode",
        "mode",
        "inputSchema",
        "resultFormat",
    ]
)
YAML = st.recursive(
    st.sampled_from(
        ["1", "-1", "x", "'q'", "~", "true", "{result}", "Bash(a, b)", "*", "mcp__a__b", "1e9", ".inf", "é"]
    ),
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]")
        | st.dictionaries(st.sampled_from(["type", "$ref", "properties", "pattern", "*"]), inner, max_size=3).map(
            lambda pairs: "{" + ", ".join(f"{key}: {value}" for key, value in pairs.items()) + "}"
        )
    ),
    max_leaves=6,
)


@given(st.lists(st.tuples(FIELDS, YAML), max_size=8))
def test_no_value_of_a_field_crashes_the_parser(fields: list[tuple[str, str]]) -> None:
    head = "\n".join(f"{name}: {value}" for name, value in fields)
    parsed = parse_definition("any.md", f"---\n{head}\n---\nPrompt.", "here", TOOLS)
    assert (parsed.definition is None) == any(problem.fatal for problem in parsed.problems)
