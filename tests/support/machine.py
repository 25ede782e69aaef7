"""A simulated driver around one state machine: it tracks outstanding effects without performing them, and checks every
step.

:class:`World` is a value. ``after(input)`` returns the world one step later, and raises ``AssertionError`` when the
step breaks an invariant of the machine. Callers choose the inputs; :func:`plain_answer` returns the simplest ones.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from deputy_agents.domain.event import CallStatus
from deputy_agents.domain.message import Message, Reply, StopReason, Text, ToolResult
from deputy_agents.domain.outcome import Cancelled, CancelReason, Completed, Outcome
from deputy_agents.run.effect import (
    Abort,
    AnswerChecked,
    AppendMessage,
    CallAllowed,
    CallsDecided,
    CancelSubAgents,
    CheckAnswer,
    ChildrenStarted,
    DecideCalls,
    Effect,
    FinishTurn,
    Input,
    ModelReplied,
    NotifyParent,
    PermissionAnswered,
    ReportCall,
    RequestModel,
    RequestPermission,
    RetryDue,
    RunTool,
    ScheduleRetry,
    StartChildren,
    Stopped,
    SubAgentResult,
    ToolCompleted,
    UserCancel,
    UserPrompt,
)
from deputy_agents.run.handlers.replies import MAX_CORRECTIONS
from deputy_agents.run.state import (
    AwaitingApproval,
    AwaitingSubAgents,
    Call,
    CallKind,
    Cancelling,
    Checking,
    Children,
    Context,
    Done,
    EffectId,
    Idle,
    LlmRequesting,
    NotStarted,
    Phase,
    RetryWaiting,
    Running,
    State,
    ToolExecuting,
)
from deputy_agents.run.transition import transition
from tests.support.history_rules import broken_history_rules

Pending: TypeAlias = (
    RequestModel | ScheduleRetry | DecideCalls | RequestPermission | RunTool | StartChildren | CheckAnswer
)
"""An outstanding effect."""
Answer: TypeAlias = (
    ModelReplied
    | RetryDue
    | CallsDecided
    | PermissionAnswered
    | ToolCompleted
    | ChildrenStarted
    | AnswerChecked
    | Stopped
)

DELEGATION_TOOLS = frozenset({"ask", "ask_all"})
CONCURRENT_TOOLS = frozenset({"look", "peek"})
REPORTS = frozenset({"submit_result", "submit_error"})


def agent(*, child: bool = False, max_iterations: int = 50, attempts: int = 8, check_answer: bool = False) -> Context:
    """An agent with two delegation tools and two concurrent tools. All other tools are exclusive."""
    tools = DELEGATION_TOOLS | CONCURRENT_TOOLS | {"edit", "write"} | (REPORTS if child else frozenset[str]())
    return Context(child, DELEGATION_TOOLS, CONCURRENT_TOOLS, max_iterations, attempts, check_answer, tools)


def user(text: str) -> UserPrompt:
    return UserPrompt(Message("user", (Text(text),)), text)


@dataclass(frozen=True, slots=True)
class World:
    """``under_way`` are the outstanding effects, ``children`` the children that calls wait for, ``cancelled`` the
    children that were cancelled, ``results`` the reported results of the calls of the last reply."""

    context: Context = field(default_factory=agent)
    state: State = field(default_factory=State)
    under_way: Mapping[EffectId, Pending] = field(default_factory=dict[EffectId, Pending])
    children: frozenset[str] = frozenset()
    cancelled: frozenset[str] = frozenset()
    history: tuple[Message, ...] = ()
    results: Mapping[str, str] = field(default_factory=dict[str, str])
    turns: int = 0
    ends: int = 0
    effects: tuple[Effect, ...] = field(default=(), repr=False)
    """The effects of the last step."""

    @property
    def at_rest(self) -> bool:
        """Nothing is outstanding: the primary waits for a prompt, or the run has ended."""
        return isinstance(self.state.phase, Idle) or self.state.ended

    def after(self, input: Input) -> "World":
        state, effects = transition(self.state, self.context, input)
        _check_calls(self.state.phase, state.phase)
        later = self._answered(input)
        _check_ids(self.state, state, effects)
        _check_answer(self, state)
        for effect in effects:
            later = later._performed(effect)
        later = replace(later, state=state, effects=effects)
        _check_cancel(later, input, effects, self.state.phase)
        _check_state(later)
        return later

    def _answered(self, input: Input) -> "World":
        match input:
            case UserPrompt():
                return replace(self, turns=self.turns + 1)
            case SubAgentResult(outcome):
                assert outcome.agent_id in self.children
                return replace(self, children=self.children - {outcome.agent_id})
            case _ if (effect := getattr(input, "effect", None)) is not None:
                assert effect in self.under_way
                left = {id: pending for id, pending in self.under_way.items() if id != effect}
                opened = isinstance(input, ChildrenStarted) and input.immediate is None
                born = input.agent_ids if isinstance(input, ChildrenStarted) and opened else ()
                return replace(self, under_way=left, children=self.children.union(born))
            case _:
                return self

    def _performed(self, effect: Effect) -> "World":
        match effect:
            case AppendMessage(message):
                return self._appended(message)
            case ReportCall(use, _, str(content)):
                assert use.id not in self.results, "a call has exactly one result"
                return replace(self, results={**self.results, use.id: content})
            case ReportCall(_, status):
                assert status is CallStatus.IN_PROGRESS
                return self
            case CancelSubAgents(ids):
                return replace(self, cancelled=self.cancelled.union(ids))
            case Abort():
                return self
            case FinishTurn() | NotifyParent():
                assert isinstance(effect, NotifyParent) == self.context.is_child
                return replace(self, ends=self.ends + 1)
            case _:
                if isinstance(effect, RequestModel):
                    assert broken_history_rules(self.history) == []
                return replace(self, under_way={**self.under_way, effect.id: effect})

    def _appended(self, message: Message) -> "World":
        results = [block for block in message.content if isinstance(block, ToolResult)]
        if not results:
            return replace(self, history=(*self.history, message))
        assert {result.tool_use_id: result.content for result in results} == self.results, (
            "the model gets the published results"
        )
        return replace(self, history=(*self.history, message), results={})


# -- invariants --------------------------------------------------------------------------------------------------


def calls_of(phase: Phase) -> tuple[Call, ...]:
    return phase.calls if isinstance(phase, ToolExecuting | AwaitingSubAgents | Cancelling) else ()


def _check_ids(before: State, after: State, effects: tuple[Effect, ...]) -> None:
    """Every id is used once, in order."""
    given = [id for effect in effects if (id := getattr(effect, "id", None)) is not None]
    assert given == list(range(before.next_effect, after.next_effect))


def _check_calls(before: Phase, after: Phase) -> None:
    """No child is lost, children only move from pending to completed, and a finished call never changes."""
    earlier = {call.use.id: call.progress for call in calls_of(before)}
    for call in calls_of(after):
        was, now = earlier.get(call.use.id), call.progress
        if isinstance(now, Children):
            ended = tuple(outcome.agent_id for outcome in now.completed)
            assert len(now.pending) + len(ended) == len(now.order)
            assert {*now.pending, *ended} == {*now.order}
            assert now.pending, "a delegation call without pending children is done"
        if isinstance(was, Children) and isinstance(now, Children):
            assert now.order == was.order
            assert {*now.pending} <= {*was.pending}
            assert now.completed[: len(was.completed)] == was.completed
        if isinstance(was, Done):
            assert now == was


def _check_answer(before: World, after: State) -> None:
    """A child completes only after the check, if its context requires one, and after a limited number of
    corrections."""
    checked = before.context.check_answer
    if isinstance(after.phase, Completed):
        assert isinstance(before.state.phase, Checking) == checked
    if isinstance(after.phase, Checking):
        assert checked
        assert after.last_text
    assert after.corrections <= MAX_CORRECTIONS


def _check_cancel(world: World, input: Input, effects: tuple[Effect, ...], before: Phase) -> None:
    """The first cancel aborts exactly the outstanding effects. Nothing else aborts, except for late children."""
    aborted = [effect.ids for effect in effects if isinstance(effect, Abort)]
    first = isinstance(input, UserCancel) and not isinstance(before, Idle | Cancelling)
    assert aborted == ([frozenset(world.under_way)] if first and world.under_way else [])
    if isinstance(world.state.phase, Cancelling):
        assert world.children <= world.cancelled
    else:
        assert not any(isinstance(effect, CancelSubAgents) for effect in effects)


_NEXT = Message("user", (Text("go on"),))


def _check_state(world: World) -> None:
    phase = world.state.phase
    assert _outstanding(phase) == (frozenset(world.under_way), world.children), (
        "the state lists exactly the outstanding effects and children"
    )
    assert world.at_rest == (not world.under_way and not world.children), (
        "the machine rests exactly when nothing is outstanding"
    )
    running = not world.at_rest
    assert world.turns - world.ends == (1 if running else 0) or _never_started(world)
    if world.at_rest:
        assert world.results == {}
        # It is sent with a further message; rules for the last message apply to that one.
        assert not world.history or broken_history_rules((*world.history, _NEXT)) == []
    calls = calls_of(phase)
    open_calls = [call for call in calls if call.open]
    if isinstance(phase, ToolExecuting):
        assert any(not isinstance(call.progress, Children) for call in open_calls)
    if isinstance(phase, AwaitingSubAgents):
        assert all(isinstance(call.progress, Children) for call in open_calls)
    if isinstance(phase, ToolExecuting) and phase.deciding is None:
        _check_order(calls)


def _never_started(world: World) -> bool:
    """Whether a child ended before its first message."""
    return world.state.ended and world.turns == 0 and world.ends == 1


def _outstanding(phase: Phase) -> tuple[frozenset[EffectId], frozenset[str]]:
    """The outstanding effects and children, according to the state."""
    calls = calls_of(phase)
    children = frozenset(id for call in calls if isinstance(call.progress, Children) for id in call.progress.pending)
    match phase:
        case LlmRequesting(effect=effect) | RetryWaiting(effect=effect) | Checking(effect=effect):
            return frozenset({effect}), children
        case ToolExecuting(deciding=int(effect)):
            return frozenset({effect}), children
        case Cancelling(outstanding=outstanding):
            return outstanding, children
        case _:
            return frozenset(
                call.progress.effect for call in calls if isinstance(call.progress, AwaitingApproval | Running)
            ), children


def _check_order(calls: tuple[Call, ...]) -> None:
    """Exactly the calls run that no earlier call blocks."""
    before: list[Call] = []
    for call in calls:
        blocking = [other for other in before if call.kind is CallKind.EXCLUSIVE or other.kind is CallKind.EXCLUSIVE]
        free = call.kind is CallKind.DELEGATION or not blocking
        match call.progress:
            case Running():
                assert free
            case NotStarted(ready):
                assert ready
                assert not free
            case _:
                pass
        if call.open and call.kind is not CallKind.DELEGATION:
            before.append(call)


# -- the simplest course -----------------------------------------------------------------------------------------


def plain_answer(effect: Pending) -> Answer:
    match effect:
        case RequestModel(id):
            return ModelReplied(id, Reply(Message("assistant", (Text("done"),)), StopReason.END_TURN))
        case ScheduleRetry(id):
            return RetryDue(id)
        case DecideCalls(id, calls):
            return CallsDecided(id, {use.id: CallAllowed() for use in calls})
        case RequestPermission(id):
            return PermissionAnswered(id, CallAllowed())
        case RunTool(id):
            return ToolCompleted(id, "ok")
        case StartChildren(id, use):
            return ChildrenStarted(id, use.id, (f"{use.id}.child",))
        case CheckAnswer(id):
            return AnswerChecked(id)


def steps_to_rest(world: World) -> Iterator[World]:
    """Everything outstanding succeeds, and the model makes no further call."""
    while not world.at_rest:
        if world.under_way:
            world = world.after(plain_answer(world.under_way[min(world.under_way)]))
        else:
            world = world.after(SubAgentResult(Outcome(min(world.children), Completed("found"))))
        yield world


def steps_of_cancel(world: World, reason: CancelReason) -> Iterator[World]:
    """Everything outstanding is cancelled and acknowledged."""
    if world.at_rest and not (world.context.is_child and isinstance(world.state.phase, Idle)):
        return
    world = world.after(UserCancel(reason))
    yield world
    while not world.at_rest:
        if world.under_way:
            world = world.after(Stopped(min(world.under_way)))
        else:
            world = world.after(SubAgentResult(Outcome(min(world.children), Cancelled(CancelReason.PARENT))))
        yield world
