"""Sessions survive their server: the past is loaded again, and open runs end once."""

import asyncio
import json
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.support.facts import without_facts
from tests.support.messages_api import MessagesApi, Script, messages_api
from tests.support.model_replies import Json, Play, call, calls, say
from tests.support.rpc import EVERYTHING, RpcClient, RpcFailure, Unanswered, serving
from tests.support.shared_server import hanging, is_child, spawning

pytestmark = pytest.mark.asyncio


@asynccontextmanager
async def deputy(api: MessagesApi, workspace: Path, state: Path) -> AsyncGenerator[RpcClient]:
    """A server in a separate process with the store in ``state``."""
    env = {"ANTHROPIC_API_KEY": "test-key", "DEPUTY_STATE": str(state)}
    async with serving(env=env) as client:
        await client.initialize(workspace, EVERYTHING, initializationOptions={"model": "m", "baseUrl": api.url})
        yield client
        assert "Traceback" not in client.stderr


async def kill(client: RpcClient) -> None:
    client.process.send_signal(signal.SIGKILL)
    await client.gone()


async def load(client: RpcClient, session_id: str) -> Json:
    return await client.request("deputy/session/load", {"sessionId": session_id})


def comparable(loaded: Json) -> Json:
    return {key: value for key, value in loaded.items() if key != "session"}


@pytest.mark.requirement("C3", "E11")
async def test_a_session_of_a_clean_shutdown_is_loaded_and_continues(workspace: Path, tmp_path: Path) -> None:
    (workspace / "a.txt").write_text("hello\n")

    def child(body: Json, _: int) -> Play:
        return say("found it") if len(body["messages"]) > 1 else calls(call("read_file", path="a.txt"))

    async with messages_api(spawning("look here", child=child)) as api:
        async with deputy(api, workspace, tmp_path / "state") as client:
            session_id, _ = await client.session(title="mine")
            await client.prompt(session_id, "go")
            before = await load(client, session_id)
            assert await client.shut_down() == 0
        async with deputy(api, workspace, tmp_path / "state") as client:
            [listed] = (await client.request("deputy/session/list", {}))["sessions"]
            assert (listed["sessionId"], listed["title"], listed["agentCount"]) == (session_id, "mine", 2)
            after = await load(client, session_id)
            assert comparable(after) == comparable(before)
            api.script = lambda _body, _n: say("and on")
            assert (await client.prompt(session_id, "more"))["stopReason"] == "end_turn"
            texts = json.dumps(api.requests[-1].body["messages"])
            assert "found it" in texts
            assert "more" in texts
            assert client.events("turn_started")[-1]["seq"] > before["lastSeq"]
        assert api.violations == []


async def test_load_returns_the_plan_the_prompt_queue_and_the_mode(workspace: Path, tmp_path: Path) -> None:
    steps = [{"content": "look", "status": "completed"}, {"content": "write", "status": "pending"}]
    gate = asyncio.Event()

    def script(body: Json, _: int) -> Play:
        return say("done", gate=gate) if len(body["messages"]) > 1 else calls(call("todo", entries=steps))

    async with messages_api(script) as api:
        async with deputy(api, workspace, tmp_path / "state") as client:
            session_id, primary = await client.session()
            assert (await load(client, session_id))["plans"] == []
            client.start_prompt(session_id, "go")
            await client.event("plan")
            client.start_prompt(session_id, "and then", queue=True)
            [waiting] = (await client.event("prompt_queue", lambda e: e["entries"] != []))["entries"]
            mode = {"sessionId": session_id, "permissionMode": "plan"}
            await client.request("deputy/session/setPermissionMode", mode)
            loaded = await load(client, session_id)
            assert loaded["plans"] == [{"agentId": primary, "entries": steps}]
            assert loaded["promptQueue"] == [waiting]
            assert loaded["session"]["permissionMode"] == "plan"
            await kill(client)
        async with deputy(api, workspace, tmp_path / "state") as client:
            loaded = await load(client, session_id)
            assert loaded["plans"] == [{"agentId": primary, "entries": steps}]
            assert loaded["promptQueue"] == [waiting]
            assert loaded["session"]["permissionMode"] == "plan"


@pytest.mark.parametrize("kills", [True, False], ids=["killed", "in order"])
async def test_queued_prompts_survive_a_restart_paused_and_run_after_the_next_prompt(
    kills: bool, workspace: Path, tmp_path: Path
) -> None:
    gate = asyncio.Event()
    async with messages_api(lambda _body, _n: say("late", gate=gate)) as api:
        async with deputy(api, workspace, tmp_path / "state") as client:
            session_id, _ = await client.session()
            client.start_prompt(session_id, "go")
            await client.event("turn_started")
            for number, text in enumerate(("second", "third", "fourth"), 1):
                client.start_prompt(session_id, text, queue=True)
                shown = await client.event("prompt_queue", lambda e, number=number: len(e["entries"]) == number)
            await (kill(client) if kills else client.shut_down())
        gate.set()
        api.script = lambda _body, _n: say("done")
        async with deputy(api, workspace, tmp_path / "state") as client:
            before = len(api.requests)
            loaded = await load(client, session_id)
            assert loaded["promptQueue"] == shown["entries"]
            notice = await client.until(lambda m: "still queued" in str(m.get("params", {}).get("message")))
            assert notice["params"]["message"].startswith("3 prompts")
            assert len(api.requests) == before, "nothing runs by itself after a restart"
            removed = {"sessionId": session_id, "promptId": shown["entries"][1]["promptId"]}
            assert await client.request("deputy/session/unqueue", removed) == {"removed": True}
            assert (await client.prompt(session_id, "first of all"))["stopReason"] == "end_turn"
            await client.event("turn_finished", lambda _: len(client.events("turn_finished")) == 3)
            asked = [block["text"] for message in api.bodies[-1]["messages"] for block in message["content"]]
            prompts = [text for text in without_facts(asked) if text != "done"]
            assert prompts[-3:] == ["first of all", "second", "fourth"]
            await client.shut_down()
        async with deputy(api, workspace, tmp_path / "state") as client:
            assert (await load(client, session_id))["promptQueue"] == []


@pytest.mark.parametrize("attempt", range(5))
async def test_an_answered_prompt_or_message_survives_a_kill_right_after_the_answer(
    attempt: int, workspace: Path, tmp_path: Path
) -> None:
    gate = asyncio.Event()
    async with messages_api(lambda _body, _n: say("late", gate=gate)) as api:
        async with deputy(api, workspace, tmp_path / "state") as client:
            text = f"number {attempt}"
            session_id = (await client.command("deputy.prompt", {"text": text}))["sessionId"]
            agent_id = client.events("agent_started")[0]["agentId"] if client.events("agent_started") else ""
            agent_id = agent_id or (await load(client, session_id))["agents"][0]["agentId"]
            message = {"sessionId": session_id, "agentId": agent_id, "text": f"hint {attempt}"}
            assert await client.request("deputy/agent/message", message) == {"queued": True}
            client.process.kill()
            await client.gone()
        gate.set()
        api.script = lambda _body, _n: say("done")
        async with deputy(api, workspace, tmp_path / "state") as client:
            loaded = await load(client, session_id)
            assert text in [entry.get("text") for entry in loaded["transcript"]]
            assert (await client.prompt(session_id, "go on"))["stopReason"] == "end_turn"
            sent = str(api.bodies[-1]["messages"])
            assert sent.count(text) == 1
            assert sent.count(f"hint {attempt}") == 1


@pytest.mark.requirement("E7")
async def test_runs_of_a_killed_server_end_once_and_the_session_continues(workspace: Path, tmp_path: Path) -> None:
    gate = asyncio.Event()
    async with messages_api(spawning("one", "two", child=hanging(gate))) as api:
        async with deputy(api, workspace, tmp_path / "state") as client:
            session_id, primary = await client.session()
            client.start_prompt(session_id, "go")
            for label in ("one", "two"):
                await client.event("agent_started", lambda e, label=label: e["agent"]["label"] == label)
            seen = client.events("agent_started")
            await kill(client)
        for _ in range(2):  # once, however often it is loaded
            async with deputy(api, workspace, tmp_path / "state") as client:
                loaded = await load(client, session_id)
                children = [node for node in loaded["agents"] if node["agentId"] != primary]
                assert {node["agentId"] for node in children} == {e["agentId"] for e in seen} - {primary}
                ends = [(node["status"], node["failureReason"]) for node in children]
                assert ends == [("failed", "interrupted_by_restart")] * 2
                assert loaded["permissions"] == []
                last_seq = loaded["lastSeq"]
                requests_before = len(api.requests)
                await kill(client)
        assert len(api.requests) == requests_before, "nothing asks a model by itself after a restart"
        async with deputy(api, workspace, tmp_path / "state") as client:
            assert (await load(client, session_id))["lastSeq"] == last_seq
            api.script = lambda _body, _n: say("on we go")
            assert (await client.prompt(session_id, "again"))["stopReason"] == "end_turn"
        gate.set()
        assert api.violations == []


@pytest.mark.parametrize("kills", [True, False], ids=["killed", "in order"])
async def test_an_interrupted_turn_is_distinguished_from_a_stopped_turn(
    workspace: Path, tmp_path: Path, kills: bool
) -> None:
    gate = asyncio.Event()
    async with messages_api(lambda _body, _n: say("on we go", gate=gate)) as api:
        async with deputy(api, workspace, tmp_path / "state") as client:
            session_id, _ = await client.session()
            assert "lastTurn" not in await load(client, session_id)
            client.start_prompt(session_id, "go")
            await client.event("turn_started")
            await client.request("deputy/session/cancel", {"sessionId": session_id})
            stopped = (await client.event("turn_finished"))["turnId"]
            outcome = {"turnId": stopped, "stopReason": "cancelled"}
            assert (await load(client, session_id))["lastTurn"] == outcome
            client.start_prompt(session_id, "go")
            cut_off = (await client.event("turn_started", lambda e: e["turnId"] != stopped))["turnId"]
            assert "lastTurn" not in await load(client, session_id)
            if kills:
                await kill(client)
            else:
                assert await client.shut_down() == 0
        async with deputy(api, workspace, tmp_path / "state") as client:
            outcome = {"turnId": cut_off, "stopReason": "cancelled", "interrupted": True}
            assert (await load(client, session_id))["lastTurn"] == outcome
            gate.set()
            await client.prompt(session_id, "again")
            assert (await load(client, session_id))["lastTurn"]["stopReason"] == "end_turn"


async def test_a_session_of_another_server_is_loaded_as_a_snapshot(workspace: Path, tmp_path: Path) -> None:
    gate = asyncio.Event()
    async with messages_api(lambda _body, _n: say("on we go", gate=gate)) as api:
        async with deputy(api, workspace, tmp_path / "state") as one:
            session_id, _ = await one.session()
            one.start_prompt(session_id, "go")
            await one.event("turn_started")
            async with deputy(api, workspace, tmp_path / "state") as other:
                seen = await load(other, session_id)
                assert seen["snapshot"] is True
                assert "lastTurn" not in seen
                with pytest.raises(RpcFailure, match="another"):
                    await other.request("deputy/session/cancel", {"sessionId": session_id})
            assert "snapshot" not in await load(one, session_id)
        gate.set()


@pytest.mark.requirement("Q10")
async def test_an_open_permission_request_does_not_survive_a_restart_and_its_edit_is_not_made(
    workspace: Path, tmp_path: Path
) -> None:
    (workspace / "a.txt").write_text("old\n")

    def play(body: Json, _: int) -> Play:
        if len(body["messages"]) == 1:
            return calls(call("read_file", path="a.txt"))
        return calls(call("edit_file", path="a.txt", old_string="old", new_string="new"))

    async with messages_api(play) as api:
        async with deputy(api, workspace, tmp_path / "state") as client:
            client.handlers["deputy/permission/request"] = lambda _: Unanswered()
            session_id, _ = await client.session()
            client.start_prompt(session_id, "go")
            asked = await client.event("permission_requested")
            await kill(client)
        async with deputy(api, workspace, tmp_path / "state") as client:
            loaded = await load(client, session_id)
            assert loaded["permissions"] == []
            (lost,) = [one for one in loaded["transcript"] if one.get("toolCallId") == asked["toolCallId"]]
            assert "The server ended before you answered its permission request." in lost["content"]
            assert (workspace / "a.txt").read_text() == "old\n"
            with pytest.raises(RpcFailure):
                await client.request(
                    "deputy/permission/answer",
                    {
                        "requestId": asked["requestId"],
                        "outcome": {"outcome": "selected", "optionId": asked["options"][0]["optionId"]},
                    },
                )
            api.script = lambda _body, _n: say("fine")
            assert (await client.prompt(session_id, "on"))["stopReason"] == "end_turn"
        assert api.violations == []


@pytest.mark.requirement("E7")
async def test_two_servers_on_one_store_leave_each_others_sessions_alone(workspace: Path, tmp_path: Path) -> None:
    gate = asyncio.Event()
    api_of_both = messages_api(spawning("one", child=hanging(gate)))
    async with api_of_both as api, deputy(api, workspace, tmp_path / "state") as first:
        session_id, primary = await first.session()
        prompt = first.start_prompt(session_id, "go")
        await first.event("agent_started", lambda e: e["agentId"] != primary)
        async with deputy(api, workspace, tmp_path / "state") as second:
            listed = (await second.request("deputy/session/list", {}))["sessions"]
            assert [one["sessionId"] for one in listed] == [session_id]
            loaded = await load(second, session_id)
            assert [node["status"] for node in loaded["agents"]] == ["running", "running"]
            for method, params in (
                ("deputy/session/prompt", {"prompt": [{"type": "text", "text": "x"}]}),
                ("deputy/session/rename", {"title": "theirs"}),
                ("deputy/session/archive", {"archived": True}),
                ("deputy/session/delete", {}),
            ):
                with pytest.raises(RpcFailure) as refused:
                    await second.request(method, {"sessionId": session_id, **params})
                assert refused.value.code == -32003
            assert await second.shut_down() == 0
        gate.set()
        assert (await first.result(prompt))["stopReason"] == "end_turn"
        assert (await load(first, session_id))["agents"][1]["status"] == "completed"


@pytest.mark.requirement("D8", "D13", "E9")
async def test_sessions_are_archived_renamed_exported_and_deleted(workspace: Path, tmp_path: Path) -> None:
    async with messages_api(spawning("look here", child=lambda *_: say("found it"))) as api:
        async with deputy(api, workspace, tmp_path / "state") as client:
            kept, _ = await client.session(title="kept")
            away, _ = await client.session(title="away")
            await client.prompt(away, "go")
            assert await client.shut_down() == 0
        async with deputy(api, workspace, tmp_path / "state") as client:

            async def listed(**params: object) -> list[str]:
                return [one["title"] for one in (await client.request("deputy/session/list", params))["sessions"]]

            await client.request("deputy/session/archive", {"sessionId": away, "archived": True})
            assert await listed() == ["kept"]
            assert await listed(includeArchived=True, includeChildren=True) == ["away", "look here", "kept"]
            await client.request("deputy/session/rename", {"sessionId": away, "title": "far away"})
            text = (await client.request("deputy/session/export", {"sessionId": away, "format": "markdown"}))["text"]
            assert text.startswith("# far away\n")
            assert "found it" in text
            assert "**You**\n\ngo" in text
            told = json.loads(
                (await client.request("deputy/session/export", {"sessionId": away, "format": "json"}))["text"]
            )
            assert len(told["transcripts"]) == 2
            await client.request("deputy/session/delete", {"sessionId": away})
            assert await listed(includeArchived=True, includeChildren=True) == ["kept"]
            with pytest.raises(RpcFailure) as unknown:
                await load(client, away)
            assert unknown.value.code == -32001
            assert kept


@pytest.mark.requirement("E1", "E8")
async def test_an_interrupted_task_is_resumed_with_its_history(workspace: Path, tmp_path: Path) -> None:
    gate = asyncio.Event()
    task = {"description": "look", "prompt": "look well", "subagent_type": "general"}

    def first(body: Json, n: int) -> Play:
        if is_child(body):
            return say("late", gate=gate)
        return calls(call("task", **task)) if len(body["messages"]) == 1 else say("started")

    async with messages_api(first) as api:
        async with deputy(api, workspace, tmp_path / "state") as client:
            session_id, primary = await client.session()
            await client.prompt(session_id, "go")
            child = (await client.event("agent_started", lambda e: e["agentId"] != primary))["agentId"]
            await kill(client)

        def second(body: Json, n: int) -> Play:
            if is_child(body):
                return say("found after all")
            texts = json.dumps(body["messages"])
            if "found after all" in texts or '"queued"' in texts.split("continue it")[-1]:
                return say("done")
            return calls(call("task", **{**task, "prompt": "go on"}, task_id=child)) if n < 9 else say("stop")

        api.script = second
        async with deputy(api, workspace, tmp_path / "state") as client:
            await load(client, session_id)
            client.start_prompt(session_id, "continue it")
            again = await client.event("agent_finished", lambda e: e["agentId"] == child)
            assert (again["run"], again["status"], again["result"]) == (2, "completed", "found after all")
            body = next(r.body for r in reversed(api.requests) if is_child(r.body))
            assert "look well" in json.dumps(body["messages"])
        gate.set()
        assert api.violations == []


async def test_an_unusable_state_folder_is_reported_and_agents_work(workspace: Path, tmp_path: Path) -> None:
    (tmp_path / "state").write_text("in the way")
    script: Script = lambda _body, _n: say("hello")  # noqa: E731
    async with messages_api(script) as api, deputy(api, workspace, tmp_path / "state") as client:
        session_id, _ = await client.session()
        told = await client.until(lambda m: m.get("method") == "window/showMessage")
        assert "memory" in told["params"]["message"]
        assert (await client.prompt(session_id, "go"))["stopReason"] == "end_turn"
