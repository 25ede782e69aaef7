"""Tool names of other programs are mapped, and a misunderstanding never allows more."""

import pytest

from deputy_agents.definition.definition import Definition
from deputy_agents.definition.frontmatter import Value
from deputy_agents.definition.loader import Parsed, parse_definition
from deputy_agents.definition.tools import Tools, read_tools

TOOLS = frozenset({"read_file", "list_dir", "glob", "grep", "edit_file", "write_file", "shell", "task", "odd_one"})


def tools(allowed: Value, disallowed: Value = None) -> Tools:
    return read_tools(allowed, str(allowed), disallowed, str(disallowed), TOOLS)


def parse(head: str) -> Parsed:
    return parse_definition("a.md", f"---\ndescription: d\n{head}\n---\nPrompt.", "here", TOOLS)


@pytest.mark.parametrize(
    ("text", "ours"),
    [
        ("Read, Grep, Glob, LS", ("read_file", "grep", "glob", "list_dir")),
        ("Edit,MultiEdit,Write,NotebookEdit", ("edit_file", "write_file")),
        ("read write bash", ("read_file", "write_file", "shell")),
        ("'Read', \"Bash\"", ("read_file", "shell")),
        ("Task", ("task",)),
        ("Agent", ("task",)),
        ("read_file, odd_one", ("read_file", "odd_one")),
        ("codebase, editFiles", ("glob", "grep", "edit_file", "write_file")),
        ("mcp__docs__search, mcp__git", ("mcp__docs__search", "mcp__git")),
    ],
)
def test_tool_names_of_other_programs_are_mapped(text: str, ours: tuple[str, ...]) -> None:
    found = tools(text)
    assert (found.allowed, found.warnings) == (ours, ())
    assert tools([part.strip() for part in text.split(",")]).allowed == ours


@pytest.mark.parametrize("everything", ["*", "all", "All tools", ["*"], ["Read", "*"]])
def test_wildcards_mean_the_tools_of_the_parent(everything: Value) -> None:
    assert tools(everything).allowed is None


def test_unknown_tool_is_ignored_with_a_warning() -> None:
    found = tools("Read, Teleport, WebSearch")
    assert found.allowed == ("read_file",)
    assert [warning.split(";")[0] for warning in found.warnings] == [
        "tools: unknown tool Teleport",
        "tools: unknown tool WebSearch",
    ]


def test_restricted_tool_is_allowed_completely_with_a_warning() -> None:
    values: list[Value] = ["Bash(git add:*, git commit:*), Read", ["Bash(git add:*", "git commit:*)", "Read"]]
    for value in values:
        found = tools(value)
        assert found.allowed == ("shell", "read_file")
        assert len(found.warnings) == 1
        assert "checked at each call" in found.warnings[0]


def test_restricted_denial_removes_the_tool_completely() -> None:
    found = tools("Bash, Read", "Bash(rm:*)")
    assert (found.allowed, found.disallowed) == (("read_file",), ("shell", "process"))
    assert "completely" in found.warnings[0]


def test_misspelt_denial_is_reported() -> None:
    assert "unknown tool Wirte" in tools(None, "Wirte").warnings[0]


def test_mapping_enables_and_disables_tools() -> None:
    assert tools({"write": False, "bash": False, "read": True}) == Tools(None, ("write_file", "shell", "process"), ())
    assert tools({"*": False, "read": True}) == Tools(("read_file",), (), ())


def test_missing_list_means_the_tools_of_the_parent() -> None:
    for head in ("name: x", "tools:", "tools: ~"):
        definition = parse(head).definition
        assert definition is not None
        assert definition.tools is None


@pytest.mark.parametrize("value", ["[]", "''", "Teleport", "[Teleport, Beam]", "3", "{}"])
def test_definition_without_any_existing_tool_is_not_loaded(value: str) -> None:
    parsed = parse(f"tools: {value}")
    assert parsed.definition is None
    assert [problem.line for problem in parsed.problems if problem.fatal] == [3]


def test_list_that_is_not_valid_yaml_is_read() -> None:
    parsed = parse("tools:\n- Read\n- Bash(git: *)\n- Grep")
    assert parsed.definition is not None
    assert parsed.definition.tools == ("read_file", "shell", "grep")


def test_disallowed_tools_take_precedence() -> None:
    everything = Definition("x", "d", "p", disallowed_tools=("shell", "mcp__git"))
    assert everything.allows("read_file")
    assert not everything.allows("shell")
    assert not everything.allows("mcp__git__push")
    assert everything.allows("mcp__github__push")


def test_mcp_servers_and_patterns_match_their_tools() -> None:
    some = Definition("x", "d", "p", tools=("grep", "mcp__docs", "mcp__git__log*"))
    allowed = ["grep", "mcp__docs__search", "mcp__git__log_all"]
    assert [name for name in [*allowed, "shell", "mcp__git__push", "grep__x"] if some.allows(name)] == allowed
