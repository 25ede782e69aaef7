"""MCP servers of a session: started after a yes, used under the gate, and ended with it. The servers are real."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from deputy_agents.domain.errors import InvalidRequest
from deputy_agents.domain.event import MessageAdded, PermissionResolved, ToolCallStarted, ToolCallUpdated
from deputy_agents.domain.message import Text
from deputy_agents.domain.permission_mode import PermissionMode
from deputy_agents.domain.preview import CommandPreview
from deputy_agents.domain.rule import DecisionKind, Rule
from deputy_agents.domain.settings import PermissionSettings, Settings
from deputy_agents.mcp import connection
from deputy_agents.mcp.catalog import McpServerState
from deputy_agents.model.scripted import calls, say, use
from deputy_agents.ports.permission import Dismissed, PermissionAnswer, Selected
from deputy_agents.session import prompt_acceptor
from tests.support.commands import Started, until
from tests.support.core import ALLOW, BOUND, DENY, Cast, Core, Line, Person, core, delegate, results
from tests.support.mcp_workspaces import (
    ROOT,
    configure_mcp_servers,
    configure_user_mcp_servers,
    free_port,
    http_server,
    tools_server,
)

pytestmark = pytest.mark.asyncio

ALWAYS = Selected("allow_always")


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "RESTART_DELAY", 0.01)


@pytest.fixture
def project(workspace: Path) -> Path:
    configure_mcp_servers(workspace, tools=tools_server(TOOLS_TOKEN="${MY_TOKEN:-hush-hush-hush}"))
    return workspace


def call(tool: str, **input: object) -> Line:
    return calls([use(f"mcp__tools__{tool}", **input)])


def starting(then: PermissionAnswer | None = None) -> Person:
    """Someone who lets servers start, and gives the answer ``then`` to all else."""
    return Person(lambda permission_request: ALLOW if permission_request.tool == "mcp" else then or ALLOW)


async def prompt(c: Core, text: str = "go") -> str:
    """A whole turn; the text of its end."""
    async with asyncio.timeout(BOUND):
        await c.session.refresh()
        turn = await c.session.prompts.accept([Text(text)])
        return (await turn.result()).stop_reason


@asynccontextmanager
async def running(project: Path, lines: list[Line], person: Person | None = None) -> AsyncIterator[Core]:
    """A session whose server runs, and whose model then says ``lines``."""
    async with core(project, Cast([say("hello"), *lines]), person or starting()) as c:
        await prompt(c)
        await ready(c)
        yield c


async def ready(c: Core) -> None:
    """Returns when the server runs; on a busy machine that takes long."""
    await until(lambda: state(c) is McpServerState.READY, 2 * BOUND)


def state(c: Core) -> McpServerState | None:
    return next((one.state for one in c.session.mcp_servers.list()), None)


def told(c: Core) -> str:
    """The result that the model was last told."""
    (result,) = results(c.requests()[-1])
    return ("error: " if result.is_error else "") + result.content


@pytest.mark.requirement("X16")
@pytest.mark.requirement("X15")
async def test_a_server_is_started_after_a_yes_that_names_its_command_line_and_what_it_sees(project: Path) -> None:
    async with running(project, []) as c:
        (permission_request,) = [one for one in c.bodies(ToolCallStarted) if one.tool == "mcp"]
        assert permission_request.title == "mcp(tools)"
        asked = (await c.permission_request()).preview
        assert isinstance(asked, CommandPreview)
        assert "-m tests.support.mcp_server" in asked.command
        assert "TOOLS_TOKEN=${MY_TOKEN:-hush-hush-hush}" in asked.command
        assert "It can read MY_TOKEN from your environment." in ((await c.permission_request()).reason or "")
        (server,) = c.session.mcp_servers.list()
        assert {"echo", "crash"} <= server.catalog.tools.keys()
        assert (server.catalog.resources, [one.name for one in server.catalog.prompts]) == (
            ("notes://today",),
            ["review", "explain", "ponder"],
        )


async def test_a_yes_to_another_command_line_than_the_one_that_was_asked_about_starts_nothing(project: Path) -> None:
    person = Person(Selected("allow_once", input={"server": "tools", "starts": "echo", "named_in": "here"}))
    async with core(project, Cast([say("hello")]), person) as c:
        await prompt(c)
        await until(lambda: state(c) is McpServerState.DENIED)
        assert "the answer cannot change what is started" in str(c.session.problems[-1])


@pytest.mark.requirement("X16")
async def test_a_tool_is_asked_about_and_runs_after_a_yes(project: Path) -> None:
    async with running(project, [call("echo", text="hi"), say("done")]) as c:
        assert await prompt(c) == "end_turn"
        assert told(c) == "hi"
        (started,) = [one for one in c.bodies(ToolCallStarted) if one.tool == "mcp__tools__echo"]
        assert started.title == "mcp__tools__echo(text=hi)"


@pytest.mark.requirement("X16")
async def test_a_child_uses_a_tool_that_is_denied_once_and_allowed_once(project: Path) -> None:
    answers = iter([DENY, ALLOW])
    person = Person(lambda permission_request: ALLOW if permission_request.tool == "mcp" else next(answers))
    path = project / "out.txt"
    lines = {"task": [call("write", path=str(path)), call("write", path=str(path)), say("done")]}
    async with core(project, Cast([say("hello"), delegate("task", mode="default"), say("end")], lines), person) as c:
        await prompt(c)
        await ready(c)
        await prompt(c)
        first, second = (results(request)[0] for request in c.requests("task")[1:])
        assert (first.is_error, first.content) == (True, "Denied by the user.")
        assert (second.is_error, second.content) == (False, "written")
        assert path.read_text() == "written\n"
        assert [title.partition("=")[0] for title in person.titles[1:]] == ["[task] mcp__tools__write(path"] * 2


async def test_children_that_only_read_are_not_offered_tools_of_servers(project: Path) -> None:
    lines = {"task": [say("done")]}
    async with core(project, Cast([say("hello"), delegate("task"), say("end")], lines), starting()) as c:
        await prompt(c)
        await ready(c)
        await prompt(c)
        assert not any(tool.name.startswith("mcp__") for tool in c.requests("task")[0].tools)
        assert any(tool.name == "mcp__tools__echo" for tool in c.requests()[-1].tools)


async def test_a_lasting_yes_is_about_every_call_of_the_tool(project: Path) -> None:
    person = starting(Selected("allow_always"))
    async with running(project, [call("echo", text="a"), call("echo", text="b"), say("done")], person) as c:
        await prompt(c)
        assert len(person.asked) == 2
        assert person.asked[-1].options[1].name == "Allow in this session: mcp__tools__echo"


@pytest.mark.parametrize("rule", ["mcp__tools", "mcp__tools__*", "mcp__tools__echo"])
async def test_rules_name_a_tool_or_all_of_a_server(project: Path, rule: str) -> None:
    async with running(project, [call("echo", text="a"), say("done")]) as c:
        c.session.permissions.remember([Rule("r", rule, DecisionKind.DENY)])
        await prompt(c)
        assert told(c) == f"error: Denied: The rule {rule} denies it."


@pytest.mark.parametrize("answer", [DENY, Dismissed(), Selected("reject_always")], ids=str)
async def test_without_a_yes_no_server_is_started(project: Path, answer: PermissionAnswer) -> None:
    async with core(project, Cast([say("hello"), say("hello")]), Person(answer)) as c:
        await prompt(c)
        await c.until(lambda: state(c) is McpServerState.DENIED)
        await prompt(c)
        assert not any(tool.name.startswith("mcp__") for tool in c.requests()[-1].tools)
        assert len(c.bodies(PermissionResolved)) == 1
        ended = await c.seen(ToolCallUpdated, lambda update: update.content)
        assert "is not running" in (ended.content or "")


async def test_what_was_said_for_good_is_not_asked_again_unless_the_command_line_changes(project: Path) -> None:
    person = Person(ALWAYS)

    async def again(c: Core) -> None:
        """Another session in the same folder."""
        session = await c.runtime.new_session(c.session.settings.client, cwd=project, roots=[project])
        session.inbox.attach(person)
        await session.refresh()
        c.model.script = Cast([say("hello")])
        await (await session.prompts.accept([Text("go")])).result()
        await until(lambda: session.mcp_servers.list()[0].state is McpServerState.READY, 2 * BOUND)

    async with core(project, Cast([say("hello")]), person) as c:
        await prompt(c)
        await ready(c)
        await again(c)
        assert len(person.asked) == 1
        configure_mcp_servers(project, tools=tools_server(TOOLS_TOKEN="another"))
        await again(c)
        assert [one.tool for one in person.asked] == ["mcp", "mcp"]


async def test_in_a_workspace_that_is_not_trusted_servers_of_its_own_are_not_even_asked_about(project: Path) -> None:
    person = Person()
    async with core(project, Cast([say("hello")]), person, settings=Settings(trusted=False)) as c:
        await prompt(c)
        assert (c.session.mcp_servers.list(), person.asked) == ([], [])


async def test_servers_of_the_settings_go_before_those_of_the_workspace_and_a_rule_may_start_them(
    project: Path,
) -> None:
    own = tools_server(TOOLS_TOKEN="mine")
    pattern = f"PYTHONPATH={ROOT} TOOLS_TOKEN=mine * -m tests.support.mcp_server"
    rules = PermissionSettings((Rule("r", "mcp", DecisionKind.ALLOW, pattern),))
    settings = Settings(mcp_servers={"tools": own}, permissions=rules)
    async with core(project, Cast([call("echo", text="a"), say("done")]), Person(), settings=settings) as c:
        await prompt(c)
        assert told(c) == "a"
        (server,) = c.session.mcp_servers.list()
        assert server.entry.source.place == "settings"


async def test_servers_of_the_users_own_file_are_started_unasked_and_go_before_those_of_the_workspace(
    project: Path,
) -> None:
    configure_user_mcp_servers(project.parent / "home", tools=tools_server(TOOLS_TOKEN="mine"))
    person = Person()
    async with core(project, Cast([call("echo", text="a"), say("done")]), person) as c:
        await prompt(c)
        assert told(c) == "a"
        (server,) = c.session.mcp_servers.list()
        assert server.entry.env["TOOLS_TOKEN"] == "mine"
        assert [one.tool for one in person.asked] == ["mcp__tools__echo"]


@pytest.mark.parametrize("effect", [DecisionKind.DENY, DecisionKind.ASK])
async def test_rules_about_starting_servers_hold_for_the_users_own_too(project: Path, effect: DecisionKind) -> None:
    configure_user_mcp_servers(project.parent / "home", tools=tools_server())
    settings = Settings(permissions=PermissionSettings((Rule("r", "mcp", effect),)))
    person = Person(DENY)
    async with core(project, Cast([say("hello")]), person, settings=settings) as c:
        await prompt(c)
        await c.until(lambda: state(c) is McpServerState.DENIED)
        assert len(person.asked) == (effect is DecisionKind.ASK)
        problems = [one.reason for one in c.session.problems]
        denied = ["MCP server tools is not running: The rule mcp denies it."]
        assert problems == (denied if effect is DecisionKind.DENY else [])


async def test_the_settings_file_of_the_workspace_names_servers_that_are_asked_about(workspace: Path) -> None:
    (workspace / ".deputy").mkdir()
    (workspace / ".deputy" / "settings.json").write_text(json.dumps({"mcpServers": {"tools": tools_server()}}), "utf-8")
    person = starting()
    async with core(workspace, Cast([say("hello")]), person) as c:
        await prompt(c)
        await ready(c)
        assert [one.tool for one in person.asked] == ["mcp"]


def define(project: Path, name: str, **front: object) -> None:
    """A definition of the workspace; JSON is YAML."""
    folder = project / ".deputy" / "agents"
    folder.mkdir(parents=True, exist_ok=True)
    fields = {"name": name, "description": "Does it.", **front}
    lines = "\n".join(f"{key}: {json.dumps(value)}" for key, value in fields.items())
    (folder / f"{name}.md").write_text(f"---\n{lines}\n---\nDo it.\n", "utf-8")


def spawn(**kinds: str) -> Line:
    """Starts children on tasks, each of a kind."""
    return calls(
        [
            use(
                "spawn_agents",
                tasks=[{"task": t, "subagent_type": kind, "mode": "default"} for t, kind in kinds.items()],
            )
        ]
    )


def servers_of(c: Core, task: str, request: int = 0) -> set[str]:
    """The servers whose tools a child is offered."""
    names = (tool.name.split("__") for tool in c.requests(task)[request].tools if tool.name.startswith("mcp__"))
    return {name[1] for name in names}


async def test_a_server_that_a_definition_brings_along_is_started_for_its_agents_and_offered_to_them_alone(
    project: Path,
) -> None:
    define(project, "bench", mcpServers=[{"lab": tools_server(TOOLS_TOKEN="x")}], tools=["read_file"])
    define(project, "other")
    pids = [calls([use("mcp__lab__pid")]), say("done")]
    lines: dict[str, list[Line]] = {"one": list(pids), "two": list(pids), "three": [say("done")]}
    person = starting()
    async with core(
        project, Cast([say("hello"), spawn(one="bench", two="bench", three="other"), say("end")], lines), person
    ) as c:
        await prompt(c)
        await ready(c)
        assert [one.title for one in person.asked] == ["mcp(tools)"]
        await prompt(c)
        assert servers_of(c, "one") == servers_of(c, "two") == {"lab"}
        assert servers_of(c, "three") == {"tools"}
        assert not any(tool.name.startswith("mcp__lab") for tool in c.requests()[-1].tools)
        first, second = (results(c.requests(task)[1])[0].content for task in ("one", "two"))
        assert first == second
        assert [one.title for one in person.asked if one.tool == "mcp"] == ["mcp(tools)", "mcp(lab)"]
        (asked,) = [one for one in person.asked if one.title == "mcp(lab)"]
        assert "configured in .deputy/agents/bench.md, provides tools to agents of the definition bench." in (
            asked.reason or ""
        )


async def test_an_agent_goes_on_without_a_server_of_its_definition_that_may_not_run(project: Path) -> None:
    configure_mcp_servers(project)
    define(project, "bench", mcpServers=[{"lab": tools_server()}])
    lines: dict[str, list[Line]] = {"one": [say("done")]}
    async with core(project, Cast([spawn(one="bench"), say("end")], lines), Person(DENY)) as c:
        assert await prompt(c) == "end_turn"
        assert servers_of(c, "one") == set()


async def test_an_agent_that_waits_for_the_answer_about_its_server_can_be_cancelled(project: Path) -> None:
    configure_mcp_servers(project)
    define(project, "bench", mcpServers=[{"lab": tools_server()}])
    async with core(project, Cast([spawn(one="bench"), say("end")]), grace=BOUND) as c:
        await c.session.refresh()
        turn = await c.session.prompts.accept([Text("go")])
        await c.until(lambda: bool(c.session.permission_requests()))
        (child,) = [node.info.agent_id for node in c.session.agents() if node.info.depth]
        await c.session.cancel_agent(child)
        assert (await c.finish(turn)).stop_reason == "end_turn"
        await c.session.cancel()


@pytest.mark.parametrize(("named", "offered"), [(["tools"], {"tools"}), ([], set[str]()), ("absent", set[str]())])
async def test_a_definition_picks_from_the_servers_of_the_session(
    project: Path, named: object, offered: set[str]
) -> None:
    define(project, "bench", mcpServers=named)
    lines: dict[str, list[Line]] = {"one": [say("done")]}
    async with core(project, Cast([say("hello"), spawn(one="bench"), say("end")], lines), starting()) as c:
        await prompt(c)
        await ready(c)
        await prompt(c)
        assert servers_of(c, "one") == offered
        told = [one.reason for one in c.session.problems]
        assert told == (["It names the MCP server absent, but there is no such server."] if named == "absent" else [])


async def test_a_server_of_a_definition_cannot_pass_for_one_of_the_session(project: Path) -> None:
    define(project, "bench", mcpServers={"tools": {"command": "something-else"}})
    async with core(project, Cast([say("hello")]), starting()) as c:
        await prompt(c)
        assert [one.entry.command for one in c.session.mcp_servers.list()] == [sys.executable]
        (problem,) = c.session.problems
        assert problem.reason == "MCP server tools: another one with this name is used instead"


async def test_all_agents_of_a_session_share_one_server(project: Path) -> None:
    lines = {"task": [call("pid"), say("done")]}
    script = Cast([say("hello"), call("pid"), delegate("task", mode="default"), say("end")], lines)
    async with core(project, script, starting()) as c:
        await prompt(c)
        await ready(c)
        await prompt(c)
        (mine,) = results(c.requests()[2])
        (theirs,) = results(c.requests("task")[1])
        assert mine.content == theirs.content


@pytest.mark.requirement("X16")
async def test_a_server_that_crashes_or_floods_is_told_and_started_again(project: Path) -> None:
    lines = [call("crash"), call("echo", text="back"), call("flood"), call("echo", text="again"), say("done")]
    async with running(project, lines) as c:
        await prompt(c)
        crashed, back, flooded, again = (results(request)[0] for request in c.requests()[2:])
        broke_down = "The MCP server tools failed during this call and is restarting."
        assert (crashed.is_error, crashed.content) == (True, broke_down)
        assert (flooded.is_error, flooded.content) == (True, broke_down)
        assert (back.content, again.content) == ("back", "again")


async def test_an_error_of_a_servers_own_is_told_in_its_words_and_the_server_goes_on(project: Path) -> None:
    async with running(project, [call("pid"), call("protocol_error"), call("pid"), say("done")]) as c:
        await prompt(c)
        first, error, second = (results(request)[0] for request in c.requests()[2:])
        assert error.is_error
        assert error.content == "The MCP server tools returned an error: the table is locked"
        assert first.content == second.content


async def test_a_server_that_was_started_anew_at_its_address_is_connected_to_again(workspace: Path) -> None:
    port = free_port()
    configure_mcp_servers(workspace, tools={"type": "http", "url": f"http://127.0.0.1:{port}/mcp"})
    lines: list[Line] = [call("echo", text="a"), call("echo", text="b"), say("done")]
    async with core(workspace, Cast([say("hello"), *lines]), starting()) as c:
        async with http_server(port):
            await prompt(c)
            await ready(c)
        async with http_server(port):
            await prompt(c)
        lost, again = (results(request)[0] for request in c.requests()[2:])
        broke_down = "The MCP server tools failed during this call and is restarting."
        assert lost.content in (broke_down, "a")  # the loss may have been heard of before
        assert again.content == "b"


@pytest.mark.requirement("X16")
async def test_a_call_that_hangs_is_given_up(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "CALL_TIMEOUT", 0.2)
    async with running(project, [call("hang"), say("done")]) as c:
        await prompt(c)
        assert told(c) == "error: The MCP server tools did not respond within 0.2 s."


@pytest.mark.requirement("X16")
async def test_a_call_is_cancelled_with_its_turn(project: Path) -> None:
    async with running(project, [call("hang")]) as c:
        turn = await c.session.prompts.accept([Text("go")])
        await c.seen(
            ToolCallUpdated, lambda update: update.status == "in_progress" and "mcp-" not in update.tool_call_id
        )
        await c.session.cancel()
        assert (await c.finish(turn)).stop_reason == "cancelled"


async def test_errors_and_images_reach_the_model_much_is_cut_and_secrets_are_taken_out(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-very-secret")
    async with running(project, [*map(call, ("fail", "paint", "much", "secret")), say("done")]) as c:
        await prompt(c)
        failed, painted, much, secret = (results(request)[0] for request in c.requests()[2:])
        assert (failed.is_error, failed.content) == (True, "Error executing tool fail")
        assert [image.media_type for image in painted.images] == ["image/png"]
        assert len(much.content) < 50_000
        assert much.content.endswith("ask the tool for less]")
        assert secret.content == "the token is [removed], the key is None"


async def test_new_tools_of_a_server_are_offered(project: Path) -> None:
    async with running(project, [call("grow"), say("done"), call("grown"), say("done")]) as c:
        await prompt(c)
        await until(lambda: "grown" in c.session.mcp_servers.list()[0].catalog.tools)
        await prompt(c)
        assert told(c) == "grown"


async def test_tools_of_odd_names_are_called_by_the_servers_own_and_those_that_are_none_are_told(
    workspace: Path,
) -> None:
    configure_mcp_servers(workspace, tools=tools_server("odd_mcp_server"))
    lines = [call("we-ird", text="hi"), say("done"), call("echo", text="garble"), say("done")]
    async with running(workspace, lines) as c:
        assert list(c.session.mcp_servers.list()[0].catalog.tools) == ["echo", "dot-ted", "a-b", "we-ird"]
        await prompt(c)
        assert told(c) == "we ird said hi"
        assert [one.reason.removeprefix("MCP server tools: the tool ") for one in c.session.problems] == [
            "list is ignored: inputSchema.type: must be 'object'.",
            "words is ignored: inputSchema: must be an object.",
            "without a name is ignored: name: must be a string.",
            "without a name is ignored: must be an object.",
            "echo is ignored: another tool has the same name.",
            f"{'x' * 79}… is ignored: its name must have letters and at most 80 characters.",
            "without a name is ignored: its name must have letters and at most 80 characters.",
        ]
        await prompt(c)
        assert told(c).endswith("its response is not valid: content: must be a list")


async def test_a_server_that_does_not_start_is_given_up_and_says_why(workspace: Path) -> None:
    configure_mcp_servers(
        workspace,
        none={"command": "no-such-program"},
        silent={"command": "sh", "args": ["-c", "echo out of order >&2; exit 1"]},
        unset={"command": "sh", "env": {"KEY": "${NO_SUCH_VARIABLE}"}},
    )
    async with core(workspace, Cast([say("hello")]), Person()) as c:
        await prompt(c)
        await c.until(lambda: all(one.state is McpServerState.FAILED for one in c.session.mcp_servers.list()))
        problems = [one.problem for one in c.session.mcp_servers.list()]
        assert problems[0] == "it stopped: no-such-program: No such file or directory"
        assert [one.reason for one in c.session.problems][:1] == [f"MCP server none is not running: {problems[0]}."]
        assert problems[1] == "it stopped: out of order"
        hint = "set it, or write ${NO_SUCH_VARIABLE:-default}"
        assert problems[2] == f"NO_SUCH_VARIABLE has no value in the environment of Deputy; {hint}"


async def test_servers_end_with_their_session_even_those_that_ignore_their_input(
    project: Path, started: Started
) -> None:
    configure_mcp_servers(project, tools={**tools_server(), "args": ["-c", _DEAF]})
    async with running(project, []):
        mine = started()
        assert any("sleep" in " ".join(process.cmdline()) for process in mine)
    await until(lambda: not any(process.is_running() for process in mine))


_DEAF = """
import os, signal, subprocess, sys, threading
signal.signal(signal.SIGTERM, signal.SIG_IGN)
subprocess.Popen(["sleep", "600"])
sys.argv = [sys.argv[0]]
from tests.support.mcp_server import server
server.run("stdio")
signal.pause()
"""


async def test_an_entry_that_is_taken_out_ends_its_server(project: Path) -> None:
    async with running(project, [say("hello")]) as c:
        configure_mcp_servers(project)
        await c.session.refresh()
        await prompt(c)
        assert c.session.mcp_servers.list() == []
        assert not any(tool.name.startswith("mcp__") for tool in c.requests()[-1].tools)


async def test_a_plan_uses_no_tool_of_a_server(project: Path) -> None:
    async with running(project, [call("echo", text="a"), say("done")]) as c:
        c.session.permissions.mode = PermissionMode.PLAN
        await prompt(c)
        assert "which the mode plan denies" in told(c)


@pytest.mark.requirement("X16")
async def test_prompts_of_servers_are_called_by_a_slash_with_arguments_in_their_order(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "a.py").write_text("print(1)\n")
    async with running(project, [say("done")] * 3) as c:
        shown = {item.text: item.detail for item in (await c.session.complete("/mcp")).items}
        assert shown == {
            "/mcp__tools__explain": "<topic> [depth] Asks for an explanation.",
            "/mcp__tools__ponder": "Never returns.",
            "/mcp__tools__review": "Asks for a review.",
        }
        for words, becomes in (
            ("/mcp__tools__review", "Review it."),
            ("/mcp__tools__explain 'the retry loop' in short", "Explain the retry loop, in short; see @a.py."),
            ("/mcp__tools__explain retries", "Explain retries, all; see @a.py."),
        ):
            assert await prompt(c, words) == "end_turn"
            assert c.requests()[-1].messages[-1].content[0] == Text(becomes)
            assert [message.text for message in c.bodies(MessageAdded) if message.role == "user"][-1] == words
        assert "print(1)" in str(c.requests()[-1].messages[-1].content[1])
        with pytest.raises(InvalidRequest, match=r"/mcp__tools__explain needs <topic> \[depth\]: topic is missing"):
            await prompt(c, "/mcp__tools__explain")
        monkeypatch.setattr(prompt_acceptor, "READING_GRACE", 0.2)
        with pytest.raises(InvalidRequest, match=r"/mcp__tools__ponder: its server did not answer within 0.2 s"):
            await prompt(c, "/mcp__tools__ponder")
        assert c.session.turns.running is None
        assert await c.session.cancel() is False


@pytest.mark.requirement("X16")
async def test_resources_are_read_by_a_tool_that_names_those_that_are_listed(project: Path) -> None:
    reads = [call("read_resource", uri=uri) for uri in ("notes://today", "notes://never")]
    async with running(project, [*reads, call("read_resource"), say("done")]) as c:
        await prompt(c)
        today, never, none = (results(request)[0] for request in c.requests()[2:])
        assert (today.is_error, today.content) == (False, "[notes://today]\nnone")
        assert never.content.startswith("The MCP server tools returned an error: ")
        assert none.content == "uri: pass the URI of a resource, and nothing else."
        (spec,) = [one for one in c.requests()[1].tools if one.name == "mcp__tools__read_resource"]
        assert spec.description.endswith("Listed resources:\n- notes://today")


async def test_a_server_is_reached_by_http(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with http_server() as url:
        monkeypatch.setenv("MCP_HOST", url)
        configure_mcp_servers(workspace, tools={"type": "http", "url": "${MCP_HOST}/mcp", "headers": {"X-Who": "me"}})
        lines: list[Line] = [call("echo", text="hi"), call("much"), say("done")]
        async with running(workspace, lines) as c:
            await prompt(c)
            assert results(c.requests()[2])[0].content == "hi"
            assert told(c).endswith("ask the tool for less]")
