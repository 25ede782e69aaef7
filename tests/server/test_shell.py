"""Commands over the wire, run by a real server: approved, streamed, stopped, and never left running."""

import signal
from pathlib import Path

import pytest

from tests.support.commands import marked, until
from tests.support.messages_api import Script, messages_api
from tests.support.model_replies import Json, Play, call, calls, say
from tests.support.rpc import PLAIN, RpcClient, RpcFailure, serving
from tests.support.shared_server import Deputies, spawning

pytestmark = pytest.mark.asyncio(loop_scope="module")

ASK = "deputy/permission/request"
ESCAPING = "trap '' TERM HUP; (setsid bash -c \"trap '' TERM HUP; sleep 600\" &); echo ready; sleep 600"


def running(command: str, **how: object) -> Script:
    """The primary runs ``command``, then reports the result."""

    def play(body: Json, _: int) -> Play:
        if len(body["messages"]) == 1:
            return calls(call("shell", command=command, **how))
        return say(str(body["messages"][-1]["content"][0]["content"]))

    return play


def allowing(client: RpcClient) -> list[Json]:
    """Approves everything once; the permission requests."""
    asked: list[Json] = []

    def answer(permission_request: Json) -> Json:
        asked.append(permission_request)
        return {"outcome": {"outcome": "selected", "optionId": "allow_once"}}

    client.handlers[ASK] = answer
    return asked


async def test_a_command_needs_approval_and_streams_its_full_output(deputy: Deputies, workspace: Path) -> None:
    command = "echo one; while [ ! -e go ]; do sleep 0.01; done; echo two"
    async with deputy(running(command), workspace) as (client, _):
        asked = allowing(client)
        session_id, _ = await client.session()
        prompt = client.start_prompt(session_id, "go")
        delta = await client.event("tool_output_delta")
        assert delta["text"] == "one\n"
        (workspace / "go").touch()
        assert (await client.result(prompt))["stopReason"] == "end_turn"
        [permission_request] = asked
        assert permission_request["title"] == f"shell({command})"
        assert permission_request["kind"] == "execute"
        assert permission_request["preview"] == {"type": "command", "command": command, "cwd": workspace.as_uri()}
        last = client.events("tool_call_update")[-1]
        assert (last["toolCallId"], last["status"]) == (delta["toolCallId"], "completed")
        assert last["content"] == "one\ntwo"


async def test_background_commands_are_listed_and_stopped(deputy: Deputies, workspace: Path) -> None:
    async with deputy(running("sleep 600", background=True), workspace) as (client, _):
        allowing(client)
        session_id, primary = await client.session()
        await client.prompt(session_id, "go")
        [process] = (await client.request("deputy/process/list", {"sessionId": session_id}))["processes"]
        assert (process["agentId"], process["command"], process["status"]) == (primary, "sleep 600", "running")
        assert process["cwd"] == workspace.as_uri()
        assert marked(workspace) != []
        which = {"sessionId": session_id, "processId": process["processId"]}
        assert await client.request("deputy/process/stop", which) == {"stopped": True}
        assert marked(workspace) == []
        assert await client.request("deputy/process/stop", which) == {"stopped": False}
        [process] = (await client.request("deputy/process/list", {"sessionId": session_id}))["processes"]
        assert process["status"] == "exited"
        assert process["exitCode"] < 0
        with pytest.raises(RpcFailure) as failure:
            await client.request("deputy/process/stop", which | {"processId": "none"})
        assert failure.value.code == -32602


@pytest.mark.parametrize("wakes", [True, False])
async def test_the_agent_is_notified_how_a_background_command_ended(workspace: Path, wakes: bool) -> None:
    command = "while [ ! -e go ]; do sleep 0.02; done; echo last words; exit 3"

    def script(body: Json, number: int) -> Play:
        return say("I see.") if number else calls(call("shell", command=command, background=True))

    async with messages_api(script) as api, serving(env={"ANTHROPIC_API_KEY": "test-key"}) as client:
        options = {"model": "m", "baseUrl": api.url, "agents": {"wakeOnTaskEnd": wakes}}
        await client.initialize(workspace, initializationOptions=options)
        allowing(client)
        session_id, _ = await client.session()
        await client.prompt(session_id, "go")
        client.forget()
        (workspace / "go").touch()
        await client.event("agent_status", lambda event: "(exit code 3)" in event.get("detail", ""))
        if wakes:
            turn = await client.event("turn_started", lambda event: event["origin"] == "task_end")
            await client.event("turn_finished", lambda event: event["turnId"] == turn["turnId"])
        else:
            assert client.events("turn_started") == []
            await client.prompt(session_id, "next")
        content = str(api.bodies[-1]["messages"][-1]["content"])
        assert all(part in content for part in ('"exit_code": 3', '"last words"', '"process_id"'))


async def test_an_editor_without_a_plugin_shows_the_full_command(deputy: Deputies, workspace: Path) -> None:
    command = "echo " + "a" * 300 + "\n" * 30 + "echo last"
    async with deputy(running(command), workspace, PLAIN) as (client, _):
        answer = await client.command("deputy.prompt", {"text": "go"})
        asked = await client.until(lambda message: message.get("method") == "window/showMessageRequest")
        await client.command("deputy.cancelSession", {"sessionId": answer["sessionId"]})
        lines = asked["params"]["message"].split("\n")
        assert lines[1] == "The mode default asks before commands; a rule for shell allows them."
        assert lines[2] == "$ echo " + "a" * 300
        end = lines.index("  echo last")
        assert lines[end + 1] == f"in {workspace}"
        assert any("a" * 300 in line for line in lines[end + 2 :]), "the rules of a lasting answer are complete too"
        assert asked["params"]["actions"][0] == {"title": "Deny"}


@pytest.mark.requirement("E14")
@pytest.mark.requirement("X8")
async def test_rules_of_the_settings_apply_to_sub_agents_and_are_listed(workspace: Path) -> None:
    def child(body: Json, _: int) -> Play:
        if len(body["messages"]) == 1:
            return calls(
                *(call("shell", command=command) for command in ("echo a", "echo a && touch x", "eval 'touch y'"))
            )
        return say("; ".join(str(result["content"]) for result in body["messages"][-1]["content"]))

    rules = [
        {"tool": "shell", "pattern": "echo *", "action": "allow"},
        {"tool": "shell", "pattern": "touch *", "action": "deny"},
    ]
    options = {"model": "m", "permissionMode": "bypass", "permissions": {"rules": rules}}
    async with messages_api(spawning("work", child=child, mode="default")) as api, serving(env=KEY) as client:
        await client.initialize(workspace, initializationOptions=options | {"baseUrl": api.url})
        session_id, _ = await client.session()
        await client.prompt(session_id, "go")
        said = client.events("agent_finished")[0]["result"]
        assert said == "a; " + "; ".join(["Denied: The rule shell(touch *) denies it."] * 2)
        listed = (await client.request("deputy/rule/list", {"sessionId": session_id}))["rules"]
        assert [(rule["pattern"], rule["action"], rule["source"]) for rule in listed] == [
            ("echo *", "allow", "settings"),
            ("touch *", "deny", "settings"),
        ]
        assert await client.shut_down() == 0
    assert not (workspace / "x").exists()


KEY = {"ANTHROPIC_API_KEY": "test-key"}


def escaping(body: Json, _: int) -> Play:
    """Two commands that do not end, one of them in the background."""
    return calls(call("shell", command=ESCAPING, background=True), call("shell", command=ESCAPING))


@pytest.mark.requirement("X12")
@pytest.mark.parametrize("how", ["SIGKILL", "SIGTERM", "SIGINT", "disconnect", "session/cancel", "agent/cancel"])
async def test_no_process_is_left_behind(workspace: Path, how: str) -> None:
    async with messages_api(escaping) as api, serving(env=KEY) as client:
        options = {"model": "m", "baseUrl": api.url, "permissionMode": "bypass"}
        await client.initialize(workspace, initializationOptions=options)
        session_id, primary = await client.session()
        client.start_prompt(session_id, "go")
        await client.event("tool_output_delta")
        await until(lambda: sum("sleep" in process.name() for process in marked(workspace)) == 4)
        if how.startswith("SIG"):
            client.process.send_signal(signal.Signals[how])
        elif how == "disconnect":
            client.close_input()
        else:
            await client.request(f"deputy/{how}", {"sessionId": session_id, "agentId": primary})
            assert marked(workspace) == []
        await until(lambda: not marked(workspace))


async def test_no_secret_of_the_server_reaches_a_command(workspace: Path) -> None:
    """Neither through its own environment nor that of its parent processes, as far as the system separates users."""
    command = "env; cat /proc/$PPID/environ | tr '\\0' '\\n'"
    async with messages_api(running(command)) as api, serving(env=KEY | {"SOME_TOKEN": "hidden-value"}) as client:
        options = {"model": "m", "baseUrl": api.url, "permissionMode": "bypass"}
        await client.initialize(workspace, initializationOptions=options)
        session_id, _ = await client.session()
        await client.prompt(session_id, "go")
        content = client.events("tool_call_update")[-1]["content"]
        assert "PATH=" in content
        assert "hidden-value" not in content
        assert "test-key" not in content
        assert await client.shut_down() == 0
