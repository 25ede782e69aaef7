"""The state machine of an agent, as a table and a pure function: ``(state, input) -> (state, effects)``.

- ``TABLE`` lists every legal pair of phase and input, with its handler and the phases that the handler may return. Any
  other pair, and any other returned phase, raises :class:`InvalidTransition`. No input is ignored silently.
- An input that answers an effect carries the id of that effect, and is legal only while the effect is outstanding.
- The primary agent and its sub-agents use the same table. A turn of the primary ends in ``Idle``; the run of a
  sub-agent ends in ``Completed``, ``Failed`` or ``Cancelled``, which accept no further input.
- Each tool call of a reply gets exactly one result; the results of one reply go into the history together.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from deputy_agents.domain.errors import InvalidTransition
from deputy_agents.domain.outcome import Cancelled, Completed, Failed
from deputy_agents.run.effect import (
    AnswerChecked,
    CallsDecided,
    ChildrenStarted,
    Effect,
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
    UserPrompt,
)
from deputy_agents.run.handlers import cancelling
from deputy_agents.run.handlers.calls import (
    calls_decided,
    child_ended,
    children_started,
    permission_answered,
    tool_completed,
)
from deputy_agents.run.handlers.draft import Draft
from deputy_agents.run.handlers.replies import (
    add_notice,
    add_steering,
    answer_checked,
    model_failed,
    model_replied,
    retry_due,
    start_run,
)
from deputy_agents.run.state import (
    AwaitingSubAgents,
    Cancelling,
    Checking,
    Context,
    Idle,
    LlmRequesting,
    Phase,
    RetryWaiting,
    State,
    ToolExecuting,
)

Handler: TypeAlias = Callable[[Draft, Any, Any], Phase]
Step: TypeAlias = tuple[State, tuple[Effect, ...]]


class Row:
    """The handler of one pair of phase and input, and every phase that it may return."""

    __slots__ = ("handler", "targets")

    def __init__(self, handler: Handler, *targets: type[Phase]) -> None:
        self.handler = handler
        self.targets = targets


Table: TypeAlias = Mapping[type[Phase], Mapping[type[Input], Row]]

# fmt: off
TABLE: Table = {
    Idle: {
        UserPrompt:         Row(start_run, LlmRequesting),
        Notice:             Row(add_notice, Idle),
        UserCancel:         Row(cancelling.cancel_unstarted, Cancelled, Failed),
    },
    LlmRequesting: {
        ModelReplied:       Row(model_replied, ToolExecuting, LlmRequesting, Checking, Idle, Completed, Failed),
        ModelFailed:        Row(model_failed, RetryWaiting, Idle, Failed),
        Notice:             Row(add_notice, LlmRequesting),
        Steered:            Row(add_steering, LlmRequesting),
        UserCancel:         Row(cancelling.cancel_request, Cancelling),
    },
    RetryWaiting: {
        RetryDue:           Row(retry_due, LlmRequesting),
        Notice:             Row(add_notice, RetryWaiting),
        Steered:            Row(add_steering, RetryWaiting),
        UserCancel:         Row(cancelling.cancel_request, Cancelling),
    },
    Checking: {
        AnswerChecked:      Row(answer_checked, LlmRequesting, Completed),
        Notice:             Row(add_notice, Checking),
        Steered:            Row(add_steering, Checking),
        UserCancel:         Row(cancelling.cancel_request, Cancelling),
    },
    ToolExecuting: {
        CallsDecided:       Row(calls_decided, ToolExecuting, LlmRequesting, Idle, Failed),
        PermissionAnswered: Row(permission_answered, ToolExecuting, AwaitingSubAgents, LlmRequesting, Idle, Failed),
        ToolCompleted:      Row(tool_completed, ToolExecuting, AwaitingSubAgents, LlmRequesting, Idle, Failed),
        ChildrenStarted:    Row(children_started, ToolExecuting, AwaitingSubAgents, LlmRequesting, Idle, Failed),
        SubAgentResult:     Row(child_ended, ToolExecuting),
        Notice:             Row(add_notice, ToolExecuting),
        Steered:            Row(add_steering, ToolExecuting),
        UserCancel:         Row(cancelling.cancel_calls, Cancelling),
    },
    AwaitingSubAgents: {
        SubAgentResult:     Row(child_ended, AwaitingSubAgents, LlmRequesting, Idle, Failed),
        Notice:             Row(add_notice, AwaitingSubAgents),
        Steered:            Row(add_steering, AwaitingSubAgents),
        UserCancel:         Row(cancelling.cancel_calls, Cancelling),
    },
    Cancelling: {
        Stopped:            Row(cancelling.stopped, Cancelling, Idle, Cancelled, Failed),
        ModelReplied:       Row(cancelling.model_replied, Idle, Cancelled, Failed),
        ModelFailed:        Row(cancelling.model_failed, Idle, Cancelled, Failed),
        RetryDue:           Row(cancelling.retry_due, Idle, Cancelled, Failed),
        AnswerChecked:      Row(cancelling.answer_checked, Cancelled, Failed),
        CallsDecided:       Row(cancelling.calls_decided, Idle, Cancelled, Failed),
        PermissionAnswered: Row(cancelling.permission_answered, Cancelling, Idle, Cancelled, Failed),
        ToolCompleted:      Row(cancelling.tool_completed, Cancelling, Idle, Cancelled, Failed),
        ChildrenStarted:    Row(cancelling.children_started, Cancelling, Idle, Cancelled, Failed),
        SubAgentResult:     Row(cancelling.child_ended, Cancelling, Idle, Cancelled, Failed),
        Notice:             Row(add_notice, Cancelling),
        Steered:            Row(add_steering, Cancelling),
        UserCancel:         Row(cancelling.cancel_again, Cancelling),
    },
    Completed: {},
    Failed: {},
    Cancelled: {},
}
# fmt: on


def transition(state: State, context: Context, input: Input) -> Step:
    """Returns the next state and the effects to perform; ``state`` itself is never changed.

    Raises:
        InvalidTransition: ``input`` is illegal in ``state``.
    """
    row = TABLE[type(state.phase)].get(type(input))
    if row is None:
        raise InvalidTransition(f"{type(input).__name__} is illegal in {type(state.phase).__name__}")
    draft = Draft(state, context)
    phase = row.handler(draft, state.phase, input)
    if not isinstance(phase, row.targets):
        raise InvalidTransition(f"{type(phase).__name__} is not a declared target of this row")
    return replace(draft.state, phase=phase), tuple(draft.effects)
