"""Many tools of MCP servers: requests have only those that an agent has found."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from deputy_agents.domain.event import ToolCallUpdated
from deputy_agents.domain.message import Message, Reply, Text, ToolResult, ToolUse
from deputy_agents.domain.permission_mode import PermissionMode
from deputy_agents.domain.settings import Settings
from deputy_agents.mcp.catalog import McpServerState
from deputy_agents.model.request_body import RequestBodies
from deputy_agents.model.scripted import call, say, tool_results
from deputy_agents.ports.model import ModelRequest, ToolSpec
from deputy_agents.tool.tool_search import MAX_BYTES, MAX_TOOLS, NAME, FoundTools, ToolSearch, are_many, ranked
from tests.support.commands import until
from tests.support.core import BOUND, Core, Person, core, delegate
from tests.support.mcp_workspaces import configure_mcp_servers, tools_server

pytestmark = pytest.mark.requirement("M6")

SCHEMA = {"type": "object", "properties": {}}


def spec(name: str, description: str = "", schema: dict[str, object] | None = None) -> ToolSpec:
    return ToolSpec(f"mcp__{name}", description, schema or SCHEMA)


def test_tools_are_many_by_number_or_by_size() -> None:
    few = [spec(f"s__t{number}") for number in range(MAX_TOOLS)]
    assert not are_many(few)
    assert are_many([*few, spec("s__more")])
    assert are_many([spec("s__large", "x" * MAX_BYTES)])
    assert not are_many([])


@pytest.mark.parametrize(
    ("query", "best"),
    [
        ("close an issue", "mcp__git__close_issue"),
        ("invoice pdf", "mcp__money__export"),
        ("money", "mcp__money__export"),
        ("issu", "mcp__git__close_issue"),
        ("CLOSE", "mcp__git__close_issue"),
        ("frobnicate", None),
        ("*", None),
    ],
)
def test_the_best_match_comes_first(query: str, best: str | None) -> None:
    specs = [
        spec("git__close_issue", "Closes it."),
        spec("git__open_issue", "Opens an issue."),
        spec("money__export", "Writes an invoice as PDF."),
    ]
    found = ranked(query, specs)
    assert (found[0].name if found else None) == best


def history(*searches: tuple[str, str]) -> Sequence[Message]:
    messages: list[Message] = []
    for call_id, text in searches:
        messages.append(Message("assistant", (ToolUse(call_id, NAME, {"query": "x"}),)))
        messages.append(Message("user", (ToolResult(call_id, text), Text("- `mcp__s__said`: by the user"))))
    return messages


def test_found_tools_follow_from_the_history_in_the_order_of_the_searches() -> None:
    found = FoundTools()
    offered = dict.fromkeys(["mcp__s__a", "mcp__s__b", "mcp__s__said"])
    texts = (
        "You can call these tools now:\n- `mcp__s__b`: x\n- `mcp__gone__c`: y",
        "- `mcp__s__a`: z\n- `mcp__s__b`: x",
    )
    messages = history(("1", texts[0]), ("2", texts[1]))
    assert list(found.names(messages[:2], offered)) == ["mcp__s__b"]
    assert list(found.names(messages, offered)) == ["mcp__s__b", "mcp__s__a"]
    assert list(found.names(messages[:2], offered)) == ["mcp__s__b"]
    assert list(FoundTools().names(messages, offered)) == ["mcp__s__b", "mcp__s__a"]


def mcp_tools(request: ModelRequest) -> list[str]:
    return [tool.name for tool in request.tools if tool.name.startswith("mcp__")]


def size(request: ModelRequest) -> int:
    """Bytes of the tools of MCP servers, and of the search for them."""
    tools = [tool for tool in request.tools if tool.name.startswith(("mcp__", NAME))]
    plain = [{"name": one.name, "description": one.description, "input_schema": one.input_schema} for one in tools]
    return len(json.dumps(plain))


async def prompt(c: Core, text: str = "go") -> str:
    async with asyncio.timeout(BOUND):
        await c.session.refresh()
        turn = await c.session.prompts.accept([Text(text)])
        return (await turn.result()).stop_reason


def script(request: ModelRequest) -> Reply:
    """Searches, calls what it has found, and lets a child do the same."""
    task, done = request.messages[-1].text, len(tool_results(request))
    if request.depth:
        calls_so_far = sum(isinstance(block, ToolUse) for message in request.messages for block in message.content)
        if calls_so_far == 0:
            return call(NAME, query="merge tickets")
        found = mcp_tools(request)
        return call(found[0], project="p", number=2) if calls_so_far == 1 else say("Merged.")
    if task.startswith("search"):
        return call(NAME, query="close issue a", limit=3)
    if task.startswith("delegate"):
        return delegate("merge it", mode="default")
    if task.startswith("close"):
        return call("mcp__many__close_issue_a", project="p", number=1)
    if done and any("close_issue_a`" in str(block) for block in request.messages[-1].content):
        return call("mcp__many__close_issue_a", project="p", number=1)
    return say("done")


@pytest.mark.asyncio
async def test_300_tools_cost_little_and_those_that_are_found_can_be_called(workspace: Path) -> None:
    configure_mcp_servers(workspace, many=tools_server("many_tools_server"))
    settings = Settings(permission_mode=PermissionMode.BYPASS)
    async with core(workspace, script, Person(), settings=settings) as c:
        await prompt(c, "hello")
        await until(lambda: [s.state for s in c.session.mcp_servers.list()] == [McpServerState.READY], 2 * BOUND)
        assert len(c.session.mcp_servers.tools()) == 300
        await prompt(c, "hello")
        context = c.session.prompts.builtin.context
        before = {part.name: part.tokens for part in (await context.usage()).parts}
        assert 0 < 3.5 * before["mcp"] < 5000
        assert size(c.model.requests[-1]) < 5000
        assert mcp_tools(c.model.requests[-1]) == []
        await prompt(c, "search and close")
        first, second, third = c.model.requests[-3:]
        assert mcp_tools(second) == mcp_tools(third) != []
        assert "mcp__many__close_issue_a" in mcp_tools(second)
        assert second.tools[: len(first.tools)] == first.tools  # found tools follow, so the beginning stays the same
        assert size(second) < 5000
        assert c.bodies(ToolCallUpdated)[-1].content == "close_issue_a of p 1"
        bodies = RequestBodies()
        sent = [await bodies.encode(request) for request in (second, third)]
        assert sent[0][: sent[0].index(b'"messages"')] == sent[1][: sent[1].index(b'"messages"')]
        await prompt(c, "delegate")
        assert c.told() == ["Merged."]
        assert mcp_tools(c.requests("merge it")[0]) == []
        assert len(mcp_tools(c.requests("merge it")[1])) > 0


@pytest.mark.asyncio
async def test_a_tool_that_was_not_found_can_be_called_by_its_name(workspace: Path) -> None:
    configure_mcp_servers(workspace, many=tools_server("many_tools_server"))
    settings = Settings(permission_mode=PermissionMode.BYPASS)
    async with core(workspace, script, Person(), settings=settings) as c:
        await prompt(c, "hello")
        await until(lambda: [s.state for s in c.session.mcp_servers.list()] == [McpServerState.READY], 2 * BOUND)
        await prompt(c, "close it")
        assert c.bodies(ToolCallUpdated)[-1].content == "close_issue_a of p 1"


@pytest.mark.asyncio
async def test_few_tools_are_part_of_every_request(workspace: Path) -> None:
    configure_mcp_servers(workspace, tools=tools_server(TOOLS_TOKEN="hush-hush-hush"))
    settings = Settings(permission_mode=PermissionMode.BYPASS)
    async with core(workspace, lambda _: say("hello"), Person(), settings=settings) as c:
        await prompt(c)
        await until(lambda: [s.state for s in c.session.mcp_servers.list()] == [McpServerState.READY], 2 * BOUND)
        await prompt(c)
        names = [tool.name for tool in c.model.requests[-1].tools]
        assert NAME not in names
        assert "mcp__tools__echo" in names


def test_a_search_lists_the_servers_when_nothing_matches() -> None:
    search = ToolSearch([spec("git__close"), spec("money__pay")])
    assert "git (1), money (1)" in search.spec.description
