"""Delegation tools over the wire, with a scripted Messages API."""

import asyncio
import json
from pathlib import Path

import pytest

from tests.support.model_replies import Json, Play, call, calls, say
from tests.support.rpc import RpcFailure
from tests.support.shared_server import Deputies, is_child, last_text

pytestmark = pytest.mark.asyncio(loop_scope="module")


def results(body: Json) -> list[Json]:
    """The tool results in the last message of a request."""
    content: str | list[Json] = body["messages"][-1]["content"]
    return [block for block in content if block["type"] == "tool_result"] if isinstance(content, list) else []


def result_text(block: Json) -> str:
    content = block["content"]
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


async def test_spawn_agents_returns_one_json_result_in_the_order_of_the_tasks(
    deputy: Deputies, workspace: Path
) -> None:
    def script(body: Json, _: int) -> Play:
        if is_child(body):
            if "second" in last_text(body):
                return calls(call("submit_error", error="no such thing"))
            return say(f"found by {last_text(body)}")
        if len(body["messages"]) > 1:
            return say("done")
        return calls(call("spawn_agents", tasks=[{"task": "first"}, {"task": "second"}, {"task": "third"}]))

    async with deputy(script, workspace) as (client, api):
        session, _ = await client.session()
        assert (await client.prompt(session, "go"))["stopReason"] == "end_turn"
        (block,) = results(api.bodies[-1])
        outcomes = json.loads(result_text(block))["sub_agent_results"]
        assert [outcome["task"] for outcome in outcomes] == ["first", "second", "third"]
        assert outcomes[0]["outcome"] == {"success": {"result": "found by first"}}
        assert outcomes[1]["outcome"] == {"failure": {"error": "no such thing", "error_kind": "sub_agent_error"}}
        started = {event["agentId"] for event in client.events("agent_started")}
        assert {outcome["agent_id"] for outcome in outcomes} < started


async def test_a_background_task_returns_at_once_and_wakes_the_agent_when_it_ends(
    deputy: Deputies, workspace: Path
) -> None:
    gate = asyncio.Event()

    def script(body: Json, _: int) -> Play:
        if is_child(body):
            return say("the child is done", gate=gate)
        if results(body):
            return say("I go on")
        if "task_id" in last_text(body):
            return say("I was told")
        return calls(call("task", description="look around", prompt="look", subagent_type="general"))

    async with deputy(script, workspace) as (client, api):
        session, primary = await client.session()
        assert (await client.prompt(session, "go"))["stopReason"] == "end_turn"
        accepted = json.loads(result_text(next(results(body)[0] for body in api.bodies if results(body))))
        assert accepted["status"] == "running"
        gate.set()
        turn = await client.event("turn_started", lambda event: event["origin"] == "task_end")
        await client.event("turn_finished", lambda event: event["turnId"] == turn["turnId"])
        told = json.loads(last_text(api.bodies[-1]))
        assert told == {"task_id": accepted["task_id"], "status": "completed", "summary": "the child is done"}
        token = f"deputy/{primary}/{turn['turnId']}"
        assert [report["kind"] for report in client.progress(token)][:1] == ["begin"]


async def test_a_message_reaches_a_running_agent_and_is_rejected_by_an_ended_one(
    deputy: Deputies, workspace: Path
) -> None:
    gate = asyncio.Event()
    (workspace / "a.txt").write_text("text\n")

    def script(body: Json, _: int) -> Play:
        if not is_child(body):
            return say("done") if len(body["messages"]) > 1 else calls(call("spawn_agent", instructions="look"))
        if len(body["messages"]) == 1:
            return calls(call("read_file", path="a.txt"), gate=gate)
        return say(f"I heard: {last_text(body)}")

    async with deputy(script, workspace) as (client, api):
        session, _ = await client.session()
        prompt = client.start_prompt(session, "go")
        child = (await client.event("agent_started", lambda event: event["agent"]["depth"] == 1))["agentId"]
        await api.until(lambda: any(is_child(body) for body in api.bodies))
        address = {"sessionId": session, "agentId": child}
        told = await client.request("deputy/agent/message", {**address, "text": "only the first line"})
        assert told == {"queued": True}
        gate.set()
        await client.result(prompt)
        assert result_text(results(api.bodies[-1])[0]) == "I heard: only the first line"
        with pytest.raises(RpcFailure) as failure:
            await client.request("deputy/agent/message", {**address, "text": "too late"})
        assert failure.value.code == -32003


async def test_definitions_of_the_workspace_are_listed_and_become_tools(deputy: Deputies, workspace: Path) -> None:
    folder = workspace / ".deputy" / "agents"
    folder.mkdir(parents=True)
    schema = "inputSchema: {type: object, required: [topic], properties: {topic: {type: string}}}"
    (folder / "haiku.md").write_text(
        f"---\nname: haiku\ndescription: Writes a haiku.\ntools: Read\n{schema}\n---\nOnly haiku.\n"
    )

    def script(body: Json, _: int) -> Play:
        if is_child(body):
            return say("an old silent pond")
        return say("done") if len(body["messages"]) > 1 else calls(call("haiku", topic="ponds"))

    async with deputy(script, workspace) as (client, api):
        listed = await client.request("deputy/definition/list", {})
        kinds = {definition["name"]: definition for definition in listed["definitions"]}
        assert kinds.keys() >= {"primary", "general", "code_search", "code_review", "planner", "haiku"}
        assert kinds["haiku"]["tools"] == ["read_file"]
        session, _ = await client.session()
        await client.prompt(session, "go")
        child = next(body for body in api.bodies if is_child(body))
        assert last_text(child) == "ponds"
        assert "Only haiku." in json.dumps(child["system"])
        assert result_text(results(api.bodies[-1])[0]) == "an old silent pond"
        (folder / "haiku.md").unlink()
        await client.prompt(session, "again")
        assert "haiku" not in {tool["name"] for tool in api.bodies[-1]["tools"]}
        await client.event("definitions_changed")


async def test_metrics_count_started_and_ended_agents(deputy: Deputies, workspace: Path) -> None:
    def script(body: Json, _: int) -> Play:
        if is_child(body):
            return say("found")
        return say("done") if len(body["messages"]) > 1 else calls(call("code_search", query="retries"))

    async with deputy(script, workspace) as (client, _):
        before = (await client.request("deputy/metrics", {}))["counters"]
        session, _ = await client.session()
        await client.prompt(session, "go")
        after = (await client.request("deputy/metrics", {}))["counters"]
        grown = {name: after.get(name, 0) - before.get(name, 0) for name in ("spawns", "completed", "failures")}
        assert grown == {"spawns": 1, "completed": 1, "failures": 0}


async def test_mode_model_title_and_rules_of_a_session_can_be_changed(deputy: Deputies, workspace: Path) -> None:
    def script(body: Json, _: int) -> Play:
        return say("done") if results(body) else calls(call("write_file", path="new.txt", content="x"))

    async with deputy(script, workspace) as (client, api):
        session, primary = await client.session()
        at = {"sessionId": session}
        await client.request("deputy/session/setPermissionMode", {**at, "permissionMode": "plan"})
        await client.request("deputy/session/setModel", {**at, "model": "another"})
        await client.request("deputy/session/rename", {**at, "title": "A title"})
        await client.prompt(session, "go")
        assert "plan" in result_text(results(api.bodies[-1])[0])
        assert api.bodies[-1]["model"] == "another"
        listed = await client.request("deputy/session/list", {})
        assert [info["title"] for info in listed["sessions"] if info["sessionId"] == session] == ["A title"]
        nodes = (await client.request("deputy/agent/list", at))["agents"]
        assert [node["model"] for node in nodes if node["agentId"] == primary] == ["another"]
        assert await client.request("deputy/rule/list", at) == {"rules": []}
        with pytest.raises(RpcFailure) as failure:
            await client.request("deputy/rule/remove", {**at, "ruleId": "none"})
        assert failure.value.code == -32602
