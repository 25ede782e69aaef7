"""Definitions with an input schema are tools of the primary's own, and each kind of child keeps to its definition."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from deputy_agents.domain.event import AgentFinished, AgentStarted, DefinitionsChanged, MessageAdded, ToolCallStarted
from deputy_agents.domain.message import Message, Reply, StopReason, Text, Usage
from deputy_agents.domain.outcome import AgentStatus, FailureReason
from deputy_agents.domain.permission_mode import PermissionMode
from deputy_agents.domain.settings import Settings
from deputy_agents.model.scripted import call, calls, say, use
from tests.support.core import Cast, Pause, Person, core, results, small, task_of
from tests.support.delegation import DELEGATION_TOOLS, define, tools_of

SEARCH = {"read_file", "glob", "grep", "list_dir"}
REPORTS = {"submit_result", "submit_error"}
NAMED = ["inputSchema:", "  type: object", "  properties:", "    topic: {type: string}", "  required: [topic]"]


@pytest.mark.requirement("B7")
@pytest.mark.parametrize(
    ("tool", "input", "message", "tools", "iterations"),
    [
        ("code_search", {"query": "where is it", "scope": "src"}, "where is it\n\nscope: src", SEARCH, 8),
        ("code_search", {"query": "where is it"}, "where is it", SEARCH, 8),
        ("code_review", {"target": "a.py"}, "a.py\n\nfocus: all", SEARCH - {"list_dir"}, 6),
        ("code_review", {"target": "a.py", "focus": "bugs"}, "a.py\n\nfocus: bugs", SEARCH - {"list_dir"}, 6),
        (
            "planner",
            {"task": "add it", "constraints": "no new files"},
            "add it\n\nconstraints: no new files",
            SEARCH,
            6,
        ),
    ],
)
@pytest.mark.asyncio
async def test_a_built_in_one_gets_its_input_its_tools_and_its_number_of_requests(
    workspace: Path, tool: str, input: dict[str, object], message: str, tools: set[str], iterations: int
) -> None:
    first = str(next(iter(input.values())))
    cast = Cast([call(tool, **input), say("ok")], {first: [call("glob", pattern="*")] * iterations})
    async with core(workspace, cast) as c:
        await c.turn()
        asked = c.requests(first)
        assert task_of(asked[0]) == message
        assert tools_of(asked[0]) == tools | REPORTS
        assert len(asked) == iterations
        node = c.child(first)
        assert (node.info.definition, node.info.access.value) == (tool, "read_only")
        assert (node.failure_reason, node.error) == (
            FailureReason.BUDGET_EXCEEDED,
            f"it reached its limit of {iterations} model requests",
        )
        assert c.told() == [f"Sub-agent failed (budget_exceeded): it reached its limit of {iterations} model requests"]


@pytest.mark.parametrize(
    ("tool", "input", "named"),
    [
        ("code_search", {}, "'query' is a required property"),
        ("code_search", {"query": "q", "path": "."}, "'path' was unexpected"),
        ("code_review", {"target": "t", "focus": "speed"}, "focus: 'speed' is not one of"),
        ("planner", {"task": 3}, "task: 3 is not of type 'string'"),
        ("planner", {"task": "t", "timeout": -5}, "timeout: input should be greater than 0"),
    ],
)
@pytest.mark.asyncio
async def test_an_input_that_does_not_fit_starts_nobody_and_names_the_field(
    workspace: Path, tool: str, input: dict[str, object], named: str
) -> None:
    async with core(workspace, Cast([call(tool, **input), say("ok")])) as c:
        await c.turn()
        (result,) = results(c.requests()[-1])
        assert result.is_error
        assert named in result.content
        assert len(c.session.agents()) == 1


@pytest.mark.asyncio
async def test_the_answer_is_put_into_the_template_of_the_definition_and_a_failure_is_not(workspace: Path) -> None:
    define(workspace, "judge", [*NAMED, 'resultFormat: "<verdict by={agent_id}>{result}</verdict>"'])
    reply = calls([use("judge", topic="taste"), use("judge", topic="colour")])
    cast = Cast([reply, say("ok")], {"taste": [say("{result} is good")], "colour": [call("submit_error", error="no")]})
    async with core(workspace, cast) as c:
        await c.turn()
        verdict, failed = c.told()
        assert verdict == f"<verdict by={c.child('taste').info.agent_id}>{{result}} is good</verdict>"
        assert failed == "Sub-agent failed (sub_agent_error): no"


@pytest.mark.asyncio
async def test_a_time_limit_can_be_given_as_at_every_delegation_tool(workspace: Path) -> None:
    cast = Cast([call("planner", task="slow", timeout=0.01), say("ok")], {"slow": [Pause(say("never"))]})
    async with core(workspace, cast) as c:
        await c.turn()
        assert c.told() == ["Sub-agent failed (timed_out): it ran past its time limit of 0.01 s"]


@pytest.mark.requirement("B4")
@pytest.mark.asyncio
async def test_a_call_outside_the_tools_of_the_definition_is_rejected_and_never_run(workspace: Path) -> None:
    person = Person()
    outside = calls([use("write_file", path="a.py", content="x"), use("list_dir", path="."), use("spawn_agent")])
    cast = Cast([call("code_review", target="a.py"), say("ok")], {"a.py": [outside, say("I cannot.")]})
    async with core(workspace, cast, person) as c:
        await c.turn()
        refused = results(c.requests("a.py")[-1])
        assert [result.is_error for result in refused] == [True] * 3
        assert "There is no tool 'list_dir' here. Tools: glob, grep, read_file" in refused[1].content
        assert not (workspace / "a.py").exists()
        assert person.asked == []


@pytest.mark.requirement("B8")
@pytest.mark.asyncio
async def test_a_definition_can_name_the_small_model_or_one_of_its_own(workspace: Path) -> None:
    define(workspace, "expert", [*NAMED, "model: wise-1", "temperature: 0.3"])
    reply = calls([use("code_search", query="a"), use("expert", topic="b"), use("spawn_agent", instructions="c")])
    cast = Cast([reply, say("ok")], {name: [say("done")] for name in "abc"})
    async with core(workspace, cast, settings=Settings(model="large", small_model="little")) as c:
        await c.turn()
        assert {name: c.requests(name)[0].model for name in "abc"} == {"a": "little", "b": "wise-1", "c": "large"}
        assert {name: c.child(name).info.model for name in "abc"} == {"a": "little", "b": "wise-1", "c": "large"}
        assert c.requests("b")[0].temperature == 0.3


@pytest.mark.asyncio
async def test_without_a_small_model_the_parents_is_used(workspace: Path) -> None:
    cast = Cast([call("code_search", query="a"), say("ok")], {"a": [say("done")]})
    async with core(workspace, cast, settings=Settings(model="large")) as c:
        await c.turn()
        assert c.requests("a")[0].model == "large"


@pytest.mark.requirement("B2")
@pytest.mark.requirement("B1")
@pytest.mark.asyncio
async def test_every_definition_with_a_schema_is_a_tool_and_the_prompt_of_the_primary_describes_all(
    workspace: Path,
) -> None:
    define(workspace, "judge", NAMED, prompt="You judge.")
    define(workspace, "helper", prompt="You help.")
    cast = Cast([call("judge", topic="taste"), say("ok")], {"taste": [say("done")]})
    async with core(workspace, cast) as c:
        await c.turn()
        first = c.requests()[0]
        assert DELEGATION_TOOLS | {"judge"} <= tools_of(first)
        assert "helper" not in tools_of(first)
        _, listed = first.system.split("Call each of these as a tool of its name:")
        tool, kind = listed.split("Pass one of these names as")
        assert [line.split("`")[1] for line in tool.strip().splitlines()] == [
            "code_search",
            "code_review",
            "planner",
            "judge",
        ]
        assert [line.split("`")[1] for line in kind.splitlines() if line.startswith("- ")] == ["general", "helper"]
        assert "The agent judge." in tool
        assert c.requests("taste")[0].system.startswith("You judge.")
        assert "Sub-agents" not in c.requests("taste")[0].system


@pytest.mark.requirement("B5")
@pytest.mark.requirement("B6")
@pytest.mark.asyncio
async def test_the_end_of_a_child_carries_its_counts_and_all_between_start_and_end_is_its_own(workspace: Path) -> None:
    used = Usage(input_tokens=10, output_tokens=3)
    look = Reply(Message("assistant", (Text("Looking."), use("glob", pattern="*"))), StopReason.TOOL_USE, used)
    cast = Cast([call("code_search", query="find"), say("ok")], {"find": [look, say("Found.", usage=used)]})
    async with core(workspace, cast) as c:
        await c.turn()
        node = c.child("find")
        own = [event.body for event in c.durable() if event.agent_id == node.info.agent_id]
        assert isinstance(own[0], AgentStarted)
        assert [body.tool for body in own if isinstance(body, ToolCallStarted)] == ["glob"]
        assert [body.text for body in own if isinstance(body, MessageAdded)] == ["find", "Looking.", "Found."]
        assert own[-1] == AgentFinished(AgentStatus.COMPLETED, "Found.", used + used, tool_call_count=1, iterations=2)


# -- definitions that change ---------------------------------------------------------------------------------------


@pytest.mark.asyncio
async def test_definitions_that_change_between_turns_are_picked_up_and_told(workspace: Path) -> None:
    cast = Cast([say("one"), say("two"), call("judge", topic="taste"), say("ok"), say("three")], {"taste": [say("hm")]})
    async with core(workspace, cast) as c:
        await c.turn()
        file = define(workspace, "judge", NAMED, prompt="You judge.")
        await c.session.refresh()
        await c.turn()
        await c.session.refresh()
        assert len(c.bodies(DefinitionsChanged)) == 1, "nothing had changed the second time"
        define(workspace, "judge", NAMED, prompt="You judge mildly, and at length.")
        await c.session.refresh()
        await c.turn()
        file.unlink()
        await c.session.refresh()
        await c.turn()
        assert ["judge" in tools_of(request) for request in c.requests()] == [False, True, True, True, False]
        assert c.requests("taste")[0].system.startswith("You judge mildly")
        await c.caught_up()
        assert len(c.bodies(DefinitionsChanged)) == 3


@pytest.mark.asyncio
async def test_the_prompt_stays_the_same_text_while_nothing_changes(workspace: Path) -> None:
    async with core(workspace, Cast([say("one"), say("two")])) as c:
        await c.turn()
        await c.session.refresh()
        await c.turn()
        first, second = c.requests()
        assert (first.system, first.tools) == (second.system, second.tools)


@pytest.mark.asyncio
async def test_an_untrusted_folder_brings_no_definitions_and_only_children_that_read(workspace: Path) -> None:
    define(workspace, "judge", NAMED)
    reply = calls(
        [
            use("spawn_agents", tasks=[{"task": "x", "subagent_type": "judge"}]),
            use("spawn_agent", instructions="writes", mode="default"),
            use("spawn_agent", instructions="reads"),
        ]
    )
    cast = Cast([reply, say("ok"), say("now")], {"reads": [say("read")]})
    async with core(workspace, cast, settings=Settings(trusted=False)) as c:
        await c.turn()
        unknown, denied, read = results(c.requests()[-1])
        assert "judge" not in tools_of(c.requests()[0])
        assert "there is no sub-agent definition 'judge'" in unknown.content
        assert denied.is_error
        assert "spawn_agent starts a sub-agent that can make changes, which the mode plan denies." in denied.content
        assert read.content == "read"
        c.session.settings.client.apply(Settings(trusted=True))
        await c.session.refresh()
        await c.turn()
        assert "judge" in tools_of(c.requests()[-1])


@pytest.mark.requirement("E14")
@pytest.mark.asyncio
async def test_a_child_works_under_the_lower_of_its_own_mode_and_its_parents(workspace: Path) -> None:
    define(workspace, "bold", ["permissionMode: bypass"])
    define(workspace, "shy", ["permissionMode: plan"])
    person = Person()
    kinds = {"bold": "b.txt", "shy": "s.txt"}
    tasks = [{"task": kind, "subagent_type": kind, "mode": "default"} for kind in kinds]
    lines = {kind: [call("write_file", path=path, content="x"), say("done")] for kind, path in kinds.items()}
    cast = Cast([call("spawn_agents", tasks=tasks), say("ok")], lines)
    async with core(workspace, cast, person) as c:
        await c.turn()
        assert person.titles == ["[bold] write_file(b.txt)"], "a child's definition does not lift it above its parent"
        assert "which the mode plan denies" in results(c.requests("shy")[-1])[0].content
        assert json.loads(c.told()[0])["sub_agent_results"][0]["outcome"] == {"success": {"result": "done"}}


@pytest.mark.asyncio
async def test_in_plan_mode_there_are_only_children_that_read(workspace: Path) -> None:
    reply = calls(
        [
            use("planner", task="plan it"),
            use("spawn_agent", instructions="reads"),
            use("spawn_agent", instructions="writes", mode="default"),
            use("spawn_agents", tasks=[{"task": "reads"}, {"task": "writes", "mode": "default"}]),
            use("task", description="d", prompt="writes", subagent_type="general"),
        ]
    )
    cast = Cast([reply, say("ok")], {"plan it": [say("1.")], "reads": [say("2.")]})
    async with core(workspace, cast, settings=Settings(permission_mode=PermissionMode.PLAN)) as c:
        await c.turn()
        assert [result.is_error for result in results(c.requests()[-1])] == [False, False, True, True, True]
        assert c.told()[:2] == ["1.", "2."]
        assert [node.info.access.value for node in c.session.agents()[1:]] == ["read_only", "read_only"]


@pytest.mark.requirement("E20")
@pytest.mark.asyncio
async def test_one_setting_takes_every_delegation_tool_away_and_the_prompt_no_longer_speaks_of_them(
    workspace: Path,
) -> None:
    reply = calls([use("spawn_agent", instructions="x"), use("task"), use("code_search", query="x")])
    async with core(workspace, Cast([say("on"), reply, say("ok")])) as c:
        await c.turn()
        assert tools_of(c.requests()[0]) >= DELEGATION_TOOLS
        c.session.settings.client.apply(replace(c.session.settings.current, agents=small(enabled=False).agents))
        await c.turn()
        assert tools_of(c.requests()[-1]) & DELEGATION_TOOLS == set()
        assert "# Sub-agents" not in c.requests()[-1].system
        assert all("There is no tool" in told for told in c.told())
        assert len(c.session.agents()) == 1


@pytest.mark.requirement("B10")
@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.asyncio
async def test_a_child_starts_the_typed_agents_that_its_definition_names_where_the_depth_allows(
    workspace: Path, depth: int
) -> None:
    define(workspace, "lead", ["tools: [list_dir, code_search, poet]"])
    define(workspace, "poet", NAMED)
    to_lead = call("task", description="lead it", prompt="lead it", subagent_type="lead")
    lines = {"lead it": [call("poet", topic="ponds"), say("as it may be")], "ponds": [say("an old pond")]}
    async with core(workspace, Cast([to_lead, say("ok"), say("ok")], lines), settings=small(max_depth=depth)) as c:
        await c.turn()
        await c.seen(AgentFinished, lambda end: end.result == "as it may be")
        delegations = tools_of(c.requests("lead it")[0]) & (DELEGATION_TOOLS | {"poet"})
        assert delegations == ({"code_search", "poet"} if depth == 2 else set())
        (result,) = results(c.requests("lead it")[-1])
        assert result.content.startswith("an old pond" if depth == 2 else "There is no tool 'poet' here")
