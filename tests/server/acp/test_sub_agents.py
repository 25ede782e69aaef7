"""Sub-agents over the Agent Client Protocol: as sessions, and as content of a tool call."""

import asyncio
from pathlib import Path

import pytest

from tests.support.acp import ASK, SUBAGENTS, AcpClient, Speakers, choose, speaking
from tests.support.delegation import define
from tests.support.messages_api import messages_api
from tests.support.model_replies import Json, Play, call, calls, say
from tests.support.rpc import RpcFailure, Unanswered
from tests.support.shared_server import hanging, is_child, spawning

pytestmark = pytest.mark.asyncio(loop_scope="module")


def of_child(client: AcpClient, child: str) -> list[Json]:
    """All updates in or about the session of a sub-agent, in order."""
    found: list[Json] = []
    for message in client.received:
        params = message.get("params", {})
        about = params.get("update", {}).get("sessionId") == child
        if params.get("sessionId") == child or about:
            found.append(message)
    return found


def states(client: AcpClient, child: str) -> list[str]:
    updates = [u for u in client.updates("subagent_update") if u["sessionId"] == child]
    return [u["state"]["state"] for u in updates if "state" in u]


async def child_of(client: AcpClient) -> str:
    return (await client.update("subagent_update"))["sessionId"]


def writing(path: str) -> object:
    """A sub-agent that writes a file and reports it."""

    def play(body: Json, _: int) -> Play:
        if len(body["messages"]) == 1:
            return calls(call("write_file", path=path, content="new\n"))
        return say("written")

    return spawning("write it", child=play, mode="default")


async def test_a_sub_agent_is_announced_before_the_updates_of_its_session(acp: Speakers, workspace: Path) -> None:
    (workspace / "a.txt").write_text("text\n")

    def child(body: Json, _: int) -> Play:
        return calls(call("read_file", path="a.txt")) if len(body["messages"]) == 1 else say("it says text")

    async with acp(spawning("look at a.txt", child=child), workspace, SUBAGENTS) as (client, _, session):
        assert (await client.say(session, "go"))["stopReason"] == "end_turn"
        announced = await client.update("subagent_update")
        assert (announced["title"], announced["description"]) == ("look at a.txt", "general")
        assert announced["capabilities"] == {"cancel": {}}
        delegation = next(u for u in client.updates("tool_call", session) if u["name"] == "spawn_agent")
        assert announced["_meta"]["deputy"]["toolCallId"] == delegation["toolCallId"]
        child_id = announced["sessionId"]
        first, told, *others = of_child(client, child_id)
        assert first["params"]["update"] is announced
        assert told["params"]["update"]["sessionUpdate"] == "session_message"
        assert told["params"]["update"]["content"] == [{"type": "text", "text": "look at a.txt"}]
        assert (told["params"]["update"]["senderSessionId"], told["params"]["sessionId"]) == (session, child_id)
        assert [u["title"] for u in client.updates("tool_call", child_id)] == ["read_file(a.txt)"]
        assert client.text(child_id) == "it says text"
        assert others[-1]["params"]["update"]["state"]["stopReason"] == "end_turn"
        assert others[-1]["params"]["update"]["capabilities"] == {}
        assert client.text(session) == "done"


@pytest.mark.parametrize("kind", ["allow_once", "reject_once"])
async def test_a_permission_request_of_a_sub_agent_is_sent_in_its_session_which_requires_action(
    acp: Speakers, workspace: Path, kind: str
) -> None:
    async with acp(writing("a.txt"), workspace, SUBAGENTS) as (client, _, session):
        asked: list[Json] = []
        client.handlers[ASK] = lambda permission_request: (
            asked.append(permission_request) or choose(kind)(permission_request)
        )
        await client.say(session, "go")
        (permission_request,) = asked
        child = await child_of(client)
        assert permission_request["sessionId"] == child
        assert permission_request["toolCall"]["title"] == "[write it] write_file(a.txt)"
        path = str(workspace / "a.txt")
        assert permission_request["toolCall"]["content"] == [
            {"type": "diff", "path": path, "oldText": None, "newText": "new\n"}
        ]
        assert permission_request["_meta"]["deputy"]["agent"]["label"] == "write it"
        assert states(client, child) == ["running", "requires_action", "running", "idle"]
        assert (workspace / "a.txt").exists() == (kind == "allow_once")


async def test_a_sub_agent_is_cancelled_by_its_session_and_its_sibling_continues(
    acp: Speakers, workspace: Path
) -> None:
    gate = asyncio.Event()
    script = spawning("first", "second", child=hanging(gate))
    async with acp(script, workspace, SUBAGENTS) as (client, api, session):
        prompt = client.start_say(session, "go")
        await api.until(lambda: len([b for b in api.bodies if is_child(b)]) == 2)
        named = [await client.update("subagent_update", title=name) for name in ("first", "second")]
        children = {update["title"]: update["sessionId"] for update in named}
        client.notify("session/cancel", {"sessionId": children["first"]})
        ended = await client.update("subagent_update", sessionId=children["first"], capabilities={})
        assert ended["state"]["stopReason"] == "cancelled"
        assert states(client, children["second"]) == ["running"]
        gate.set()
        assert (await client.result(prompt))["stopReason"] == "end_turn"
        ended = await client.update("subagent_update", sessionId=children["second"], capabilities={})
        assert ended["state"]["stopReason"] == "end_turn"
        delegations = [u for u in client.updates("tool_call_update", session) if u.get("status") == "failed"]
        assert [u["content"][0]["content"]["text"] for u in delegations] == ["Sub-agent cancelled by user."]


@pytest.mark.parametrize("answered", [True, False])
async def test_the_permission_request_of_a_cancelled_sub_agent_closes_before_the_agent_ends(
    acp: Speakers, workspace: Path, answered: bool
) -> None:
    async with acp(writing("a.txt"), workspace, SUBAGENTS) as (client, _, session):
        withdrawn: asyncio.Queue[Json] = asyncio.Queue()
        client.on_message = lambda m: withdrawn.put_nowait(m) if m.get("method") == "$/cancel_request" else None
        client.handlers[ASK] = lambda _: Unanswered
        prompt = client.start_say(session, "go")
        permission_request = await client.until(lambda m: m.get("method") == ASK)
        child = permission_request["params"]["sessionId"]
        client.notify("session/cancel", {"sessionId": child})
        assert (await withdrawn.get())["params"] == {"requestId": permission_request["id"]}
        if answered:  # too late: it does not approve anything
            client.send(
                {
                    "jsonrpc": "2.0",
                    "id": permission_request["id"],
                    "result": choose("allow_once")(permission_request["params"]),
                }
            )
        await client.result(prompt)
        client.on_message = lambda _: None
        assert states(client, child)[-1] == "idle"
        assert not (workspace / "a.txt").exists()


async def test_a_sub_agent_cannot_be_prompted_or_loaded(acp: Speakers, workspace: Path) -> None:
    script = spawning("look", child=lambda _b, _n: say("seen"))
    async with acp(script, workspace, SUBAGENTS) as (client, _, session):
        await client.say(session, "go")
        child = await child_of(client)
        for method, params in (
            ("session/prompt", {"prompt": [{"type": "text", "text": "and you?"}]}),
            ("session/load", {"cwd": str(workspace), "mcpServers": []}),
            ("session/delete", {}),
        ):
            with pytest.raises(RpcFailure, match="sub-agent") as failure:
                await client.request(method, {"sessionId": child, **params})
            assert failure.value.code == -32602


async def test_a_client_without_sub_agent_sessions_sees_them_in_the_call_that_started_them(
    acp: Speakers, workspace: Path
) -> None:
    (workspace / "a.txt").write_text("text\n")

    def child(body: Json, _: int) -> Play:
        if len(body["messages"]) == 1:
            return calls(call("read_file", path="a.txt"), call("read_file", path="nothing.txt"))
        return say("**it** says text")

    async with acp(spawning("look at a.txt", child=child), workspace) as (client, _, session):
        await client.say(session, "go")
        assert client.updates("subagent_update") == []
        assert {m["params"]["sessionId"] for m in client.received if m.get("method") == "session/update"} == {session}
        (delegation,) = client.updates("tool_call")
        shown = [
            u["content"][0]["content"]["text"]
            for u in client.updates("tool_call_update")
            if u["toolCallId"] == delegation["toolCallId"] and u.get("content")
        ]
        assert shown[0] == "⟳ **look at a.txt** (general): running · 0 calls"
        assert "⟳ **look at a.txt** (general): running · 2 calls\n- ✓ read\\_file(a.txt)\n- ✗ read\\_file" in "\n".join(
            shown
        )
        assert shown[-1] == "✓ **look at a.txt** (general): completed · 2 calls\n\n**it** says text"
        assert client.text(session) == "done"


async def test_a_change_by_a_sub_agent_is_a_separate_call_with_its_label(acp: Speakers, workspace: Path) -> None:
    async with acp(writing("a.txt"), workspace) as (client, _, session):
        client.handlers[ASK] = choose("allow_once")
        await client.say(session, "go")
        _, edit = client.updates("tool_call")
        assert edit["title"] == "[write it] write_file(a.txt)"
        permission_request = await client.until(lambda m: m.get("method") == ASK)
        assert permission_request["params"]["toolCall"]["toolCallId"] == edit["toolCallId"]
        assert permission_request["params"]["sessionId"] == session
        ends = [u["status"] for u in client.updates("tool_call_update") if u["toolCallId"] == edit["toolCallId"]]
        assert ends == ["in_progress", "completed"]


@pytest.mark.parametrize("abilities", [SUBAGENTS, {}], ids=["sessions", "blocks"])
async def test_nested_sub_agents_are_announced_by_their_parent_or_shown_in_the_first_call(
    workspace: Path, tmp_path: Path, abilities: Json
) -> None:
    settings = tmp_path / "settings.json"
    settings.write_text('{"agents": {"maxDepth": 2}, "model": "m"}')
    define(workspace, "lead", ["tools: spawn_agent"])

    def script(body: Json, _: int) -> Play:
        task = str(body["messages"][0]["content"])
        if "inner" in task:
            return say("found")
        if len(body["messages"]) > 1:
            return say("passed on" if "outer" in task else "done")
        if "outer" in task:
            return calls(call("spawn_agent", instructions="inner"))
        return calls(call("spawn_agents", tasks=[{"task": "outer", "subagent_type": "lead", "mode": "default"}]))

    async with messages_api(script) as api:
        env = {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": api.url}
        async with speaking("--settings", str(settings), env=env) as client:
            await client.greet(**abilities)
            session = await client.open(workspace)
            await client.say(session, "go")
    if abilities:
        announced = [
            m["params"] for m in client.received if "subagent_update" in str(m) and "title" in m["params"]["update"]
        ]
        (outer, inner) = [(one["sessionId"], one["update"]["sessionId"], one["update"]["title"]) for one in announced]
        assert outer == (session, outer[1], "outer")
        assert inner == (outer[1], inner[1], "inner")
        assert client.text(inner[1]) == "found"
    else:
        (delegation,) = client.updates("tool_call")
        shown = [block["content"]["text"] for block in client.updates("tool_call_update")[-1]["content"]]
        assert client.updates("tool_call_update")[-1]["toolCallId"] == delegation["toolCallId"]
        assert [text.split("\n")[0] for text in shown] == [
            "✓ **outer** (lead): completed · 1 call",
            "✓ **inner** (general): completed · 0 calls",
        ]
