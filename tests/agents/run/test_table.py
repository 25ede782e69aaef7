"""The table of the state machine: its pairs, handlers and terminal phases."""

import inspect
import itertools
from collections.abc import Iterator
from types import ModuleType
from typing import get_args, get_type_hints

import pytest

from deputy_agents.domain.errors import InvalidTransition
from deputy_agents.domain.outcome import Cancelled, CancelReason, Completed, Failed, FailureReason, Outcome
from deputy_agents.run.effect import (
    AnswerChecked,
    CallAllowed,
    CallsDecided,
    ChildrenStarted,
    Input,
    ModelFailed,
    ModelReplied,
    Notice,
    PermissionAnswered,
    RetryDue,
    Steered,
    Stopped,
    SubAgentResult,
    ToolCompleted,
    UserCancel,
)
from deputy_agents.run.handlers import calls, cancelling, replies
from deputy_agents.run.state import (
    AwaitingSubAgents,
    Call,
    CallKind,
    Cancelling,
    Checking,
    Children,
    Idle,
    LlmRequesting,
    Phase,
    RetryWaiting,
    State,
    ToolExecuting,
)
from deputy_agents.run.transition import TABLE, Handler, transition
from tests.support.machine import agent, user
from tests.support.steps import reply, use

CALL = Call(use("ask1"), CallKind.DELEGATION, Children(("a",), ("a",)))
PHASES: tuple[Phase, ...] = (
    Idle(),
    LlmRequesting(1, 1),
    RetryWaiting(2, 1),
    Checking(1),
    ToolExecuting((CALL,), 1),
    AwaitingSubAgents((CALL,)),
    Cancelling(CancelReason.USER, None, frozenset({1}), (CALL,)),
    Completed("found"),
    Failed(FailureReason.UNKNOWN, "lost"),
    Cancelled(CancelReason.USER),
)
INPUTS: tuple[Input, ...] = (
    user("go"),
    ModelReplied(1, reply("hello")),
    ModelFailed(1, "server", "it broke"),
    RetryDue(1),
    CallsDecided(1, {}),
    PermissionAnswered(1, CallAllowed()),
    ToolCompleted(1, "ok"),
    ChildrenStarted(1, "ask1", ("a",)),
    SubAgentResult(Outcome("a", Completed("found"))),
    AnswerChecked(1),
    Notice("a child has ended"),
    Steered("and this"),
    UserCancel(CancelReason.USER),
    Stopped(1),
)
ALWAYS = {Notice, Steered, UserCancel}
LEGAL: dict[type[Phase], set[type[Input]]] = {
    Idle: {type(user("")), Notice, UserCancel},
    LlmRequesting: {ModelReplied, ModelFailed, *ALWAYS},
    RetryWaiting: {RetryDue, *ALWAYS},
    Checking: {AnswerChecked, *ALWAYS},
    ToolExecuting: {CallsDecided, PermissionAnswered, ToolCompleted, ChildrenStarted, SubAgentResult, *ALWAYS},
    AwaitingSubAgents: {SubAgentResult, *ALWAYS},
    Cancelling: {type(input) for input in INPUTS} - {type(user(""))},
}


@pytest.mark.requirement("D1")
def test_the_table_lists_exactly_the_legal_pairs_of_phase_and_input() -> None:
    assert {phase: set(rows) for phase, rows in TABLE.items() if rows} == LEGAL
    assert set(TABLE) == set(get_args(Phase))


def test_every_row_has_a_handler_for_its_phase_and_input_and_every_handler_has_a_row() -> None:
    for phase, rows in TABLE.items():
        for input, row in rows.items():
            _, accepted, wanted, _ = get_type_hints(row.handler).values()
            assert phase in (get_args(accepted) or (accepted,))
            assert wanted is input
    used = {row.handler for rows in TABLE.values() for row in rows.values()}
    assert used == {handler for module in (calls, cancelling, replies) for handler in handlers_of(module)}


def handlers_of(module: ModuleType) -> Iterator[Handler]:
    """The functions of ``module`` that take an input and return a phase."""
    for _, function in inspect.getmembers(module, inspect.isfunction):
        if function.__module__ == module.__name__:
            *_, input, result = get_type_hints(function).values()
            if input in get_args(Input) and result == Phase:
                yield function


@pytest.mark.requirement("D2")
@pytest.mark.parametrize("is_child", [False, True], ids=["primary", "child"])
def test_every_other_pair_is_rejected(is_child: bool) -> None:
    for phase, input in itertools.product(PHASES, INPUTS):
        if type(input) not in LEGAL.get(type(phase), set()):
            with pytest.raises(InvalidTransition, match=f"{type(input).__name__} is illegal in {type(phase).__name__}"):
                transition(State(phase), agent(child=is_child), input)


@pytest.mark.requirement("D2")
def test_the_endings_accept_nothing() -> None:
    assert [TABLE[ending] for ending in (Completed, Failed, Cancelled)] == [{}, {}, {}]
