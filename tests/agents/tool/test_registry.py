"""The registry of tools and its selection for an agent."""

import pytest

from deputy_agents.domain.access import Access
from deputy_agents.tool.registry import Registry, file_tools


def test_file_tools_have_the_documented_inputs() -> None:
    fields = {tool.spec.name: tool.spec.input_schema for tool in file_tools()}
    shapes = {name: (schema["required"], set(_properties(schema))) for name, schema in fields.items()}
    assert shapes == {
        "read_file": (["path"], {"path", "offset", "limit"}),
        "list_dir": (["path"], {"path"}),
        "glob": (["pattern"], {"pattern", "path"}),
        "grep": (["pattern"], {"pattern", "path", "glob"}),
        "edit_file": (["path", "old_string", "new_string"], {"path", "old_string", "new_string", "replace_all"}),
        "write_file": (["path", "content"], {"path", "content"}),
    }


def test_schemas_are_plain_objects_without_titles() -> None:
    for tool in file_tools():
        assert tool.spec.input_schema["type"] == "object"
        assert "title" not in tool.spec.input_schema
        for field in _properties(tool.spec.input_schema).values():
            assert "title" not in field
            assert field["description"]


@pytest.mark.requirement("C8")
def test_read_only_agent_gets_no_tool_that_changes_files() -> None:
    tools = Registry(file_tools())
    assert list(tools.offered(Access.READ_ONLY)) == ["read_file", "list_dir", "glob", "grep"]
    assert list(tools.offered(Access.READ_ONLY, ["edit_file", "grep", "unknown"])) == ["grep"]


def test_agent_gets_the_tools_of_its_definition_in_registry_order() -> None:
    tools = Registry(file_tools())
    assert list(tools.offered(Access.DEFAULT)) == list(tools)
    assert list(tools.offered(Access.DEFAULT, ["write_file", "read_file"])) == ["read_file", "write_file"]
    assert len(tools.offered(Access.DEFAULT, [])) == 0
    assert tools["grep"].spec.name == "grep"


def _properties(schema: object) -> dict[str, dict[str, object]]:
    assert isinstance(schema, dict)
    return schema["properties"]  # pyright: ignore[reportUnknownVariableType]
