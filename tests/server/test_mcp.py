"""MCP servers over the wire and on the command line: a sub-agent uses a reference server, and no process is left."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from click.testing import Result
from typer.testing import CliRunner

from deputy_server.cli.mcp import mcp
from tests.support.commands import runs, until
from tests.support.mcp_workspaces import SILENT_SERVER, configure_mcp_servers, configure_user_mcp_servers, tools_server
from tests.support.model_replies import Json, Play, call, calls, say
from tests.support.rpc import PLAIN, serving
from tests.support.shared_server import Deputies, is_child
from tests.support.warm import completed

TIME = {"command": str(Path(sys.executable).with_name("mcp-server-time")), "args": ["--local-timezone", "UTC"]}
ASK = "deputy/permission/request"


def choosing(**kinds: list[str]) -> object:
    """Answers permission requests of a tool with these kinds of options, one after the other."""

    def answer(permission_request: Json) -> Json:
        kind = kinds[permission_request["tool"]].pop(0)
        (option,) = [option for option in permission_request["options"] if option["kind"] == kind]
        return {"outcome": {"outcome": "selected", "optionId": option["optionId"]}}

    return answer


def convert(body: Json, _: int) -> Play:
    """A sub-agent that requests the time until it gets a result."""
    (last,) = [block for block in body["messages"][-1]["content"] if block["type"] != "text"] or [{}]
    told = str(last.get("content"))
    if "T21:00" in told:
        return say("It is nine in the evening.")
    return calls(call("mcp__time__convert_time", source_timezone="UTC", time="12:00", target_timezone="Asia/Tokyo"))


@pytest.mark.requirement("X16")
@pytest.mark.asyncio(loop_scope="module")
async def test_a_child_uses_a_reference_server_that_is_denied_once_and_allowed_once(
    deputy: Deputies, workspace: Path
) -> None:
    configure_mcp_servers(workspace, time=TIME)

    def script(body: Json, n: int) -> object:
        if len(body["messages"]) == 1 and not is_child(body):
            return say("hello")
        if is_child(body):
            return convert(body, n)
        if len(body["messages"]) == 3:
            return calls(call("spawn_agent", instructions="what time is it", mode="default"))
        return say("done")

    async with deputy(script, workspace) as (client, _):  # type: ignore[arg-type]
        client.handlers[ASK] = choosing(mcp=["allow_once"], mcp__time__convert_time=["reject_once", "allow_once"])  # type: ignore[assignment]
        session_id, primary = await client.session()
        await client.prompt(session_id, "go")
        started = await client.event("tool_call", lambda event: event["tool"] == "mcp")
        assert (started["agentId"], started["title"]) == (primary, "mcp(time)")
        ready = await client.event("tool_call_update", lambda event: event["status"] == "completed")
        assert ready["content"] == "MCP server time is running with 2 tools."
        listed = await client.request("deputy/context/list", {"sessionId": session_id})
        assert listed["servers"] == [
            {
                "name": "time",
                "uri": (workspace / ".mcp.json").as_uri(),
                "starts": " ".join([TIME["command"], *TIME["args"]]),  # type: ignore[list-item]
                "state": "ready",
                "tools": ["mcp__time__get_current_time", "mcp__time__convert_time"],
                "resources": [],
                "prompts": [],
            }
        ]
        await client.prompt(session_id, "again")
        asked = [m["params"] for m in client.received if m.get("method") == ASK][1:]
        assert [permission_request["agent"]["label"] for permission_request in asked] == ["what time is it"] * 2
        (finished,) = client.events("agent_finished")
        assert finished["result"] == "It is nine in the evening."


@pytest.mark.asyncio(loop_scope="module")
async def test_schemas_and_names_that_the_service_rejects_are_translated_there_and_back(
    deputy: Deputies, workspace: Path
) -> None:
    configure_mcp_servers(workspace, tools=tools_server("foreign_mcp_server"))

    def script(body: Json, n: int) -> Play:
        if len(body["messages"]) != 3:
            return say("done")
        nested = {"page_size": 5, "other": {"page_size": 6}}
        return calls(
            call("mcp__tools__list", filter_name="a", type=1, nested=nested), call("mcp__tools__choose", by_id="x")
        )

    async with deputy(script, workspace) as (client, api):
        client.handlers[ASK] = choosing(
            mcp=["allow_once"], mcp__tools__list=["allow_once"], mcp__tools__choose=["allow_once"]
        )  # type: ignore[assignment]
        session_id, _ = await client.session()
        await client.prompt(session_id, "go")
        await client.event("tool_call_update", lambda event: "is running with 5 tools" in event.get("content", ""))
        await client.prompt(session_id, "again")
        schemas = {tool["name"]: tool["input_schema"] for tool in api.bodies[-1]["tools"]}
        assert list(schemas["mcp__tools__choose"]["properties"]) == ["by_id", "name"]
        assert schemas["mcp__tools__list"]["required"] == ["type"]
        first, second = (block["content"] for block in api.bodies[-1]["messages"][-1]["content"])
        assert json.loads(first) == {
            "filter[name]": "a",
            "@type": 1,
            "nested": {"page[size]": 5, "other": {"page_size": 6}},
        }
        assert json.loads(second) == {"by$id": "x"}


@pytest.mark.asyncio(loop_scope="module")
async def test_a_plain_client_is_told_what_would_be_started_and_who_names_it(deputy: Deputies, workspace: Path) -> None:
    configure_mcp_servers(workspace, docs={"command": "bash", "args": ["-c", "run docs"], "env": {"KEY": "${HOME}"}})
    async with deputy(lambda _b, _n: say("done"), workspace, PLAIN) as (client, _):  # type: ignore[arg-type]
        client.handlers["window/showMessageRequest"] = lambda _: {"title": "Not this time"}
        await client.command("deputy.prompt", {"text": "go"})
        asked = await client.until(lambda message: message.get("method") == "window/showMessageRequest")
        title, reason, *preview = asked["params"]["message"].split("\n")
        about = "MCP server docs, configured in .mcp.json, provides tools to agents."
        assert (title, reason) == ("mcp(docs)", f"{about} It can read HOME from your environment.")
        assert preview == [
            "$ bash -c 'run docs'",
            "  KEY=${HOME}",
            f"in {workspace}",
        ]
        assert asked["params"]["actions"][0] == {"title": "Not this time"}


@pytest.mark.requirement("X16")
@pytest.mark.requirement("X12")
@pytest.mark.asyncio
async def test_a_deputy_that_is_killed_leaves_no_server(workspace: Path) -> None:
    configure_mcp_servers(workspace, tools=tools_server())
    async with serving() as client:
        await client.initialize(workspace, initializationOptions={"permissionMode": "bypass", "model": "offline"})
        session_id, _ = await client.session()
        await client.prompt(session_id, "hello")
        mine = psutil.Process(client.process.pid).children(recursive=True)
        assert any("tests.support.mcp_server" in " ".join(process.cmdline()) for process in mine)
        os.kill(client.process.pid, signal.SIGKILL)
        await until(lambda: not any(map(runs, mine)), 50)


@pytest.mark.asyncio
@pytest.mark.parametrize("way", ["deputy/session/cancel", "$/cancelRequest"])
async def test_a_prompt_that_waits_for_a_server_is_cancelled_at_once(workspace: Path, tmp_path: Path, way: str) -> None:
    configure_user_mcp_servers(tmp_path / "own", deaf=SILENT_SERVER)
    async with serving(env={"HOME": str(tmp_path / "own")}) as client:
        await client.initialize(workspace, initializationOptions={"model": "offline"})
        session_id, _ = await client.session()
        blocks = [{"type": "text", "text": "hello"}]
        prompt = client.start("deputy/session/prompt", {"sessionId": session_id, "prompt": blocks})
        waits = "waiting for the MCP server deaf"
        await client.event("agent_status", lambda event: event.get("detail") == waits)
        if way == "$/cancelRequest":
            client.notify(way, {"id": prompt})
        else:
            assert await client.request(way, {"sessionId": session_id}) == {"cancelled": True}
        assert (await client.result(prompt))["stopReason"] == "cancelled"
        assert client.events("message")[-1]["role"] == "user"


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return completed(["-m", "deputy_server", *arguments], cwd=folder)


@pytest.fixture
def invoked(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Run `deputy mcp` in the workspace."""
    monkeypatch.chdir(workspace)
    return lambda *arguments: CliRunner().invoke(mcp, list(arguments))


def test_the_command_line_lists_approves_and_revokes(workspace: Path, invoked: Callable[..., Result]) -> None:
    broken = {"command": "no-such-program", "env": {"A": "${HOME}"}}
    configure_mcp_servers(workspace, time=TIME, broken=broken, wrong={})
    place = f"    defined in: {workspace / '.mcp.json'}\n"
    assert f"    no-such-program\n{place}    reads variables: HOME\n" in invoked("list").stdout
    listed = invoked("list", "--json")
    assert [(row["name"], row["approval"]) for row in json.loads(listed.stdout)] == [
        ("time", "will ask"),
        ("broken", "will ask"),
    ]
    assert "MCP server wrong: set either command or url" in listed.stderr
    assert invoked("approve", "time").exit_code == 0
    assert "time  (approved)" in invoked("list").stdout
    [told] = json.loads(invoked("approve", "time", "--json").stdout)
    assert (told["name"], told["approval"]) == ("time", "approved")
    [told] = json.loads(invoked("revoke", "time", "--json").stdout)
    assert told["approval"] == "will ask"
    assert "time  (needs approval)" in invoked("list").stdout
    unknown = invoked("approve", "nothing")
    assert unknown.exit_code == 2
    assert "Configured: time, broken" in unknown.stderr


def test_the_command_line_starts_servers_to_see_what_they_have(workspace: Path, invoked: Callable[..., Result]) -> None:
    configure_mcp_servers(workspace, time=TIME, broken={"command": "no-such-program"})
    for name in ("time", "broken"):
        invoked("approve", name)
    tried = invoked("list", "--start")
    assert tried.exit_code == 1
    assert "time  (approved, ready)" in tried.stdout
    assert "tools: get_current_time, convert_time" in tried.stdout
    assert "problem: it stopped: no-such-program: No such file or directory" in tried.stdout


def test_a_server_that_was_not_let_run_is_not_started_to_be_looked_at(
    workspace: Path, invoked: Callable[..., Result]
) -> None:
    configure_mcp_servers(
        workspace,
        eager={"command": "touch", "args": ["ran"]},
        off={"command": "touch", "args": ["ran"], "disabled": True},
    )
    tried = invoked("list", "--start")
    assert tried.exit_code == 0
    assert "eager  (needs approval, not started)" in tried.stdout
    assert "deputy mcp approve eager" in tried.stdout
    assert "off  (disabled, not started)" in tried.stdout
    assert not (workspace / "ran").exists()


def test_a_server_that_hangs_does_not_hold_up_what_the_others_have(workspace: Path, tmp_path: Path) -> None:
    configure_user_mcp_servers(tmp_path / "own", deaf=SILENT_SERVER, time=TIME)
    process = subprocess.Popen(
        [sys.executable, "-m", "deputy_server", "mcp", "list", "--start"],
        cwd=workspace,
        env={**os.environ, "HOME": str(tmp_path / "own")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "time  (your own, ready)\n"
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode == 130


def test_a_run_without_a_person_goes_on_without_the_server_and_says_how_to_let_it_run(workspace: Path) -> None:
    configure_mcp_servers(workspace, tools=tools_server())
    done = run(workspace, "run", "--model", "offline", "hello")
    assert done.returncode == 0
    assert "deputy mcp approve tools" in done.stderr
