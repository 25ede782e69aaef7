"""Performs the effects of one agent's machine and feeds the results back as inputs.

The driver holds no rules: ``transition`` alone decides what happens next. Every effect under way has a cancel scope and
is answered once; an answer to an effect that is no longer outstanding is logged and dropped, so that a late duplicate
never reaches the machine. Effects are tasks of the session: one that cannot be stopped (a thread blocked in the
operating system) delays only its own end.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import cast

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup

from deputy_agents.domain.errors import DeputyError, InvalidTransition
from deputy_agents.domain.event import MessageAdded
from deputy_agents.domain.hook import When
from deputy_agents.domain.ids import new_id
from deputy_agents.domain.message import Block, Image, Message, ToolUse
from deputy_agents.domain.outcome import Ending, Failed, FailureReason, LimitReached
from deputy_agents.editor import mention, references
from deputy_agents.editor.completion import Completions, complete
from deputy_agents.guidance.items import SlashCommand
from deputy_agents.permission.open_requests import is_stray_cancel
from deputy_agents.ports.store import HistoryRecord, NotesRecord
from deputy_agents.run.agent import Agent
from deputy_agents.run.answer_check import check_references
from deputy_agents.run.conversation import Conversation
from deputy_agents.run.deadline import Deadline
from deputy_agents.run.effect import (
    Abort,
    AnswerChecked,
    AppendMessage,
    CallDenied,
    CallsDecided,
    CancelSubAgents,
    CheckAnswer,
    ChildrenStarted,
    DecideCalls,
    Effect,
    FinishTurn,
    Input,
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
    ToolCompleted,
    UserPrompt,
)
from deputy_agents.run.gate import Cleared, Gate
from deputy_agents.run.hook_runner import HookRunner
from deputy_agents.run.host import AgentTree, Host, PrimaryTurns, emit
from deputy_agents.run.model_requests import ModelRequests
from deputy_agents.run.result import bounded_results
from deputy_agents.run.slots import Slot
from deputy_agents.run.state import (
    AwaitingApproval,
    AwaitingSubAgents,
    Cancelling,
    EffectId,
    Note,
    Running,
    State,
    ToolExecuting,
)
from deputy_agents.run.tool_calls import ToolCalls
from deputy_agents.run.transition import transition
from deputy_agents.tool.base import Tool, ToolOutput
from deputy_agents.tool.delegate import DelegationTool

logger = logging.getLogger(__name__)

_Broken = Callable[[EffectId], Input]
"""The answer to an effect that an internal error broke."""


class Driver:
    """Runs one agent. ``slot`` and ``deadline`` bound a sub-agent; the primary has neither."""

    def __init__(
        self,
        agent: Agent,
        host: Host,
        tree: AgentTree,
        tasks: TaskGroup,
        slot: Slot | None = None,
        deadline: Deadline | None = None,
    ) -> None:
        self.agent = agent
        self.state = State()
        self.turns: PrimaryTurns | None = None
        """Who runs the turns, of a primary."""
        self._host = host
        self._tree = tree
        self._tasks = tasks
        self._slot = slot
        self._deadline = deadline
        self._requests = ModelRequests(agent, host, tree, self._hold_slot)
        hooks = HookRunner(agent, host, self._stop_by_hook)
        self._calls = ToolCalls(
            agent, host, self._requests.search_web, hooks, self._waits_for_user, self._run_notification_hooks
        )
        self._gate = Gate(agent, host, self._calls, hooks, self._run_notification_hooks)
        self._inputs: deque[Input] = deque()
        self._feeding = False
        self._open: dict[EffectId, tuple[anyio.CancelScope, str]] = {}
        """Scope and tool call, if any, of each effect under way."""
        self._ended: asyncio.Future[Ending] = asyncio.get_running_loop().create_future()
        self._ended.add_done_callback(lambda ended: ended.exception())  # an error may come when nothing waits for it

    @property
    def conversation(self) -> Conversation:
        """What its model receives."""
        return self._requests.conversation

    @property
    def ended(self) -> bool:
        return self._ended.done()

    @property
    def stopping(self) -> bool:
        """Whether it has ended or is about to: nothing new may start below it."""
        return self._ended.done() or self.state.ended or isinstance(self.state.phase, Cancelling)

    async def run(self, prepare: Callable[[], Awaitable[UserPrompt]] | None = None) -> Ending:
        """Runs until the machine has ended, which the primary's never does. What ``prepare`` returns is fed once the
        slot may run.

        Raises:
            Exception: an internal error broke the primary; that of a sub-agent is its ending.
        """
        preparing = anyio.CancelScope()
        try:
            if prepare is not None:
                self._tasks.start_soon(self._begin, prepare, preparing)
            # Shared with nobody, but a cancelled wait must leave the future to `_finish`.
            return await asyncio.shield(self._ended)
        finally:
            preparing.cancel()
            if self._deadline is not None:
                self._deadline.pause()

    def feed(self, input: Input) -> None:
        """Gives the machine its next input, now or after those that are being handled. Never raises."""
        self._inputs.append(input)
        if self._feeding:
            return
        self._feeding = True
        try:
            while self._inputs:
                self._step(self._inputs.popleft())
        except Exception as error:
            logger.exception("agent %s failed with an internal error", self.agent.id)
            self._break_down(error)
        finally:
            self._feeding = False

    def take_notes(self) -> None:
        """Passes the messages of the user that the model had not received before a restart to the next request."""
        self.state = replace(self.state, notes=tuple(Note(text, shown=True) for text in self.agent.notes))
        self.agent.notes = ()

    async def attachments(self, text: str) -> tuple[Block, ...]:
        """What ``text`` mentions, read as this agent may read it."""
        return await mention.attachments(text, self._calls.context(), self._calls.allows)

    async def complete(self, text: str, commands: Mapping[str, SlashCommand]) -> Completions:
        """How ``text``, the beginning of a prompt, can continue."""
        return await complete(text, commands, self._calls.context(), self._tasks)

    def force(self) -> None:
        """Stops waiting for aborted effects that do not end: each counts as stopped."""
        for effect in tuple(self._open):
            logger.warning("agent %s: effect %d did not stop in time", self.agent.id, effect)
            self.feed(Stopped(effect))

    async def _begin(self, prepare: Callable[[], Awaitable[UserPrompt]], scope: anyio.CancelScope) -> None:
        with scope:
            first = await prepare()
            await self._hold_slot()
            if not self._ended.done():
                self.feed(first)

    def _break_down(self, error: Exception) -> None:
        """Ends this agent alone after an internal error; the primary's ends its session."""
        for scope, _ in self._open.values():
            scope.cancel()
        self._open.clear()
        self._inputs.clear()
        if self._ended.done():
            return
        if self.agent.is_child:
            ending = Failed(FailureReason.RUNTIME_ERROR, "an internal error ended it", self.state.last_text)
            self._ended.set_result(ending)
        else:
            # A future cannot hold StopIteration.
            self._ended.set_exception(RuntimeError(repr(error)) if isinstance(error, StopIteration) else error)

    # -- the machine -----------------------------------------------------------------------------------------------

    def _step(self, input: Input) -> None:
        effect: EffectId | None = getattr(input, "effect", None)
        if self._ended.done() or (effect is not None and self._open.pop(effect, None) is None):
            logger.warning("agent %s: %s of effect %s came late", self.agent.id, type(input).__name__, effect)
            return
        notes = self.state.notes
        try:
            self.state, effects = transition(self.state, self.agent.context, input)
        except InvalidTransition as error:
            if effect is not None:
                raise
            logger.warning("agent %s: %s", self.agent.id, error)
            return
        if (waiting := _of_user(self.state.notes)) != _of_user(notes):
            self._host.log.add_record(NotesRecord(self.agent.id, waiting))
        for wanted in effects:
            self._perform(wanted)
        self._update_clock()

    def _perform(self, effect: Effect) -> None:  # noqa: C901 (one arm for each effect)
        match effect:
            case AppendMessage(message, shown):
                self._append(message, shown)
            case RequestModel():
                self._start(effect.id, lambda: self._requests.send(effect), self._requests.broken)
            case ScheduleRetry():
                self._start(effect.id, lambda: self._requests.wait_to_retry(effect), RetryDue)
            case DecideCalls():
                self._start(effect.id, lambda: self._decide(effect), _gate_broken(effect))
            case RequestPermission():
                self._start(effect.id, lambda: self._ask(effect), _request_broken)
            case RunTool():
                self._start(effect.id, lambda: self._run_tool(effect), _tool_broken, effect.use.id)
            case StartChildren():
                self._start(effect.id, lambda: self._start_children(effect), _tool_broken)
            case CheckAnswer():
                self._start(effect.id, lambda: self._check(effect), AnswerChecked)
            case Abort(ids):
                for scope, _ in [self._open[effect_id] for effect_id in ids if effect_id in self._open]:
                    scope.cancel()
            case CancelSubAgents(ids, reason):
                self._tree.cancel_children(ids, reason)
            case ReportCall():
                self._calls.report(effect)
            case FinishTurn():
                if self.turns is not None:
                    self.turns.finished(effect)
            case NotifyParent(ending):
                self._ended.set_result(ending)

    def _start(
        self, effect: EffectId, work: Callable[[], Awaitable[Input]], broken: _Broken, call_id: str = ""
    ) -> None:
        scope = anyio.CancelScope()
        self._open[effect] = scope, call_id
        self._tasks.start_soon(self._carry_out, effect, scope, call_id, work, broken)

    async def _carry_out(
        self,
        effect: EffectId,
        scope: anyio.CancelScope,
        call_id: str,
        work: Callable[[], Awaitable[Input]],
        broken: _Broken,
    ) -> None:
        input: Input | None = None
        with scope:
            try:
                await anyio.lowlevel.checkpoint_if_cancelled()  # one that is stopped before its start does nothing
                input = await work()
            except (Exception, asyncio.CancelledError) as error:
                if isinstance(error, asyncio.CancelledError) and not is_stray_cancel():
                    raise
                logger.exception("agent %s: effect %d failed with an internal error", self.agent.id, effect)
                input = broken(effect)
        if input is None:
            input = Stopped(effect, self._requests.partial(effect), self._calls.output_so_far(call_id))
        if effect in self._open:
            self._requests.ended(effect)
        self.feed(input)

    def _update_clock(self) -> None:
        """Releases the slot while everything waits for others, and stops the deadline while it waits for the user."""
        phase = self.state.phase
        calls = phase.calls if isinstance(phase, ToolExecuting) else ()
        asking = self._calls.asking
        works = any(isinstance(call.progress, Running) and call.use.id not in asking for call in calls)
        asks = bool(asking) or any(isinstance(call.progress, AwaitingApproval) for call in calls)
        if self._slot is not None and (isinstance(phase, AwaitingSubAgents) or (asks and not works)):
            self._slot.release()
        if self._deadline is not None:
            if self.state.ended or (asks and not works):
                self._deadline.pause()
            elif self._slot is None or not self._slot.queued:
                self._deadline.run()

    # -- effects ---------------------------------------------------------------------------------------------------

    def _append(self, message: Message, shown: str) -> None:
        message = bounded_results(message, self._requests.result_limit)
        message = message if message.id else replace(message, id=new_id())
        self.agent.history.append(message)
        self._host.log.add_record(HistoryRecord(self.agent.id, message))
        images = sum(isinstance(block, Image) for block in message.content)
        if shown.strip() or images:
            places = self._requests.take_references(message.id)
            emit(
                self._host,
                self.agent,
                MessageAdded(message.id, message.role, self._requests.take_cleaned(shown), places, images),
            )

    async def _decide(self, effect: DecideCalls) -> Input:
        return CallsDecided(effect.id, await self._gate.decide(effect.calls))

    async def _ask(self, effect: RequestPermission) -> Input:
        return PermissionAnswered(effect.id, await self._gate.ask(effect.use))

    async def _run_tool(self, effect: RunTool) -> Input:
        await self._hold_slot()
        call = self._gate.take(effect.use)
        output = await self._calls.run(effect.use, cast("Tool", call.tool), call.args, approved=call.approved)
        if output.refused:
            output = await self._run_outside(effect.use, call, output)
        return ToolCompleted(effect.id, output.content, output.is_error, output.images, output.reports)

    async def _run_outside(self, use: ToolUse, call: Cleared, output: ToolOutput) -> ToolOutput:
        """Runs a call again that failed because of the sandbox, without it, if the user approves."""
        async with self._calls.asks_user(use.id):
            answer = await self._gate.ask_outside(use, call, output.refused)
        if isinstance(answer, CallDenied):
            return replace(output, content=f"{output.content}\n[not run outside the sandbox: {answer.text}]")
        call = self._gate.take(use)
        output = await self._calls.run(use, cast("Tool", call.tool), call.args, approved=call.approved)
        notes = "".join(f"\n[the user: {note.text}]" for note in answer.notes)
        return replace(output, content=f"{output.content}{notes}\n[ran again, outside the sandbox]")

    async def _start_children(self, effect: StartChildren) -> Input:
        call = self._gate.take(effect.use)
        tool = cast("DelegationTool", call.tool)
        specs = self._calls.children(effect.use, tool, call.args)
        if isinstance(specs, ToolOutput):
            return ToolCompleted(effect.id, specs.content, is_error=True)
        try:
            accepted = await self._tree.spawn(self.agent, effect.use.id, specs)
        except DeputyError as error:
            return ToolCompleted(effect.id, str(error), is_error=True)
        ids = tuple(child.agent_id for child in accepted)
        return ChildrenStarted(effect.id, effect.use.id, ids, tool.style, tool.immediate(accepted))

    async def _check(self, effect: CheckAnswer) -> Input:
        if reason := await self._calls.hooks.subagent_stop(effect.text, continued=self.state.corrections > 0):
            return AnswerChecked(effect.id, reason)
        if not self.agent.context.check_references:
            return AnswerChecked(effect.id)
        checked = await check_references(effect.text, self.agent, self._host)
        if checked.locations:
            return AnswerChecked(effect.id)
        return AnswerChecked(effect.id, references.correction(checked), references.warning(checked))

    def _stop_by_hook(self, reason: str) -> None:
        self._tree.end_at_limit(self.agent, LimitReached(reason))

    def _run_notification_hooks(self, kind: str, message: str) -> None:
        if self._calls.hooks.has(When.NOTIFICATION, kind):
            self._tasks.start_soon(self._calls.hooks.notify, kind, message)

    @asynccontextmanager
    async def _waits_for_user(self) -> AsyncGenerator[None]:
        """Wraps a wait of a running call for the user, which starts when it is entered."""
        self._update_clock()
        yield
        self._update_clock()
        await self._hold_slot()

    async def _hold_slot(self) -> None:
        if self._slot is not None:
            await self._slot.acquire()


def _gate_broken(effect: DecideCalls) -> _Broken:
    denied = CallDenied("Not run: an internal error kept the permission gate from deciding.")
    return lambda effect_id: CallsDecided(effect_id, {use.id: denied for use in effect.calls})


def _request_broken(effect: EffectId) -> Input:
    return PermissionAnswered(effect, CallDenied("Not run: an internal error kept the request from the user."))


def _tool_broken(effect: EffectId) -> Input:
    return ToolCompleted(effect, "An internal error ended this tool. It may have taken effect in part.", is_error=True)


def _of_user(notes: Sequence[Note]) -> tuple[str, ...]:
    """The messages of the user among what waits for the model."""
    return tuple(note.text for note in notes if note.shown)
