"""Invariants of the state machine in random runs."""

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from deputy_agents.domain.errors import InvalidTransition
from deputy_agents.domain.message import Block, Message, Reply, StopReason, Text, Thinking, ToolUse
from deputy_agents.domain.outcome import Cancelled, CancelReason, Completed, Ending, Failed, FailureReason, Outcome
from deputy_agents.domain.result_style import ResultStyle, Template
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
from deputy_agents.run.state import Cancelling, EffectId, Idle
from deputy_agents.run.transition import TABLE, transition
from tests.support.machine import Pending, World, agent, steps_of_cancel, steps_to_rest, user

pytestmark = pytest.mark.requirement("D2")

WORDS = st.sampled_from(["I look", "here it is", "  padded  "])
TEXTS = st.builds(Text, WORDS | st.sampled_from(["", " \n"]))
THOUGHTS = st.builds(Thinking, WORDS, st.none() | st.just("signed")) | st.just(Thinking("", redacted="opaque"))
TOOLS = st.sampled_from(["look", "peek", "edit", "write", "ask", "ask_all", "submit_result", "submit_error", "unknown"])
TOOL_INPUTS = st.sampled_from([{}, {"result": "found"}, {"error": "lost"}, {"result": " "}, {"result": 3}])
ENDINGS: st.SearchStrategy[Ending] = (
    st.builds(Completed, WORDS)
    | st.builds(Failed, st.sampled_from(FailureReason), WORDS, st.sampled_from(["", "found so far"]))
    | st.builds(Cancelled, st.sampled_from(CancelReason))
)
ANSWERED: dict[type[Pending], tuple[type[Input], ...]] = {
    RequestModel: (ModelReplied, ModelFailed),
    ScheduleRetry: (RetryDue,),
    DecideCalls: (CallsDecided,),
    RequestPermission: (PermissionAnswered,),
    RunTool: (ToolCompleted,),
    StartChildren: (ChildrenStarted, ToolCompleted),
    CheckAnswer: (AnswerChecked,),
}
WITHOUT_CALLS = (RequestModel, ScheduleRetry, CheckAnswer)
"""While these are being cancelled, the state does not record which of them is outstanding."""


@st.composite
def messages(draw: st.DrawFn, world: World) -> Message:
    blocks: list[Block] = draw(st.lists(TEXTS | THOUGHTS, max_size=3))
    for index in range(draw(st.integers(0, 5))):
        use = ToolUse(f"call_{len(world.history)}_{index}", draw(TOOLS), draw(TOOL_INPUTS))
        blocks.insert(draw(st.integers(0, len(blocks))), use)
    return Message("assistant", tuple(blocks))


@st.composite
def failures(draw: st.DrawFn, world: World, effect: EffectId) -> ModelFailed:
    partial = draw(st.none() | messages(world))
    return ModelFailed(effect, "overloaded", "try later", retryable=draw(st.booleans()), partial=partial)


def decisions() -> st.SearchStrategy[CallAllowed | CallDenied]:
    return st.sampled_from([CallAllowed(), CallAllowed({"edited": True}), CallDenied("Denied.")])


@st.composite
def child_starts(draw: st.DrawFn, pending: StartChildren) -> ChildrenStarted:
    ids = tuple(f"{pending.use.id}.{index}" for index in range(draw(st.integers(1, 4))))
    of_one: st.SearchStrategy[ResultStyle] = st.sampled_from(["bare", Template("<{result}>")])
    style = draw(of_one) if len(ids) == 1 and draw(st.booleans()) else "aggregate"
    return ChildrenStarted(pending.id, pending.use.id, ids, style, draw(st.none() | st.just("Started.")))


def natural_answers(world: World, pending: Pending) -> st.SearchStrategy[Input]:
    match pending:
        case RequestModel(id):
            replies = st.builds(Reply, messages(world), st.sampled_from(StopReason))
            return st.builds(ModelReplied, st.just(id), replies) | failures(world, id)
        case ScheduleRetry(id):
            return st.just(RetryDue(id))
        case DecideCalls(id, calls):
            decision: st.SearchStrategy[CallDecision] = decisions() | st.just(CallNeedsApproval())
            decided = st.fixed_dictionaries({use.id: decision for use in calls})
            return st.builds(CallsDecided, st.just(id), decided)
        case RequestPermission(id):
            return st.builds(PermissionAnswered, st.just(id), decisions())
        case RunTool(id):
            return st.builds(ToolCompleted, st.just(id), WORDS, st.booleans())
        case StartChildren(id):
            return child_starts(pending) | st.just(ToolCompleted(id, "The queue is full.", is_error=True))
        case CheckAnswer(id):
            return st.sampled_from([AnswerChecked(id), AnswerChecked(id, "Name places.", "[warning: no places]")])


def inputs_for(effect: EffectId) -> list[Input]:
    """One input of every type that answers an effect."""
    reply = Reply(Message("assistant", (Text("late"),)), StopReason.END_TURN)
    return [
        ModelReplied(effect, reply),
        ModelFailed(effect, "server", "failed"),
        RetryDue(effect),
        CallsDecided(effect, {}),
        PermissionAnswered(effect, CallAllowed()),
        ToolCompleted(effect, "late"),
        ChildrenStarted(effect, "no_such_call", ("a_child",)),
        AnswerChecked(effect),
        Stopped(effect),
    ]


def is_rejected(world: World, input: Input) -> bool:
    try:
        transition(world.state, world.context, input)
    except InvalidTransition:
        return True
    return False


class Runs(RuleBasedStateMachine):
    """One primary or child in any legal course. :class:`World` checks every step, the invariants every state."""

    world: World

    @initialize(
        kind=st.sampled_from(["primary", "child", "checked child"]),
        max_iterations=st.sampled_from([1, 2, 50]),
        attempts=st.integers(1, 3),
    )
    def create(self, kind: str, max_iterations: int, attempts: int) -> None:
        child, check = kind != "primary", kind == "checked child"
        self.world = World(agent(child=child, max_iterations=max_iterations, attempts=attempts, check_answer=check))

    def _startable(self) -> bool:
        return isinstance(self.world.state.phase, Idle) and not (self.world.context.is_child and self.world.turns)

    @precondition(_startable)
    @rule(text=WORDS)
    def prompt(self, text: str) -> None:
        self.world = self.world.after(user(text))

    @precondition(lambda self: self.world.under_way)
    @rule(data=st.data())
    def answer(self, data: st.DataObject) -> None:
        effect = data.draw(st.sampled_from(sorted(self.world.under_way)))
        self.world = self.world.after(data.draw(natural_answers(self.world, self.world.under_way[effect])))

    @precondition(lambda self: self.world.children)
    @rule(data=st.data(), ending=ENDINGS)
    def child_ends(self, data: st.DataObject, ending: Ending) -> None:
        agent_id = data.draw(st.sampled_from(sorted(self.world.children)))
        outcome = SubAgentResult(Outcome(agent_id, ending, "its task"))
        self.world = self.world.after(outcome)
        assert is_rejected(self.world, outcome), "a child ends once"

    @precondition(lambda self: not self.world.state.ended)
    @rule(text=WORDS)
    def background_child_ends(self, text: str) -> None:
        self.world = self.world.after(Notice(text))

    @precondition(lambda self: not self.world.at_rest)
    @rule(text=WORDS)
    def steer(self, text: str) -> None:
        self.world = self.world.after(Steered(text))

    @precondition(lambda self: not self.world.at_rest)
    @rule(reason=st.sampled_from(CancelReason))
    def cancel(self, reason: CancelReason) -> None:
        self.world = self.world.after(UserCancel(reason))

    @precondition(lambda self: isinstance(self.world.state.phase, Cancelling) and self.world.under_way)
    @rule(data=st.data())
    def acknowledge(self, data: st.DataObject) -> None:
        effect = data.draw(st.sampled_from(sorted(self.world.under_way)))
        model = isinstance(self.world.under_way[effect], RequestModel)
        partial = data.draw(st.none() | messages(self.world)) if model else None
        self.world = self.world.after(Stopped(effect, partial))

    @rule(ahead=st.integers(0, 3))
    def an_effect_that_is_not_outstanding_is_rejected(self, ahead: int) -> None:
        """Never used, or answered already."""
        used = [effect for effect in range(self.world.state.next_effect) if effect not in self.world.under_way]
        for effect in [*used, self.world.state.next_effect + ahead]:
            assert all(is_rejected(self.world, input) for input in inputs_for(effect))

    @invariant()
    def only_inputs_of_the_right_type_answer_an_effect(self) -> None:
        cancelling = isinstance(self.world.state.phase, Cancelling)
        for effect, pending in self.world.under_way.items():
            fitting = ANSWERED[type(pending)] + ((Stopped,) if cancelling else ())
            if cancelling and isinstance(pending, WITHOUT_CALLS):
                fitting = (*(input for effect in WITHOUT_CALLS for input in ANSWERED[effect]), Stopped)
            assert all(is_rejected(self.world, input) for input in inputs_for(effect) if not isinstance(input, fitting))

    @invariant()
    def the_result_of_an_unknown_child_is_rejected(self) -> None:
        assert is_rejected(self.world, SubAgentResult(Outcome("stranger", Completed("hello"))))

    @invariant()
    def pairs_that_the_table_omits_are_rejected(self) -> None:
        inputs = [*inputs_for(0), user("go on"), Notice("x"), Steered("x"), UserCancel(CancelReason.USER)]
        phase = type(self.world.state.phase)
        assert all(is_rejected(self.world, input) for input in inputs if type(input) not in TABLE[phase])

    @invariant()
    def it_comes_to_rest_by_itself(self) -> None:
        *_, last = self.world, *steps_to_rest(self.world)
        assert last.at_rest

    @invariant()
    def it_comes_to_rest_when_cancelled(self) -> None:
        for reason in (CancelReason.USER, CancelReason.TIMEOUT):
            *_, last = self.world, *steps_of_cancel(self.world, reason)
            assert last.at_rest
            assert last.state.ended or not last.context.is_child


TestRuns = Runs.TestCase
TestRuns.settings = settings(
    max_examples=100, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
