"""Short functions for the steps of a run, for tests of single scenarios.

A call is named by its tool and a number, such as ``look1`` or ``ask2``. The name is the id of the call; without the
number it is the name of the tool.
"""

from collections.abc import Mapping

from deputy_agents.domain.message import Block, Message, Reply, StopReason, Text, ToolResult, ToolUse
from deputy_agents.domain.outcome import CancelReason, Completed, Ending, LimitReached, Outcome
from deputy_agents.domain.result_style import ResultStyle
from deputy_agents.run.effect import (
    AnswerChecked,
    CallAllowed,
    CallDecision,
    CallDenied,
    CallsDecided,
    ChildrenStarted,
    DecideCalls,
    ModelFailed,
    ModelReplied,
    PermissionAnswered,
    RequestPermission,
    RunTool,
    StartChildren,
    Stopped,
    SubAgentResult,
    ToolCompleted,
    UserCancel,
)
from deputy_agents.run.state import EffectId, Progress
from tests.support.machine import World, agent, calls_of, user

FOUND = Completed("found")


def primary(*, max_iterations: int = 50, attempts: int = 8) -> World:
    """A primary with its first model request under way."""
    return World(agent(max_iterations=max_iterations, attempts=attempts)).after(user("go"))


def child(*, max_iterations: int = 50, check_answer: bool = False) -> World:
    """A child with its first model request under way."""
    context = agent(child=True, max_iterations=max_iterations, check_answer=check_answer)
    return World(context).after(user("go"))


def use(call: str, **input: object) -> ToolUse:
    return ToolUse(call, call.rstrip("0123456789"), input)


def reply(*blocks: Block | str, stop: StopReason = StopReason.END_TURN) -> Reply:
    return Reply(assistant(*blocks), stop)


def assistant(*blocks: Block | str) -> Message:
    return Message("assistant", tuple(Text(block) if isinstance(block, str) else block for block in blocks))


def replies(world: World, *blocks: Block | str, stop: StopReason = StopReason.END_TURN) -> World:
    return world.after(ModelReplied(only(world), reply(*blocks, stop=stop)))


def fails(world: World, *, retryable: bool = False, partial: Message | None = None) -> World:
    return world.after(ModelFailed(only(world), "server", "it broke", retryable=retryable, partial=partial))


def only(world: World) -> EffectId:
    """The only outstanding effect."""
    (effect,) = world.under_way
    return effect


def effect_for(world: World, call: str) -> EffectId:
    """The outstanding effect of one call."""
    return next(
        effect.id
        for effect in world.under_way.values()
        if isinstance(effect, RequestPermission | RunTool | StartChildren) and effect.use.id == call
    )


def calling(world: World, *calls: str, **decisions: CallDecision) -> World:
    """The model makes calls, and the gate allows those without another decision."""
    world = replies(world, *(use(call) for call in calls), stop=StopReason.TOOL_USE)
    return decided(world, **decisions)


def decided(world: World, **decisions: CallDecision) -> World:
    gate = world.under_way[only(world)]
    assert isinstance(gate, DecideCalls)
    every: Mapping[str, CallDecision] = {call.id: decisions.get(call.id, CallAllowed()) for call in gate.calls}
    return world.after(CallsDecided(gate.id, every))


def answered(world: World, call: str, decision: CallAllowed | CallDenied) -> World:
    return world.after(PermissionAnswered(effect_for(world, call), decision))


def completed(world: World, call: str, content: str = "ok", *, is_error: bool = False) -> World:
    return world.after(ToolCompleted(effect_for(world, call), content, is_error))


def checked(world: World, correction: str = "", warning: str = "") -> World:
    """The check of an answer ends; without a correction, the answer is valid."""
    return world.after(AnswerChecked(only(world), correction, warning))


def delegated(world: World, call: str, *agent_ids: str, style: ResultStyle = "bare") -> World:
    return world.after(ChildrenStarted(effect_for(world, call), call, agent_ids, style))


def ends(world: World, agent_id: str, ending: Ending = FOUND) -> World:
    return world.after(SubAgentResult(Outcome(agent_id, ending, "its task")))


def cancelled(world: World, reason: CancelReason = CancelReason.USER, limit: LimitReached | None = None) -> World:
    return world.after(UserCancel(reason, limit))


def stopped(world: World, effect: EffectId, partial: Message | None = None) -> World:
    return world.after(Stopped(effect, partial))


def progress(world: World, call: str) -> Progress:
    return next(each.progress for each in calls_of(world.state.phase) if each.use.id == call)


def results(world: World) -> dict[str, str]:
    """The tool results in the last message, in order."""
    return {block.tool_use_id: block.content for block in world.history[-1].content if isinstance(block, ToolResult)}


def started(world: World) -> list[str]:
    """The calls that the last step started, in order."""
    return [effect.use.id for effect in world.effects if isinstance(effect, RunTool | StartChildren)]
