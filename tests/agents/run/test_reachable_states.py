"""Every course of small runs, exhaustively: each declared target is reached, and no other."""

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import product

import pytest

from deputy_agents.domain.message import Message, Reply, StopReason, Text, ToolUse
from deputy_agents.domain.outcome import CancelReason, Completed, Outcome
from deputy_agents.run.effect import (
    AnswerChecked,
    CallAllowed,
    CallDecision,
    CallDenied,
    CallNeedsApproval,
    CallsDecided,
    CheckAnswer,
    ChildrenStarted,
    DecideCalls,
    Input,
    ModelFailed,
    ModelReplied,
    Notice,
    PermissionAnswered,
    RequestModel,
    RequestPermission,
    RetryDue,
    RunTool,
    ScheduleRetry,
    StartChildren,
    Steered,
    Stopped,
    SubAgentResult,
    ToolCompleted,
    UserCancel,
)
from deputy_agents.run.state import Cancelling, EffectId, Idle, LlmRequesting, Phase
from deputy_agents.run.transition import TABLE
from tests.support.machine import Pending, World, agent, user

ONE_ROUND: Sequence[Sequence[str]] = (
    [],
    ["look", "edit"],
    ["edit", "ask"],
    ["ask_all"],
    ["look", "submit_result"],
    ["submit_error"],
)
TWO_ROUNDS: Sequence[Sequence[str]] = ([], ["edit"], ["ask"])
"""The tools called in a reply. One round covers calls in parallel, two rounds cover the continuation of a run."""
DECISIONS: Sequence[CallDecision] = (CallAllowed(), CallNeedsApproval(), CallDenied("Denied."))


def replies(world: World, effect: EffectId) -> Iterator[Input]:
    for names in ONE_ROUND if world.context.max_iterations == 1 else TWO_ROUNDS:
        uses = [
            ToolUse(f"call_{len(world.history)}_{index}", name, {"result": "found", "error": "lost"})
            for index, name in enumerate(names)
        ]
        message = Message("assistant", (Text("so far"), *uses))
        yield ModelReplied(effect, Reply(message, StopReason.TOOL_USE if uses else StopReason.END_TURN))
    yield ModelReplied(effect, Reply(Message("assistant", ()), StopReason.PAUSE_TURN))
    yield ModelFailed(effect, "overloaded", "try later", retryable=True)
    yield ModelFailed(effect, "authentication", "no")


def answers(world: World, pending: Pending) -> Iterator[Input]:
    match pending:
        case RequestModel(id):
            yield from replies(world, id)
        case ScheduleRetry(id):
            yield RetryDue(id)
        case DecideCalls(id, calls):
            for decisions in product(DECISIONS, repeat=len(calls)):
                yield CallsDecided(id, {use.id: decision for use, decision in zip(calls, decisions, strict=True)})
        case RequestPermission(id):
            yield PermissionAnswered(id, CallAllowed())
            yield PermissionAnswered(id, CallDenied("Denied."))
        case RunTool(id):
            yield ToolCompleted(id, "ok")
        case StartChildren(id, use):
            wanted = (f"{use.id}.1", f"{use.id}.2") if use.name == "ask_all" else (f"{use.id}.1",)
            yield ChildrenStarted(id, use.id, wanted, "aggregate")
            yield ChildrenStarted(id, use.id, wanted, immediate="Started.")
            yield ToolCompleted(id, "The queue is full.", is_error=True)
        case CheckAnswer(id):
            yield AnswerChecked(id)
            yield AnswerChecked(id, "Name places.", "[warning: no places]")


def inputs(world: World) -> Iterator[Input]:
    """Every type of input that is legal in this world, with contents that make a difference."""
    phase = world.state.phase
    for pending in world.under_way.values():
        yield from answers(world, pending)
        if isinstance(phase, Cancelling):
            yield Stopped(pending.id)
    for agent_id in sorted(world.children):
        yield SubAgentResult(Outcome(agent_id, Completed("found")))
    if not world.turns and not world.state.ended:
        yield user("go")
    if not world.at_rest or (world.context.is_child and not world.turns and not world.state.ended):
        yield UserCancel(CancelReason.USER)
    if world.context.is_child and not world.state.ended:
        yield UserCancel(CancelReason.TIMEOUT)
    yield from notes(world)


def notes(world: World) -> Iterator[Input]:
    """At most one; in longer runs only during a model request, which keeps the number of worlds small."""
    phase = world.state.phase
    if world.state.notes or world.state.ended:
        return
    if world.context.max_iterations == 1 or isinstance(phase, LlmRequesting):
        yield Notice("a child has ended")
        if not isinstance(phase, Idle):
            yield Steered("and this")


Step = tuple[type[Phase], type[Input], type[Phase]]


KINDS = ("primary", "child", "checked child")


@cache
def explored(kind: str, rounds: int) -> tuple[frozenset[Step], int]:
    """Every step between distinct worlds, and the number of worlds. :class:`World` checks each step."""
    child, check = kind != "primary", kind == "checked child"
    attempts = 2 if rounds == 1 else 1
    waiting = [World(agent(child=child, max_iterations=rounds, attempts=attempts, check_answer=check))]
    seen = {repr(waiting[0])}
    steps: set[Step] = set()
    while waiting:
        world = waiting.pop()
        for input in inputs(world):
            later = world.after(input)
            steps.add((type(world.state.phase), type(input), type(later.state.phase)))
            if (name := repr(later)) not in seen:
                seen.add(name)
                waiting.append(later)
    return frozenset(steps), len(seen)


def all_steps() -> frozenset[Step]:
    return frozenset(step for kind in KINDS for rounds in (1, 2) for step in explored(kind, rounds)[0])


@pytest.mark.requirement("X13")
@pytest.mark.parametrize("rounds", [1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_from_every_state_each_call_gets_one_result_and_the_history_stays_valid(kind: str, rounds: int) -> None:
    _, worlds = explored(kind, rounds)
    assert worlds > 1000


@pytest.mark.requirement("D1")
def test_the_table_declares_exactly_the_targets_that_are_reached() -> None:
    declared = {
        (phase, input, target) for phase, rows in TABLE.items() for input, row in rows.items() for target in row.targets
    }
    assert all_steps() == declared
