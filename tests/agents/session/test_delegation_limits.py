"""Limits on agents and their trees: budgets, depth, permissions of the delegation tools, and the reasons of
failures."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from deputy_agents.domain.errors import ModelError, ModelErrorKind
from deputy_agents.domain.event import AgentFinished, PermissionRequested, StatusChanged, TurnFinished, TurnStarted
from deputy_agents.domain.message import Message, Reply, StopReason, ToolUse, Usage, tool_uses
from deputy_agents.domain.outcome import AgentStatus, FailureReason
from deputy_agents.domain.rule import DecisionKind, Rule
from deputy_agents.domain.settings import AgentSettings, Budget, Budgets, PermissionSettings, Settings
from deputy_agents.model.scripted import call, calls, say, use
from tests.support.core import BOUND, Cast, Line, Pause, Person, core, delegate, results, small
from tests.support.delegation import DELEGATION_TOOLS, background, define, fan_out, tools_of


def step(tokens: int = 0, cost: float | None = None) -> Reply:
    """One tool call that cost something."""
    return Reply(Message("assistant", (use("list_dir", path="."),)), StopReason.TOOL_USE, Usage(tokens, 0, cost=cost))


def limited(agent: Budget | None = None, tree: Budget | None = None) -> Settings:
    return Settings(budgets=Budgets(agent or Budget(), tree or Budget()))


# -- budgets -------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("X10")
@pytest.mark.parametrize(
    ("budget", "used_up"),
    [
        (Budget(tokens=2000), "2,000 tokens is used up (budgets.agent.tokens)"),
        (Budget(tool_calls=2), "2 tool calls is used up (budgets.agent.toolCalls)"),
        (Budget(cost=0.5), "0.5 US dollars is used up (budgets.agent.cost)"),
        (Budget(replies=2), "2 model replies is used up (budgets.agent.replies)"),
    ],
)
@pytest.mark.asyncio
async def test_a_child_that_has_used_up_its_budget_ends_with_what_it_has_and_its_parent_goes_on(
    workspace: Path, budget: Budget, used_up: str
) -> None:
    spends = replace(
        step(1000, 0.25), message=Message("assistant", calls([use("glob", pattern="*")], "So far.").message.content)
    )
    cast = Cast(
        [fan_out("spends", "saves"), say("ok")], {"spends": [spends, step(1000, 0.25)], "saves": [say("saved")]}
    )
    async with core(workspace, cast, settings=limited(agent=budget)) as c:
        outcome = await c.turn()
        assert outcome.stop_reason == "end_turn"
        child = c.child("spends")
        assert (child.status, child.failure_reason, child.error, child.summary) == (
            AgentStatus.FAILED,
            FailureReason.BUDGET_EXCEEDED,
            f"its budget of {used_up}",
            "So far.",
        )
        assert c.child("saves").status is AgentStatus.COMPLETED
        assert len(c.requests("spends")) == 2


@pytest.mark.requirement("X10")
@pytest.mark.asyncio
async def test_the_time_of_a_child_is_a_budget_too(workspace: Path) -> None:
    cast = Cast([delegate("slow"), say("ok")], {"slow": [Pause(say("never"))]})
    async with core(workspace, cast, settings=limited(agent=Budget(seconds=0.01))) as c:
        await c.turn()
        why = "its budget of 0.01 s is used up (budgets.agent.seconds)"
        assert c.told() == [f"Sub-agent failed (budget_exceeded): {why}"]


@pytest.mark.requirement("X10")
@pytest.mark.asyncio
async def test_a_tree_that_has_used_up_its_budget_ends_with_the_turn_and_says_why(workspace: Path) -> None:
    waiting = Pause(say("never"))
    children: dict[str, list[Line]] = {"spends": [step(600), step(600)], "waits": [waiting]}
    async with core(workspace, Cast([fan_out(*children)], children), settings=limited(tree=Budget(tokens=1000))) as c:
        outcome = await c.turn()
        assert outcome.stop_reason == "max_turn_requests"
        why = "the session's budget of 1,000 tokens is used up (budgets.tree.tokens)"
        assert {(end.status, end.failure_reason, end.error) for end in c.bodies(AgentFinished)} == {
            (AgentStatus.FAILED, FailureReason.BUDGET_EXCEEDED, why)
        }
        assert len(c.bodies(AgentFinished)) == 2
        details = [status.detail for status in c.bodies(StatusChanged, c.session.primary_id) if status.detail]
        assert details == [f"stopped: {why}"]
        assert waiting.over.is_set()
        again = await c.turn("once more")
        assert again.stop_reason == "max_turn_requests"
        assert [(turn.detail, turn.setting) for turn in c.bodies(TurnFinished)] == [(why, "budgets.tree.tokens")] * 2
        assert len(c.requests()) == 1, "nothing is asked that cannot be paid"


@pytest.mark.requirement("X10")
@pytest.mark.asyncio
async def test_all_agents_of_a_tree_spend_from_one_budget(workspace: Path) -> None:
    children: dict[str, list[Line]] = {name: [step(), say("done")] for name in ("a", "b")}
    cast = Cast([fan_out(*children)], children)
    async with core(workspace, cast, settings=limited(tree=Budget(tool_calls=3))) as c:
        outcome = await c.turn()
        assert outcome.stop_reason == "max_turn_requests"
        assert len(c.bodies(AgentFinished)) == 2


@pytest.mark.requirement("X10")
@pytest.mark.asyncio
async def test_the_replies_of_all_agents_of_a_tree_count_together(workspace: Path) -> None:
    children: dict[str, list[Line]] = {name: [step(), say("done")] for name in ("a", "b")}
    async with core(workspace, Cast([fan_out(*children)], children), settings=limited(tree=Budget(replies=3))) as c:
        assert (await c.turn()).stop_reason == "max_turn_requests"
        assert len(c.model.requests) == 3
        assert {end.failure_reason for end in c.bodies(AgentFinished)} == {FailureReason.BUDGET_EXCEEDED}


@pytest.mark.requirement("X10")
@pytest.mark.asyncio
async def test_the_time_of_a_turn_is_a_budget_of_its_tree(workspace: Path) -> None:
    child = Pause(say("never"))
    cast = Cast([delegate("slow"), say("later")], {"slow": [child]})
    async with core(workspace, cast, settings=limited(tree=Budget(seconds=1))) as c:
        outcome = await c.turn()
        assert child.asked.is_set()
        assert outcome.stop_reason == "max_turn_requests"
        assert c.child("slow").failure_reason is FailureReason.BUDGET_EXCEEDED


@pytest.mark.requirement("X10")
@pytest.mark.asyncio
async def test_a_background_child_over_the_budget_of_the_tree_ends_and_wakes_nobody(workspace: Path) -> None:
    working = Pause(step(900))
    cast = Cast([background("work"), say("Started.")], {"work": [working]})
    async with core(workspace, cast, settings=limited(tree=Budget(tokens=500))) as c:
        await c.turn()
        working.go.set()
        end = await c.seen(AgentFinished)
        assert end.failure_reason is FailureReason.BUDGET_EXCEEDED
        await c.caught_up()
        assert len(c.bodies(TurnStarted)) == 1


@pytest.mark.asyncio
async def test_the_turn_of_a_primary_is_bounded_in_requests(workspace: Path) -> None:
    settings = Settings()
    settings = replace(settings, limits=replace(settings.limits, turn_iterations=2))
    async with core(workspace, Cast([step(), step()]), settings=settings) as c:
        assert (await c.turn()).stop_reason == "max_turn_requests"
        why = "it reached its limit of 2 model requests for one prompt (limits.turnIterations)"
        assert [(turn.detail, turn.setting) for turn in c.bodies(TurnFinished)] == [(why, "limits.turnIterations")]


# -- depth ---------------------------------------------------------------------------------------------------------


def nested(workspace: Path) -> None:
    define(workspace, "lead", ["tools: [list_dir, spawn_agent, spawn_agents, task]"])


def to_lead(task: str) -> Reply:
    return call("spawn_agents", tasks=[{"task": task, "subagent_type": "lead", "mode": "default"}])


@pytest.mark.requirement("B10")
@pytest.mark.asyncio
async def test_by_default_no_child_has_a_delegation_tool_whatever_its_definition_lists(workspace: Path) -> None:
    nested(workspace)
    lines = [delegate("deeper"), say("I cannot.")]
    async with core(workspace, Cast([to_lead("lead it"), say("ok")], {"lead it": lines})) as c:
        await c.turn()
        assert tools_of(c.requests("lead it")[0]) & DELEGATION_TOOLS == set()
        (result,) = results(c.requests("lead it")[-1])
        assert "There is no tool 'spawn_agent' here" in result.content
        assert len(c.session.agents()) == 2


@pytest.mark.requirement("B10")
@pytest.mark.requirement("A11")
@pytest.mark.parametrize("depth", [2, 3])
@pytest.mark.asyncio
async def test_with_more_depth_a_child_has_the_delegation_tools_that_its_definition_lists_down_to_that_depth(
    workspace: Path, depth: int
) -> None:
    nested(workspace)
    lines = [to_lead("next"), say("back")]

    def deeper(name: str) -> list[Line]:
        return [to_lead(name), say("back")]

    children: dict[str, list[Line]] = {"1": deeper("2"), "2": deeper("3"), "3": deeper("4")}
    children[str(depth)] = [lines[0], say("bottom")]
    async with core(workspace, Cast([to_lead("1"), say("ok")], children), settings=small(max_depth=depth)) as c:
        await c.turn()
        delegations = {level: tools_of(c.requests(str(level))[0]) & DELEGATION_TOOLS for level in range(1, depth + 1)}
        general = {"spawn_agent", "spawn_agents", "task"}
        assert delegations == {level: general if level < depth else set() for level in range(1, depth + 1)}
        assert [node.info.depth for node in c.session.agents()] == list(range(depth + 1))
        assert "# Sub-agents" in c.requests("1")[0].system
        assert "`planner`" not in c.requests("1")[0].system, "it is told only of what it can start"
        bottom = c.session.agents()[-1]
        assert [label for _, label in c.session.roster.agent(bottom.info.agent_id).ref.ancestry] == [
            "primary",
            *map(str, range(1, depth)),
        ]


@pytest.mark.asyncio
async def test_a_child_that_reads_has_no_delegation_tool_at_any_depth(workspace: Path) -> None:
    nested(workspace)
    reads = call("spawn_agents", tasks=[{"task": "lead it", "subagent_type": "lead", "mode": "read_only"}])
    async with core(workspace, Cast([reads, say("ok")], {"lead it": [say("ok")]}), settings=small(max_depth=3)) as c:
        await c.turn()
        assert tools_of(c.requests("lead it")[0]) & DELEGATION_TOOLS == set()


@pytest.mark.asyncio
async def test_a_grandchild_has_no_tool_that_its_parent_lacks(workspace: Path) -> None:
    nested(workspace)
    delegation = use("spawn_agent", instructions="dig", mode="default")
    cast = Cast([to_lead("lead it"), say("ok")], {"lead it": [calls([delegation]), say("ok")], "dig": [say("dug")]})
    async with core(workspace, cast, settings=small(max_depth=2)) as c:
        await c.turn()
        assert "write_file" not in tools_of(c.requests("dig")[0])
        assert "list_dir" in tools_of(c.requests("dig")[0])


@pytest.mark.asyncio
async def test_a_depth_that_is_lowered_while_an_agent_runs_holds_at_its_next_spawn(workspace: Path) -> None:
    nested(workspace)
    thinking = Pause(delegate("dig"))
    cast = Cast([to_lead("lead it"), say("ok")], {"lead it": [thinking, say("I cannot.")]})
    async with core(workspace, cast, settings=small(max_depth=2)) as c:
        turn = c.start()
        async with asyncio.timeout(BOUND):
            await thinking.asked.wait()
        c.session.settings.client.apply(small(max_depth=1))
        thinking.go.set()
        await c.finish(turn)
        (result,) = results(c.requests("lead it")[-1])
        assert result.content == "No sub-agent was started: agents at depth 1 may not start sub-agents."
        assert len(c.session.agents()) == 2


# -- permissions ---------------------------------------------------------------------------------------------------


@pytest.mark.requirement("E14")
@pytest.mark.parametrize("pattern", [None, "general"])
@pytest.mark.asyncio
async def test_task_is_a_permission_of_its_own_that_a_rule_can_deny(workspace: Path, pattern: str | None) -> None:
    rule = Rule("r1", "task", DecisionKind.DENY, pattern)
    settings = Settings(permissions=PermissionSettings(rules=(rule,)))
    reply = calls([*_uses(background("look")), use("spawn_agent", instructions="look")])
    async with core(workspace, Cast([reply, say("ok")], {"look": [say("found")]}), settings=settings) as c:
        await c.turn()
        denied, found = results(c.requests()[-1])
        assert denied.is_error
        assert denied.content.startswith("Denied: The rule task")
        assert found.content == "found"
        assert len(c.session.agents()) == 2


@pytest.mark.requirement("E14")
@pytest.mark.asyncio
async def test_a_rule_can_have_the_user_asked_before_a_child_of_some_kind_starts(workspace: Path) -> None:
    person = Person()
    settings = Settings(permissions=PermissionSettings(rules=(Rule("r1", "*", DecisionKind.ASK, "planner"),)))
    reply = calls([use("planner", task="plan it"), use("code_search", query="find it")])
    cast = Cast([reply, say("ok")], {"plan it": [say("1.")], "find it": [say("2.")]})
    async with core(workspace, cast, person, settings=settings) as c:
        await c.turn()
        assert person.titles == ["planner(plan it)"]
        assert c.told() == ["1.", "2."]
        (asked,) = c.bodies(PermissionRequested)
        assert asked.request.agent.agent_id == c.session.primary_id


def _uses(reply: Reply) -> tuple[ToolUse, ...]:
    return tool_uses(reply.message)


# -- reasons -------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("E15")
@pytest.mark.parametrize(
    ("lines", "reason", "detail"),
    [
        ([call("submit_error", error="no such loop")], FailureReason.SUB_AGENT_ERROR, "no such loop"),
        ([say("")], FailureReason.RUNTIME_ERROR, "it ended without an answer"),
        ([say("half", StopReason.MAX_TOKENS)], FailureReason.MODEL_ERROR, "cut off at the token limit"),
        ([say("", StopReason.REFUSAL)], FailureReason.MODEL_ERROR, "refused"),
        (
            [ModelError("The key is wrong.", ModelErrorKind.AUTHENTICATION)],
            FailureReason.MODEL_ERROR,
            "The key is wrong.",
        ),
        ([Pause(say("never"))], FailureReason.TIMED_OUT, "time limit of 0.05 s"),
        ([step()] * 3, FailureReason.BUDGET_EXCEEDED, "budget of 3 tool calls"),
    ],
)
@pytest.mark.asyncio
async def test_every_failure_has_a_reason_of_the_closed_set_and_free_detail(
    workspace: Path, lines: list[Line], reason: FailureReason, detail: str
) -> None:
    settings = replace(limited(agent=Budget(tool_calls=3)), agents=AgentSettings(timeout=0.05))
    settings = settings if isinstance(lines[0], Pause) else replace(settings, agents=AgentSettings())
    async with core(workspace, Cast([delegate("try"), say("ok")], {"try": lines}), settings=settings) as c:
        await c.turn()
        (end,) = c.bodies(AgentFinished)
        assert (end.status, end.failure_reason) == (AgentStatus.FAILED, reason)
        assert detail in (end.error or "")
        assert c.told()[0].startswith(f"Sub-agent failed ({reason}): ")


@pytest.mark.requirement("D4")
@pytest.mark.asyncio
async def test_reports_are_for_children_alone_and_the_first_one_ends_the_child(workspace: Path) -> None:
    both = calls([use("submit_result", result="one"), use("submit_error", error="two"), use("glob", pattern="*")])
    cast = Cast([calls([use("submit_result", result="x"), *_uses(delegate("try"))]), say("ok")], {"try": [both]})
    async with core(workspace, cast) as c:
        await c.turn()
        refused, answer = results(c.requests()[-1])
        assert "There is no tool 'submit_result' here" in refused.content
        assert answer.content == "one"
        assert len(c.requests("try")) == 1
