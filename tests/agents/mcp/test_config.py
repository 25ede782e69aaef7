"""MCP servers in `.mcp.json` files and settings, the reports of invalid ones, and stored approvals."""

import json
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from deputy_agents.domain.errors import ToolError
from deputy_agents.guidance.mcp_config import read_mcp_servers
from deputy_agents.guidance.mcp_entry import McpServerEntry, McpServerSource, expand_variables
from deputy_agents.mcp.approvals import Approvals


def read(root: Path, text: str) -> tuple[dict[str, McpServerEntry], list[str]]:
    (root / ".mcp.json").write_text(text, "utf-8")
    servers, problems = read_mcp_servers([], [root])
    assert all(problem.file == str(root / ".mcp.json") for problem in problems)
    return {entry.name: entry for entry in servers.values()}, [problem.reason for problem in problems]


def test_mcp_servers_of_both_kinds_are_read_and_fields_of_other_programs_ignored(tmp_path: Path) -> None:
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
    assert [name for name, one in servers.items() if not one.disabled] == ["git", "web_docs", "more"]
    assert servers["off"].disabled


def test_mcp_servers_in_the_format_of_another_program_are_reported(tmp_path: Path) -> None:
    _, problems = read(tmp_path, '{"servers": {"a": {"command": "x"}}}')
    assert problems == ["servers is ignored; rename it to mcpServers"]


def test_a_file_that_is_not_json_is_reported_with_its_line(tmp_path: Path) -> None:
    (tmp_path / ".mcp.json").write_text('{\n "mcpServers": oh\n}', "utf-8")
    _, (problem,) = read_mcp_servers([], [tmp_path])
    assert (problem.line, problem.reason) == (2, "invalid JSON (line 2, column 16)")


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ({}, "set either command or url"),
        ({"command": "x", "url": "https://x"}, "set either command or url"),
        ({"command": 3}, "command: must be a string"),
        ({"url": "ftp://x"}, "url: must start with https:// or http://"),
        ({"type": "sse", "url": "https://x"}, "the SSE transport is not supported"),
        ([], "must be an object"),
        ("x", "must be an object"),
        ({"type": "carrier pigeon"}, "type: must be 'stdio', 'http'"),
    ],
    ids=str,
)
def test_an_invalid_mcp_server_does_not_affect_the_others(tmp_path: Path, entry: object, problem: str) -> None:
    servers, problems = read(tmp_path, json.dumps({"mcpServers": {"bad": entry, "good": {"command": "x"}}}))
    assert list(servers) == ["good"]
    assert len(problems) == 1
    assert f"MCP server bad: {problem}" in problems[0]


@pytest.mark.parametrize("name", ["", "a__b", "a b", "_a", "a_", "x" * 40, "a/b", "é"])
def test_names_that_cannot_be_part_of_a_tool_name_are_rejected(tmp_path: Path, name: str) -> None:
    servers, problems = read(tmp_path, json.dumps({"mcpServers": {name: {"command": "x"}}}))
    assert (servers, len(problems)) == ({}, 1)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"mcpServers": []}', "\ufeff", "[" * 100_000])
def test_an_invalid_file_is_reported(tmp_path: Path, text: str) -> None:
    servers, problems = read(tmp_path, text)
    assert (servers, len(problems)) == ({}, 1)


def test_links_out_of_the_workspace_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "outside.json").write_text(json.dumps({"mcpServers": {"a": {"command": "x"}}}))
    root = tmp_path / "root"
    root.mkdir()
    (root / ".mcp.json").symlink_to(tmp_path / "outside.json")
    assert read_mcp_servers([], [root])[0] == {}


@pytest.mark.parametrize(
    ("args", "line"),
    [
        (("-y", "a/b@1", "${HOME}/x", "--at=*"), "run -y a/b@1 ${HOME}/x --at=*"),
        (("-c", "touch /tmp/x"), "run -c 'touch /tmp/x'"),
        (("a;b", "", "it's"), "run 'a;b' '' 'it'\"'\"'s'"),
    ],
)
def test_a_command_line_shows_where_each_argument_ends(args: tuple[str, ...], line: str) -> None:
    assert McpServerEntry("x", McpServerSource(".mcp.json", {}), "run", args).line == line


def test_variables_without_value_and_default_are_an_error() -> None:
    assert expand_variables("${A}-${B:-b}-${C:-}-$D", {"A": "1"}) == "1-b--$D"
    with pytest.raises(ToolError, match="A has no value"):
        expand_variables("${A}", {"A": ""})


def test_answers_are_stored_per_folder_and_command_line_in_a_file_for_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "state" / "mcp.json"
    entry, other = (
        McpServerEntry("a", McpServerSource("s", {}), "x", ("-1",)),
        McpServerEntry("a", McpServerSource("s", {}), "x", ("-2",)),
    )
    folder = tmp_path / "w"
    Approvals(path).save(folder, entry, True)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    approvals = Approvals(path)
    assert (approvals.get(folder, entry), approvals.get(folder, other), approvals.get(tmp_path, entry)) == (
        True,
        None,
        None,
    )
    approvals.save(folder, entry, None)
    assert Approvals(path).get(folder, entry) is None


_SAVE = """
import sys
from pathlib import Path
from deputy_agents.guidance.mcp_entry import McpServerEntry, McpServerSource
from deputy_agents.mcp.approvals import Approvals
path, mine = Path(sys.argv[1]), sys.argv[2]
print("ready", flush=True)
input()
for n in range(10):
    Approvals(path).save(Path("/w"), McpServerEntry(f"{mine}-{n}", McpServerSource("s", {}), "x"), True)
"""


def test_concurrent_answers_are_all_stored(tmp_path: Path) -> None:
    path = tmp_path / "state" / "mcp.json"
    program = [sys.executable, "-c", _SAVE, str(path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    others = [subprocess.Popen([*program, name], **pipes) for name in ("a", "b")]  # type: ignore[call-overload]
    for other in others:
        assert other.stdout.readline() == "ready\n"
    for other in others:
        other.stdin.write("go\n")
        other.stdin.flush()
    approvals = Approvals(path)
    entries = [McpServerEntry(f"t-{n}", McpServerSource("s", {}), "x") for n in range(10)]
    with ThreadPoolExecutor(10) as threads:
        list(threads.map(lambda entry: approvals.save(Path("/w"), entry, True), entries))
    for other in others:
        other.communicate(timeout=60)
    assert [other.returncode for other in others] == [0, 0]
    assert len(json.loads(path.read_text("utf-8"))["folders"]["/w"]) == 30


@pytest.mark.parametrize("text", ["", "[]", '{"folders": 1}', '{"folders": {"/w": {"x": 1}}}'])
def test_unreadable_answers_count_as_none(tmp_path: Path, text: str) -> None:
    path = tmp_path / "mcp.json"
    path.write_text(text)
    assert Approvals(path).get(Path("/w"), McpServerEntry("a", McpServerSource("s", {}), "x")) is None
