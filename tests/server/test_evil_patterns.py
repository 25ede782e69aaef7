"""Patterns in the files of a workspace that a backtracking engine never finishes: the server goes on."""

import asyncio
import json
from pathlib import Path

import pytest

from tests.support.mcp_workspaces import configure_mcp_servers, tools_server
from tests.support.model_replies import Json, Play, call, calls, say
from tests.support.rpc import RpcClient
from tests.support.shared_server import Deputies

pytestmark = pytest.mark.asyncio(loop_scope="module")

NAME = "a" * 200
EVIL = "*a" * 90 + "*b"
AGENT = """---
name: evil
description: Has a pattern without end.
inputSchema:
  type: object
  properties:
    x: {type: string, pattern: "^(a+)+$"}
    y: {patternProperties: {"^(y|a+)+$": {type: string}}, additionalProperties: false}
---
Work.
"""
CALLS = [
    ("list_dir", {"path": "."}),
    ("read_file", {"path": NAME}),
    ("glob", {"pattern": EVIL}),
    ("grep", {"pattern": "needle", "glob": "**/" * 90 + "b"}),
    ("grep", {"pattern": "^(a+)+$|needle"}),
    ("shell", {"command": f"echo {'a ' * 2000}"}),
    ("evil", {"x": "a" * 5000 + "!"}),
    ("evil", {"y": {"a" * 5000 + "!": "x"}}),
    ("mcp__evil__evil", {"x": "a" * 5000 + "!"}),
]


def approve(request: Json) -> Json:
    (option,) = [option for option in request["options"] if option["kind"] == "allow_once"]
    return {"outcome": {"outcome": "selected", "optionId": option["optionId"]}}


@pytest.fixture
def hostile(workspace: Path) -> Path:
    (workspace / NAME).write_text("needle\n")
    (workspace / ".gitignore").write_text("\n".join([EVIL, "**/" * 90 + "b", "[a]*" * 60 + "b", "a/**/" * 60 + "b"]))
    patterns = (EVIL, "**/" * 90 + "b", "*?" * 40 + "b", "**a" * 49 + "??" * 25 + "b")
    rules = [{"tool": "*", "pattern": pattern, "action": "deny"} for pattern in patterns]
    (workspace / ".deputy/agents").mkdir(parents=True)
    (workspace / ".deputy/settings.json").write_text(json.dumps({"permissions": {"rules": rules}}))
    (workspace / ".deputy/agents/evil.md").write_text(AGENT)
    configure_mcp_servers(workspace, evil=tools_server("evil_mcp_server"))
    return workspace


async def ping(client: RpcClient, longest: list[float]) -> None:
    loop = asyncio.get_running_loop()
    while True:
        asked = loop.time()
        await client.request("deputy/metrics", {})
        longest[0] = max(longest[0], loop.time() - asked)
        await asyncio.sleep(0.05)


async def test_no_pattern_of_a_workspace_stops_the_server(deputy: Deputies, hostile: Path) -> None:
    contents: list[str] = []

    def script(body: Json, _: int) -> Play:
        last = body["messages"][-1]["content"]
        contents.extend(str(block["content"]) for block in last if block["type"] == "tool_result")
        if body["messages"][-1]["role"] == "user" and len(body["messages"]) == 1:
            return say("hello")
        if len(contents) < len(CALLS):
            name, input = CALLS[len(contents)]
            return calls(call(name, **input))
        return say("done")

    async with deputy(script, hostile) as (client, _):
        client.handlers["deputy/permission/request"] = approve
        session_id, _ = await client.session()
        await client.prompt(session_id, "hello")
        await client.event("tool_call_update", lambda event: event["status"] == "completed")  # the MCP server runs
        longest = [0.0]
        pings = asyncio.create_task(ping(client, longest))
        try:
            async with asyncio.timeout(30):
                await client.prompt(session_id, "go")
        finally:
            pings.cancel()
    assert NAME in contents[0]
    assert "needle" in contents[1]
    assert contents[2] == "No files match."
    assert contents[3] == "No matches."
    assert "needle" in contents[4]
    assert "a a a" in contents[5]
    assert "does not match" in contents[6]
    assert "dditional properties are not allowed" in contents[7]
    assert "well" in contents[8]
    assert longest[0] < 5


@pytest.mark.parametrize(
    ("pattern", "reason"), [("(?=a)b", "lookaround and backreferences are not supported"), ("a{99999}", "too large")]
)
async def test_pattern_that_is_not_supported_is_reported(
    deputy: Deputies, workspace: Path, pattern: str, reason: str
) -> None:
    (workspace / ".deputy/agents").mkdir(parents=True)
    (workspace / ".deputy/agents/evil.md").write_text(AGENT.replace("^(a+)+$", pattern))
    async with deputy(lambda _body, _n: say("done"), workspace) as (client, _):
        session_id, _ = await client.session()
        await client.prompt(session_id, "go")
        assert reason in json.dumps(client.received)


async def test_rule_with_too_many_wildcards_makes_everything_ask(deputy: Deputies, workspace: Path) -> None:
    rules = [{"tool": "shell", "pattern": "*a" * 300, "action": "deny"}]
    (workspace / ".deputy").mkdir()
    (workspace / ".deputy/settings.json").write_text(json.dumps({"permissions": {"rules": rules}}))
    asked: list[str] = []

    def deny(request: Json) -> Json:
        asked.append(request["tool"])
        (option,) = [option for option in request["options"] if option["kind"] == "reject_once"]
        return {"outcome": {"outcome": "selected", "optionId": option["optionId"]}}

    def script(body: Json, _: int) -> Play:
        return say("done") if len(body["messages"]) > 1 else calls(call("list_dir", path="."))

    async with deputy(script, workspace) as (client, _):
        client.handlers["deputy/permission/request"] = deny
        session_id, _ = await client.session()
        await client.prompt(session_id, "go")
        assert asked == ["list_dir"]
        assert "more than 100 wildcards" in json.dumps(client.received)
