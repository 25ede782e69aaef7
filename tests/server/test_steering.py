"""What a client can do while agents run, over the wire: send messages, stop, approve, and set limits."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from deputy_protocol.event import EventParams
from tests.support.messages_api import MessagesApi, Script, messages_api
from tests.support.model_replies import Json, Play, call, calls, say
from tests.support.rpc import RpcClient, RpcFailure, Unanswered, serving
from tests.support.shared_server import Deputies, is_child, last_text, spawning

pytestmark = pytest.mark.asyncio(loop_scope="module")

ASK = "deputy/permission/request"


@asynccontextmanager
async def configured(
    script: Script, workspace: Path, **settings: object
) -> AsyncGenerator[tuple[RpcClient, MessagesApi]]:
    """A separate server with ``settings`` and the address of ``script``."""
    async with messages_api(script) as api, serving(env={"ANTHROPIC_API_KEY": "test-key"}) as client:
        options = {"model": "m", "baseUrl": api.url, **settings}
        await client.initialize(workspace, initializationOptions=options)
        yield client, api
        assert await client.shut_down() == 0
        assert api.violations == []


def results(body: Json) -> list[str]:
    """The texts of the tool results in the last message of a request."""
    content: str | list[Json] = body["messages"][-1]["content"]
    blocks = [block for block in content if block["type"] == "tool_result"] if isinstance(content, list) else []
    return [text if isinstance(text := block["content"], str) else text[0]["text"] for block in blocks]


def background(child: Script) -> Script:
    """The primary starts a task for each prompt "start", and resumes the first task for "again"."""
    ids: list[str] = []

    def play(body: Json, n: int) -> object:
        if is_child(body):
            return child(body, n)
        if accepted := results(body):
            ids.append(json.loads(accepted[0])["task_id"])
            return say("I go on")
        if last_text(body) not in ("start", "again"):
            return say(f"I was told: {last_text(body)}")
        more = {"task_id": ids[0]} if last_text(body) == "again" else {}
        return calls(call("task", description="look around", prompt="look", subagent_type="general", **more))

    return play  # type: ignore[return-value]


# -- background agents -------------------------------------------------------------------------------------------------


@pytest.mark.requirement("E1")
async def test_a_background_task_emits_call_start_result_and_later_its_end(deputy: Deputies, workspace: Path) -> None:
    gate = asyncio.Event()
    async with deputy(background(lambda _body, _n: say("found", gate=gate)), workspace) as (client, _):
        session, _ = await client.session()
        await client.prompt(session, "start")
        gate.set()
        await client.event("turn_finished", lambda event: client.events("turn_finished").index(event) == 1)
        child = client.events("agent_started")[1]
        delegation = child["toolCallId"]
        events = client.events()
        of_delegation = [event for event in events if event.get("toolCallId") == delegation]
        assert [(event["type"], event.get("status")) for event in of_delegation] == [
            ("tool_call", "pending"),
            ("tool_call_update", "in_progress"),
            ("agent_started", None),
            ("tool_call_update", "completed"),
        ]
        (finished,) = client.events("agent_finished")
        first_turn, woken = client.events("turn_finished")[0], client.events("turn_started")[1]
        order = [events.index(event) for event in (of_delegation[-1], first_turn, finished, woken)]
        assert order == sorted(order)
        for event in events:
            EventParams.model_validate(event)


async def test_a_resumed_task_is_a_second_run_with_its_own_progress(deputy: Deputies, workspace: Path) -> None:
    async with deputy(background(lambda _body, _n: say("found")), workspace) as (client, _):
        session, _ = await client.session()
        await client.prompt(session, "start")
        await client.event("agent_finished", lambda event: event["run"] == 1)
        await client.prompt(session, "again", queue=True)
        finished = await client.event("agent_finished", lambda event: event["run"] == 2)
        child = finished["agentId"]
        own = [event for event in client.events() if event.get("agentId") == child and event.get("run") == 2]
        assert own[0]["type"] == "agent_started"
        assert own[0]["agent"]["run"] == 2
        assert [event["agentSeq"] for event in own if "seq" in event][:2] == [1, 2]
        await client.until(
            lambda m: (
                m.get("method") == "$/progress"
                and m["params"]["token"] == f"deputy/{child}/2"
                and m["params"]["value"]["kind"] == "end"
            )
        )
        for token in (f"deputy/{child}", f"deputy/{child}/2"):
            assert [value["kind"] for value in client.progress(token)][:: len(client.progress(token)) - 1] == [
                "begin",
                "end",
            ]


async def test_without_waking_the_result_of_a_task_comes_with_the_next_prompt(workspace: Path) -> None:
    script = background(lambda _body, _n: say("found"))
    async with configured(script, workspace, agents={"wakeOnTaskEnd": False}) as (client, api):
        session, _ = await client.session()
        await client.prompt(session, "start")
        await client.event("agent_finished")
        await client.prompt(session, "and now?")
        assert [event["origin"] for event in client.events("turn_started")] == ["user", "user"]
        assert '"summary": "found"' in json.dumps(api.bodies[-1]["messages"]).replace('\\"', '"')


# -- messages and cancels ----------------------------------------------------------------------------------------------


async def test_a_message_to_an_unknown_agent_or_an_empty_one_is_rejected(deputy: Deputies, workspace: Path) -> None:
    async with deputy(lambda _body, _n: say("hello"), workspace) as (client, _):
        session, primary = await client.session()
        for agent, text, code in ((primary, "hi", -32003), ("nobody", "hi", -32008), (primary, " ", -32602)):
            with pytest.raises(RpcFailure) as failure:
                await client.request("deputy/agent/message", {"sessionId": session, "agentId": agent, "text": text})
            assert failure.value.code == code


async def test_a_message_to_an_agent_is_shown_as_a_user_message(deputy: Deputies, workspace: Path) -> None:
    gate = asyncio.Event()
    (workspace / "a.txt").write_text("text\n")

    def child(body: Json, _: int) -> Play:
        return say("found") if len(body["messages"]) > 1 else calls(call("read_file", path="a.txt"), gate=gate)

    async with deputy(spawning("look", child=child), workspace) as (client, _):
        session, _ = await client.session()
        prompt = client.start_prompt(session, "go")
        agent = (await client.event("agent_started", lambda event: event["agent"]["depth"] == 1))["agentId"]
        await client.request("deputy/agent/message", {"sessionId": session, "agentId": agent, "text": "be brief"})
        gate.set()
        await client.result(prompt)
        said = [(event["role"], event["text"]) for event in client.events("message") if event["agentId"] == agent]
        assert ("user", "be brief") in said


async def test_a_queued_agent_has_a_position_and_can_be_cancelled(workspace: Path) -> None:
    gate = asyncio.Event()
    script = spawning("first", "second", "third", child=lambda _body, _n: say("found", gate=gate))
    async with configured(script, workspace, agents={"maxParallel": 1}) as (client, api):
        session, _ = await client.session()
        prompt = client.start_prompt(session, "go")
        third = (await client.event("agent_started", lambda event: event["agent"]["label"] == "third"))["agent"]
        nodes = (await client.request("deputy/agent/list", {"sessionId": session}))["agents"]
        places = {node["label"]: (node["status"], node.get("queuePosition")) for node in nodes}
        assert places["second"] == ("pending", 1)
        assert places["third"] == ("pending", 2)
        target = {"sessionId": session, "agentId": third["agentId"]}
        assert await client.request("deputy/agent/cancel", target) == {"cancelled": True}
        assert await client.request("deputy/agent/cancel", target) == {"cancelled": False}
        assert (await client.request("deputy/metrics", {}))["gauges"] == {"running": 1, "queue.depth": 1}
        gate.set()
        await client.result(prompt)
        assert results(api.bodies[-1]) == ["found", "found", "Sub-agent cancelled by user."]
        assert client.progress(f"deputy/{third['agentId']}") == []


async def test_a_prompt_cancelled_before_it_begins_ends_as_cancelled(deputy: Deputies, workspace: Path) -> None:
    async with deputy(lambda _body, _n: say("hello"), workspace) as (client, _):
        session, _ = await client.session()
        prompt = client.start_prompt(session, "go")
        client.notify("$/cancelRequest", {"id": prompt})
        assert (await client.result(prompt))["stopReason"] == "cancelled"
        assert (await client.prompt(session, "again"))["stopReason"] == "end_turn"


async def test_prompts_sent_together_run_in_order(deputy: Deputies, workspace: Path) -> None:
    async with deputy(lambda _body, _n: say("hello"), workspace) as (client, api):
        session, _ = await client.session()
        prompts = [client.start_prompt(session, word, queue=True) for word in ("one", "two", "three", "four")]
        for prompt in prompts:
            assert (await client.result(prompt))["stopReason"] == "end_turn"
        assert [last_text(body) for body in api.bodies] == ["one", "two", "three", "four"]


# -- what is shown -----------------------------------------------------------------------------------------------------


@pytest.mark.requirement("X21")
async def test_the_plan_of_an_agent_is_an_event(deputy: Deputies, workspace: Path) -> None:
    steps = [{"content": "look", "status": "completed"}, {"content": "write", "priority": "high"}]

    def script(body: Json, _: int) -> Play:
        return say("done") if results(body) else calls(call("todo", entries=steps))

    async with deputy(script, workspace) as (client, _):
        session, primary = await client.session()
        await client.prompt(session, "go")
        (plan,) = client.events("plan")
        EventParams.model_validate(plan)
        assert plan["agentId"] == primary
        assert plan["entries"] == [
            {"content": "look", "status": "completed"},
            {"content": "write", "status": "pending", "priority": "high"},
        ]


@pytest.mark.requirement("X6")
async def test_locations_in_an_answer_become_references(deputy: Deputies, workspace: Path) -> None:
    (workspace / "a.py").write_text("one\ntwo\nthree\n")
    async with deputy(spawning("look", child=lambda _body, _n: say("See `a.py:2-3`.")), workspace) as (client, _):
        session, _ = await client.session()
        await client.prompt(session, "go")
        (finished,) = client.events("agent_finished")
        span = {"start": {"line": 1, "character": 0}, "end": {"line": 3, "character": 0}}
        assert finished["references"] == [{"uri": (workspace / "a.py").as_uri(), "range": span}]
        assert [m["references"] for m in client.events("message") if m["text"] == "See `a.py:2-3`."] == [
            finished["references"]
        ]


async def test_changes_of_a_session_are_events(deputy: Deputies, workspace: Path) -> None:
    async with deputy(lambda _body, _n: say("hello"), workspace) as (client, _):
        session, _ = await client.session()
        at = {"sessionId": session}
        for method, change in (
            ("setPermissionMode", {"permissionMode": "accept_edits"}),
            ("setModel", {"model": "another"}),
            ("rename", {"title": "A title"}),
        ):
            client.received.clear()
            assert await client.request(f"deputy/session/{method}", {**at, **change}) == {}
            EventParams.model_validate(await client.event("session_changed"))


@pytest.mark.parametrize(
    ("method", "change", "field"),
    [
        ("setPermissionMode", {"permissionMode": "yolo"}, "permissionMode"),
        ("setModel", {"model": " "}, "model"),
        ("rename", {"title": "\n"}, "title"),
    ],
)
async def test_an_invalid_change_is_rejected_with_the_field(
    deputy: Deputies, workspace: Path, method: str, change: Json, field: str
) -> None:
    async with deputy(lambda _body, _n: say("hello"), workspace) as (client, _):
        session, _ = await client.session()
        with pytest.raises(RpcFailure) as failure:
            await client.request(f"deputy/session/{method}", {"sessionId": session, **change})
        assert (failure.value.code, failure.value.data["field"]) == (-32602, field)


# -- permissions -------------------------------------------------------------------------------------------------------


def writing(*paths: str) -> Script:
    """The primary writes all ``paths`` in one response for each prompt."""

    def play(body: Json, _: int) -> Play:
        if results(body):
            return say("done")
        return calls(*(call("write_file", path=path, content="new\n") for path in paths))

    return play


async def test_several_named_permission_requests_are_answered_at_once(deputy: Deputies, workspace: Path) -> None:
    async with deputy(writing("a.txt", "b.txt", "c.txt"), workspace) as (client, _):
        client.handlers[ASK] = lambda _: Unanswered
        session, _ = await client.session()
        prompt = client.start_prompt(session, "go")
        await client.event("permission_requested", lambda event: event["title"] == "write_file(c.txt)")
        requests = (await client.request("deputy/permission/list", {"sessionId": session}))["requests"]
        first, second, third = (request["requestId"] for request in requests)
        yes = next(option["optionId"] for option in requests[0]["options"] if option["kind"] == "allow_once")
        outcome = {"outcome": "selected", "optionId": yes}
        for ids, option, field in (
            ([first, "unknown"], yes, "requestIds[1]"),
            ([first, second], "maybe", "outcome.optionId"),
        ):
            wrong = {"requestIds": ids, "outcome": {**outcome, "optionId": option}}
            with pytest.raises(RpcFailure, match="-32602") as failure:
                await client.request("deputy/permission/answerMany", wrong)
            assert failure.value.data["field"] == field
        assert client.events("permission_resolved") == []

        both = {"requestIds": [first, second, first], "outcome": outcome}
        assert await client.request("deputy/permission/answerMany", both) == {"accepted": [first, second]}
        assert await client.request("deputy/permission/answerMany", both) == {"accepted": []}
        left = (await client.request("deputy/permission/list", {"sessionId": session}))["requests"]
        assert [request["requestId"] for request in left] == [third]
        refusal = {"requestId": third, "outcome": {"outcome": "cancelled"}}
        assert await client.request("deputy/permission/answer", refusal) == {"accepted": True}
        await client.result(prompt)
        assert [(workspace / name).exists() for name in ("a.txt", "b.txt", "c.txt")] == [True, True, False]


async def test_a_remembered_answer_is_a_rule_that_can_be_removed(deputy: Deputies, workspace: Path) -> None:
    asked: list[str] = []

    def always(permission_request: Json) -> Json:
        asked.append(permission_request["title"])
        option = next(option for option in permission_request["options"] if option["kind"] == "allow_always")
        return {"outcome": {"outcome": "selected", "optionId": option["optionId"]}}

    def script(body: Json, n: int) -> Play:
        return say("done") if results(body) else calls(call("write_file", path=f"{n}.txt", content="x"))

    async with deputy(script, workspace) as (client, _):
        client.handlers[ASK] = always
        session, _ = await client.session()
        at = {"sessionId": session}
        await client.prompt(session, "go")
        (rule,) = (await client.request("deputy/rule/list", at))["rules"]
        assert (rule["tool"], rule["action"], rule["source"]) == ("write_file", "allow", "session")
        assert await client.request("deputy/rule/remove", {**at, "ruleId": rule["ruleId"]}) == {"rules": []}
        assert await client.request("deputy/rule/list", at) == {"rules": []}
        assert len(asked) == 1


async def test_a_rule_of_the_settings_is_removed_for_one_session_only(workspace: Path) -> None:
    rules = [{"tool": "write_file", "pattern": "*.txt", "action": "deny"}]
    async with configured(writing("a.txt"), workspace, permissions={"rules": rules}) as (client, _api):
        first, _ = await client.session(permissionMode="accept_edits")
        second, _ = await client.session(permissionMode="accept_edits")
        listed = (await client.request("deputy/rule/list", {"sessionId": first}))["rules"]
        assert [{**rules[0], "ruleId": rule["ruleId"], "source": "settings"} for rule in listed] == listed
        removal = {"sessionId": first, "ruleId": listed[0]["ruleId"]}
        assert await client.request("deputy/rule/remove", removal) == {"rules": []}
        await client.prompt(second, "go")
        assert not (workspace / "a.txt").exists()
        await client.prompt(first, "go")
        assert (workspace / "a.txt").exists()


# -- limits ------------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("X10")
async def test_a_sub_agent_over_budget_fails_and_its_parent_gets_the_error(workspace: Path) -> None:
    (workspace / "a.txt").write_text("text\n")
    script = spawning("look", child=lambda _body, _n: calls(call("read_file", path="a.txt")))
    budgets = {"agent": {"toolCalls": 3}}
    async with configured(script, workspace, budgets=budgets) as (client, api):
        session, _ = await client.session()
        assert (await client.prompt(session, "go"))["stopReason"] == "end_turn"
        (finished,) = client.events("agent_finished")
        assert (finished["status"], finished["failureReason"]) == ("failed", "budget_exceeded")
        assert finished["toolCallCount"] == 3
        assert results(api.bodies[-1])[0].startswith("Sub-agent failed (budget_exceeded): ")


async def test_a_session_over_budget_continues_after_the_budget_is_raised(workspace: Path) -> None:
    budgets = {"tree": {"replies": 1}}
    async with configured(lambda _body, _n: say("Here you are."), workspace, budgets=budgets) as (client, api):
        session, _ = await client.session()
        assert (await client.prompt(session, "go"))["stopReason"] == "end_turn"
        assert (await client.prompt(session, "go on"))["stopReason"] == "max_turn_requests"
        assert len(api.requests) == 1
        settings = {"model": "m", "baseUrl": api.url, "budgets": {"tree": {"replies": 2}}}
        client.notify("workspace/didChangeConfiguration", {"settings": {"deputy": settings}})
        assert (await client.prompt(session, "go on"))["stopReason"] == "end_turn"


async def test_an_invalid_budget_is_rejected_at_initialize() -> None:
    async with serving() as client:
        with pytest.raises(RpcFailure) as failure:
            await client.initialize(None, initializationOptions={"budgets": {"tree": {"tokens": 0}}})
        assert failure.value.data["field"] == "initializationOptions.budgets.tree.tokens"
