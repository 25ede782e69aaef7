"""What `.mcp.json` files and settings may say, and what is told of those that are wrong."""

import json
import stat
from pathlib import Path

import pytest

from deputy_agents.errors import ToolError
from deputy_agents.mcp import ServerEntry, expanded
from deputy_agents.mcp.approvals import Approvals
from deputy_agents.mcp.config import read_servers


def read(root: Path, text: str) -> tuple[dict[str, ServerEntry], list[str]]:
    (root / ".mcp.json").write_text(text, "utf-8")
    servers, problems = read_servers([], [root])
    assert all(problem.file == str(root / ".mcp.json") for problem in problems)
    return {entry.name: entry for entry in servers.values()}, [problem.reason for problem in problems]


def test_servers_of_both_kinds_are_read_and_fields_of_other_programs_ignored(tmp_path: Path) -> None:
    servers, problems = read(
        tmp_path,
        json.dumps(
            {
                "mcpServers": {
                    "git": {"type": "stdio", "command": "uvx", "args": ["mcp-server-git"], "env": {"A": "${B:-c}"}},
                    "web_docs": {"type": "http", "url": "https://d.example/mcp", "headers": {"X": "${TOKEN}"}},
                    "off": {"command": "x", "disabled": True},
                    "more": {"command": "x", "autoApprove": ["y"]},
                },
                "inputs": [],
            }
        ),
    )
    assert problems == []
    git = servers["git"]
    assert (git.source.place, git.command, git.args, git.env) == (
        str(tmp_path / ".mcp.json"),
        "uvx",
        ("mcp-server-git",),
        {"A": "${B:-c}"},
    )
    assert (servers["web_docs"].line, servers["web_docs"].variables) == ("https://d.example/mcp", ("TOKEN",))
    assert list(servers) == ["git", "web_docs", "more"]


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ({}, "give either command or url"),
        ({"command": "x", "url": "https://x"}, "give either command or url"),
        ({"command": 3}, "command: Input should be a valid string"),
        ({"url": "ftp://x"}, "url: it must begin with https:// or http://"),
        ({"type": "sse", "url": "https://x"}, "servers by SSE alone are not supported"),
        ([], "Input should be"),
    ],
    ids=str,
)
def test_a_server_that_is_wrong_costs_no_other(tmp_path: Path, entry: object, problem: str) -> None:
    servers, problems = read(tmp_path, json.dumps({"mcpServers": {"bad": entry, "good": {"command": "x"}}}))
    assert list(servers) == ["good"]
    assert len(problems) == 1
    assert f"MCP server bad: {problem}" in problems[0]


@pytest.mark.parametrize("name", ["", "a__b", "a b", "_a", "a_", "x" * 40, "a/b", "é"])
def test_names_are_such_that_a_tool_can_be_named_by_them(tmp_path: Path, name: str) -> None:
    servers, problems = read(tmp_path, json.dumps({"mcpServers": {name: {"command": "x"}}}))
    assert (servers, len(problems)) == ({}, 1)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"mcpServers": []}', "\ufeff", "[" * 100_000])
def test_a_file_that_is_none_is_told(tmp_path: Path, text: str) -> None:
    servers, problems = read(tmp_path, text)
    assert (servers, len(problems)) == ({}, 1)


def test_no_link_out_of_the_workspace_is_followed(tmp_path: Path) -> None:
    (tmp_path / "outside.json").write_text(json.dumps({"mcpServers": {"a": {"command": "x"}}}))
    root = tmp_path / "root"
    root.mkdir()
    (root / ".mcp.json").symlink_to(tmp_path / "outside.json")
    assert read_servers([], [root])[0] == {}


def test_variables_have_a_value_or_a_default_or_are_an_error() -> None:
    assert expanded("${A}-${B:-b}-${C:-}-$D", {"A": "1"}) == "1-b--$D"
    with pytest.raises(ToolError, match="A has no value"):
        expanded("${A}", {"A": ""})


def test_answers_are_kept_for_one_folder_and_one_command_line_in_a_file_for_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "state" / "mcp.json"
    entry, other = ServerEntry("a", "s", "x", ("-1",)), ServerEntry("a", "s", "x", ("-2",))
    folder = tmp_path / "w"
    Approvals(path).keep(folder, entry, True)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    kept = Approvals(path)
    assert (kept.of(folder, entry), kept.of(folder, other), kept.of(tmp_path, entry)) == (True, None, None)
    kept.keep(folder, entry, None)
    assert Approvals(path).of(folder, entry) is None


@pytest.mark.parametrize("text", ["", "[]", '{"folders": 1}', '{"folders": {"/w": {"x": 1}}}'])
def test_answers_that_cannot_be_read_are_none(tmp_path: Path, text: str) -> None:
    path = tmp_path / "mcp.json"
    path.write_text(text)
    assert Approvals(path).of(Path("/w"), ServerEntry("a", "s", "x")) is None
