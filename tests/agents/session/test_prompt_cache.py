"""The provider's prompt cache: how much of what is sent starts with bytes that were sent before, and how long they are
kept."""

import json
from pathlib import Path

import pytest

from deputy_agents.domain.message import Reply
from deputy_agents.domain.settings import Settings
from deputy_agents.model.request_body import RequestBodies
from deputy_agents.model.scripted import call, calls, say, tool_results, use
from deputy_agents.ports.model import ModelRequest
from deputy_agents.run.prompt_cache import LONG_WAIT, PromptCache
from tests.support.api_rules import broken_rules
from tests.support.cached_share import CHILDREN, HEADERS, TURNS, cached_share, long_session
from tests.support.core import ALLOW, Core, StillClock, core, silent

pytestmark = pytest.mark.asyncio


@pytest.mark.requirement("M5")
async def test_nearly_all_bytes_of_a_long_session_with_children_are_in_the_cache(tmp_path: Path) -> None:
    requests = await long_session(tmp_path)
    assert len(requests) == 2 * TURNS + 6 * CHILDREN
    assert await cached_share(requests) >= 0.95


def lifetimes(requests: list[ModelRequest]) -> list[tuple[bool, bool]]:
    return [(request.long_cache_of_head, request.long_cache_of_messages) for request in requests]


@pytest.mark.requirement("M5")
async def test_the_cache_of_an_agent_that_waits_for_children_is_kept_for_an_hour(tmp_path: Path) -> None:
    def script(request: ModelRequest) -> Reply:
        if request.depth or tool_results(request):
            return say("done")
        return calls([use("spawn_agent", instructions="look")]) if len(request.messages) == 3 else say("hello")

    async with core(tmp_path, script) as c:
        for _ in range(3):
            await c.turn()
        assert lifetimes(c.requests()) == [(True, False), (True, False), (True, True), (True, True)]
        assert lifetimes(c.requests("look")) == [(False, False)]
        body = json.loads(await RequestBodies().encode(c.requests()[-1]))
        hour = {"type": "ephemeral", "ttl": "1h"}
        assert body["system"][-1]["cache_control"] == body["tools"][-1]["cache_control"] == hour
        sent = [block for message in body["messages"] for block in message["content"]]
        assert [block["cache_control"] for block in sent if "cache_control" in block] == [hour, hour]
        assert broken_rules(HEADERS, body) == []


@pytest.mark.requirement("M5")
async def test_the_cache_of_an_agent_that_waits_for_the_user_is_kept_for_an_hour(tmp_path: Path) -> None:
    clock = StillClock()
    asked = silent()

    def script(request: ModelRequest) -> Reply:
        return say("done") if tool_results(request) else call("write_file", path="a.txt", content="x")

    async with core(tmp_path, script, asked, clock=clock, settings=Settings()) as c:
        turn = c.start()
        request = await c.permission_request()
        clock.advance(LONG_WAIT + 1)
        approve(c, request.request_id)
        await c.finish(turn)
        assert lifetimes(c.requests()) == [(True, False), (True, True)]


def approve(c: Core, request_id: str) -> None:
    c.session.inbox.answer(request_id, ALLOW)


async def test_new_tools_follow_those_of_earlier_requests() -> None:
    cache = PromptCache()
    assert cache.ordered(["shell", "mcp__b__x", "grep"]) == ["grep", "shell", "mcp__b__x"]
    assert cache.ordered(["grep", "mcp__a__y", "mcp__b__x", "edit", "shell"]) == [
        "grep",
        "shell",
        "mcp__b__x",
        "edit",
        "mcp__a__y",
    ]
    assert cache.ordered(["mcp__b__x", "grep"]) == ["grep", "mcp__b__x"]
    assert cache.ordered(["mcp__b__x", "shell", "grep"]) == ["grep", "shell", "mcp__b__x"]
