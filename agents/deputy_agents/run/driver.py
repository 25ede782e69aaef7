"""Performs the effects of one agent's machine and feeds back what comes of them.

The driver holds no rules of its own: what happens next is decided by ``transition`` alone. Every effect under way
has a cancel scope and is answered once; an answer whose effect is no longer outstanding is logged and dropped, so that
a late duplicate never reaches the machine. Effects are tasks of the session: one that cannot be stopped (a thread that
hangs in the operating system) holds up nothing but its own end.
"""

import asyncio
import logging
import random
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import cast

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup

from deputy_agents.domain.errors import DeputyError, InvalidTransition, ModelError, ModelErrorKind, NotConfigured
from deputy_agents.domain.event import (
    Activity,
    CallStatus,
    Location,
    MessageAdded,
    MessageDelta,
    StatusChanged,
    ThoughtDelta,
    ToolCallUpdated,
)
from deputy_agents.domain.ids import new_id
from deputy_agents.domain.message import Block, Image, Message, Reply, ToolUse, tool_uses
from deputy_agents.domain.outcome import AgentStatus, Ending, Failed, FailureReason
from deputy_agents.editor import mention, references
from deputy_agents.editor.completion import Completions, complete
from deputy_agents.guidance.items import SlashCommand
from deputy_agents.permission.inbox import is_stray_cancel
from deputy_agents.ports.model import TextPart, ThinkingPart
from deputy_agents.ports.store import HistoryRecord, OutputRecord
from deputy_agents.run import backoff
from deputy_agents.run.agent import Agent, Host, say
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
    ModelFailed,
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
    ToolCompleted,
    UserPrompt,
)
from deputy_agents.run.gate import Gate
from deputy_agents.run.hook_runner import HookRunner
from deputy_agents.run.slots import Slot
from deputy_agents.run.state import (
    AwaitingApproval,
    AwaitingSubAgents,
    Cancelling,
    EffectId,
    Running,
    State,
    ToolExecuting,
)
from deputy_agents.run.stream import Stream
from deputy_agents.run.transition import transition
from deputy_agents.text import clean
from deputy_agents.tool.base import Tool, ToolOutput
from deputy_agents.tool.delegate import DelegationTool

logger = logging.getLogger(__name__)

_CLOSED = (CallStatus.COMPLETED, CallStatus.FAILED, CallStatus.CANCELLED)


class Driver:
    """Runs one agent. ``slot`` and ``deadline`` bound a child; the primary has neither."""

    def __init__(
        self,
        agent: Agent,
        host: Host,
        tasks: TaskGroup,
        slot: Slot | None = None,
        deadline: Deadline | None = None,
    ) -> None:
        self.agent = agent
        self.state = State()
        self._host = host
        self._tasks = tasks
        self._slot = slot
        self._deadline = deadline
        self._conversation = Conversation(agent, host)
        self._gate = Gate(agent, host, self._conversation.search)
        self._hooks = HookRunner(agent, host)
        self._inputs: deque[Input] = deque()
        self._feeding = False
        self._open: dict[EffectId, anyio.CancelScope] = {}
        self._streaming: EffectId | None = None
        self._stream = Stream()
        self._failing_since: float | None = None
        self._places: dict[str, tuple[Location, ...]] = {}
        self._shown: dict[str, str] = {}
        self._kept_whole: set[str] = set()
        """The ids of calls of whose output the store keeps more than is told of it."""
        self._tools: dict[EffectId, str] = {}
        """The ids of the calls that run."""
        self._ended = anyio.Event()
        self._fault: Exception | None = None

    @property
    def stopping(self) -> bool:
        """It is about to end, or has: nothing new may start below it."""
        return self._ended.is_set() or self.state.ended or isinstance(self.state.phase, Cancelling)

    async def run(self, first: UserPrompt | None = None) -> None:
        """Returns when the machine has ended (a child); the primary's never does. ``first`` is fed as soon as the slot
        may run.

        Raises:
            Exception: the fault of the program that broke the primary; a child's ends as its failure.
        """
        try:
            if first is not None:
                self._tasks.start_soon(self._begin, first)
            await self._ended.wait()
            if self._fault is not None:
                raise self._fault
        finally:
            if self._deadline is not None:
                self._deadline.rest()

    def feed(self, input: Input) -> None:
        """Gives the machine its next input, now or behind those that are being handled. Never raises."""
        self._inputs.append(input)
        if self._feeding:
            return
        self._feeding = True
        try:
            while self._inputs:
                self._step(self._inputs.popleft())
        except Exception as fault:
            logger.exception("agent %s broke down", self.agent.id)
            self._break_down(fault)
        finally:
            self._feeding = False

    async def attached(self, text: str) -> tuple[Block, ...]:
        """What ``text`` mentions, read as this agent may read it."""
        return await mention.attached(text, self._gate.context(), self._gate.allows)

    async def complete(self, text: str, commands: Mapping[str, SlashCommand]) -> Completions:
        """How ``text``, the beginning of a prompt, can go on."""
        return await complete(text, commands, self._gate.context())

    def force(self) -> None:
        """Stops waiting for effects that were aborted and do not end: each counts as stopped."""
        for effect in tuple(self._open):
            logger.warning("agent %s: effect %d did not stop in time", self.agent.id, effect)
            self.feed(Stopped(effect))

    async def _begin(self, first: UserPrompt) -> None:
        await self._host.equip(self.agent)
        await self._hold_slot()
        if not self._ended.is_set():
            self.feed(first)

    def _break_down(self, fault: Exception) -> None:
        """A fault of the program ends this agent alone; the primary's ends its session."""
        for scope in self._open.values():
            scope.cancel()
        self._open.clear()
        self._inputs.clear()
        if self.agent.is_child:
            self._finish(Failed(FailureReason.RUNTIME_ERROR, "an internal error ended it", self.state.last_text))
        else:
            self._fault = fault
            self._ended.set()

    # -- the machine -----------------------------------------------------------------------------------------------

    def _step(self, input: Input) -> None:
        effect: EffectId | None = getattr(input, "effect", None)
        if self._ended.is_set() or (effect is not None and self._open.pop(effect, None) is None):
            logger.warning("agent %s: %s of effect %s came late", self.agent.id, type(input).__name__, effect)
            return
        try:
            self.state, effects = transition(self.state, self.agent.context, input)
        except InvalidTransition as error:
            if effect is not None:
                raise
            logger.warning("agent %s: %s", self.agent.id, error)
            return
        for wanted in effects:
            self._perform(wanted)
        self._mind_the_clock()

    def _perform(self, effect: Effect) -> None:  # noqa: C901 (one arm for each effect)
        match effect:
            case AppendMessage(message, shown):
                self._append(message, shown)
            case RequestModel():
                self._start(effect.id, lambda: self._request(effect), self._model_broke)
            case ScheduleRetry():
                self._start(effect.id, lambda: self._wait_to_retry(effect), RetryDue)
            case DecideCalls():
                self._start(effect.id, lambda: self._decide(effect), self._gate_broke(effect))
            case RequestPermission():
                self._start(effect.id, lambda: self._ask(effect), _question_broke)
            case RunTool():
                self._start(effect.id, lambda: self._run_tool(effect), _tool_broke)
            case StartChildren():
                self._start(effect.id, lambda: self._spawn(effect), _tool_broke)
            case CheckAnswer():
                self._start(effect.id, lambda: self._check(effect), AnswerChecked)
            case Abort(ids):
                for scope in [self._open[effect_id] for effect_id in ids if effect_id in self._open]:
                    scope.cancel()
            case CancelSubAgents(ids, reason):
                self._host.cancel_children(ids, reason)
            case ReportCall():
                self._report(effect)
            case FinishTurn():
                self._host.turn_finished(self.agent, effect)
            case NotifyParent(ending):
                self._finish(ending)

    def _finish(self, ending: Ending) -> None:
        self._host.run_ended(self.agent, ending)
        self._ended.set()

    def _start(
        self, effect: EffectId, work: Callable[[], Awaitable[Input]], broke: Callable[[EffectId], Input]
    ) -> None:
        scope = self._open[effect] = anyio.CancelScope()
        self._tasks.start_soon(self._carry_out, effect, scope, work, broke)

    async def _carry_out(
        self,
        effect: EffectId,
        scope: anyio.CancelScope,
        work: Callable[[], Awaitable[Input]],
        broke: Callable[[EffectId], Input],
    ) -> None:
        input: Input | None = None
        with scope:
            try:
                await anyio.lowlevel.checkpoint_if_cancelled()  # what is stopped before it begins does nothing
                input = await work()
            except (Exception, asyncio.CancelledError) as error:
                if isinstance(error, asyncio.CancelledError) and not is_stray_cancel():
                    raise
                logger.exception("agent %s: effect %d broke", self.agent.id, effect)
                input = broke(effect)
        if input is None:
            partial = self._stream.partial() if effect == self._streaming else None
            input = Stopped(effect, partial, self._gate.put_out(self._tools.get(effect, "")))
        self._gate.put_out(self._tools.pop(effect, ""))
        if effect == self._streaming and effect in self._open:
            self._conversation.settle()
        self.feed(input)

    def _mind_the_clock(self) -> None:
        """Gives the slot away while everything waits for others, and stops the clock while it waits for the user."""
        phase = self.state.phase
        progress = [call.progress for call in phase.calls] if isinstance(phase, ToolExecuting) else []
        works = any(isinstance(step, Running) for step in progress)
        asks = any(isinstance(step, AwaitingApproval) for step in progress)
        if self._slot is not None and (isinstance(phase, AwaitingSubAgents) or (asks and not works)):
            self._slot.give_away()
        if self._deadline is not None:
            if self.state.ended or (asks and not works):
                self._deadline.rest()
            elif self._slot is None or not self._slot.queued:
                self._deadline.run()

    # -- the model -------------------------------------------------------------------------------------------------

    def _append(self, message: Message, shown: str) -> None:
        message = message if message.id else replace(message, id=new_id())
        self.agent.history.append(message)
        self._host.log.keep(HistoryRecord(self.agent.id, message))
        pictures = sum(isinstance(block, Image) for block in message.content)
        if shown.strip() or pictures:
            places = self._places.pop(message.id, ())
            say(self._host, self.agent, MessageAdded(message.id, message.role, clean(shown), places, pictures))

    async def _request(self, effect: RequestModel) -> Input:
        if effect.attempt == 1:
            self._stream = Stream()
            self._failing_since = None
        else:
            self._stream.restart()
        self._streaming = effect.id
        # What was said so far is on disk and on its way before anything new is asked.
        await self._host.log.flush()
        await self._hold_slot()
        if self._host.over_budget(self.agent):
            await anyio.sleep_forever()  # until the cancel that is on its way stops this effect
        try:
            return await self._replied(effect, await self._conversation.ask(self._hear))
        except ModelError as error:
            return self._failed(effect, error)
        except NotConfigured as error:
            return self._failed(effect, ModelError(str(error), ModelErrorKind.NOT_CONFIGURED))

    def _hear(self, part: TextPart | ThinkingPart) -> None:
        match part:
            case TextPart(text):
                if new := self._stream.add(text):
                    say(self._host, self.agent, MessageDelta(self._stream.message_id, new))
            case ThinkingPart(text):
                say(self._host, self.agent, ThoughtDelta(self._stream.message_id, clean(text)))

    async def _replied(self, effect: RequestModel, reply: Reply) -> Input:
        self._conversation.count(reply.usage)
        message = replace(self._with_own_ids(reply.message), id=self._stream.message_id)
        if not tool_uses(message):
            checked = await references.check(message.text, self._host.workspace, self.agent.cwd)
            if checked.locations:
                self._places[message.id] = checked.locations
        return ModelReplied(effect.id, replace(reply, message=message))

    def _with_own_ids(self, message: Message) -> Message:
        """Names every tool call apart within the agent: some servers count from one again in each reply."""
        content = list(message.content)
        for index, block in enumerate(content):
            if isinstance(block, ToolUse):
                name, copy = block.id, 1
                while not name or name in self.agent.call_ids:
                    copy += 1
                    name = f"{block.id}-{copy}"
                self.agent.call_ids.add(name)
                content[index] = replace(block, id=name)
        return replace(message, content=tuple(content))

    def _failed(self, effect: RequestModel, error: ModelError) -> ModelFailed:
        settings = self._host.settings.retry
        now = self._host.clock.monotonic()
        self._failing_since = now if self._failing_since is None else self._failing_since
        retryable = error.retryable and now - self._failing_since < settings.total
        if error.retry_after is not None and error.retry_after > settings.retry_after_cap:
            retryable = False
        return ModelFailed(
            effect.id, error.kind.value, str(error), retryable, error.retry_after, error.action, self._stream.partial()
        )

    def _model_broke(self, effect: EffectId) -> Input:
        text = "An internal error ended the model request; the log has the details."
        return ModelFailed(effect, ModelErrorKind.UNKNOWN.value, text, partial=self._stream.partial())

    async def _wait_to_retry(self, effect: ScheduleRetry) -> Input:
        settings = self._host.settings.retry
        self._streaming = effect.id  # what was shown of the message must outlive a cancel in this wait
        seconds = backoff.delay(settings, effect.attempt, effect.retry_after, random.random)
        detail = backoff.announcement(ModelErrorKind(effect.kind), seconds, effect.attempt, self.agent.context.attempts)
        say(self._host, self.agent, StatusChanged(AgentStatus.RUNNING, detail=detail))
        await self._host.clock.sleep(seconds)
        say(self._host, self.agent, StatusChanged(AgentStatus.RUNNING))
        return RetryDue(effect.id)

    async def _hold_slot(self) -> None:
        if self._slot is not None:
            await self._slot.hold()

    # -- calls -----------------------------------------------------------------------------------------------------

    async def _decide(self, effect: DecideCalls) -> Input:
        return CallsDecided(effect.id, await self._gate.decide(effect.calls))

    def _gate_broke(self, effect: DecideCalls) -> Callable[[EffectId], Input]:
        refused = CallDenied("Not run: an internal error kept the permission gate from deciding.")
        return lambda effect_id: CallsDecided(effect_id, {use.id: refused for use in effect.calls})

    async def _ask(self, effect: RequestPermission) -> Input:
        return PermissionAnswered(effect.id, await self._gate.ask(effect.use))

    async def _run_tool(self, effect: RunTool) -> Input:
        call_id = effect.use.id
        self._tools[effect.id] = call_id
        await self._hold_slot()
        tool, args = self._gate.take(effect.use)
        if (reason := await self._hooks.before(effect.use)) is not None:
            return ToolCompleted(effect.id, reason, is_error=True)
        try:
            output = await cast("Tool", tool).run(args, self._gate.context(call_id))
        except DeputyError as error:
            output = ToolOutput(str(error), is_error=True)
        else:
            self._gate.put_out(call_id)
        if output.whole is not None:
            self._kept_whole.add(call_id)
            self._host.log.keep(OutputRecord(self.agent.id, call_id, clean(output.whole)))
        said = await self._hooks.after(effect.use, output)
        if output.locations is not None:
            self._places[call_id] = output.locations
        if output.shown is not None:
            self._shown[call_id] = output.shown + said
        return ToolCompleted(effect.id, (output.content or "(nothing)") + said, output.is_error, output.images)

    async def _spawn(self, effect: StartChildren) -> Input:
        tool, args = self._gate.take(effect.use)
        door = cast("DelegationTool", tool)
        if (reason := await self._hooks.before(effect.use)) is not None:
            return ToolCompleted(effect.id, reason, is_error=True)
        try:
            specs = door.children(args, self._gate.context(effect.use.id))
            accepted = await self._host.spawn(self.agent, effect.use.id, specs)
        except DeputyError as error:
            return ToolCompleted(effect.id, str(error), is_error=True)
        ids = tuple(child.agent_id for child in accepted)
        return ChildrenStarted(effect.id, effect.use.id, ids, door.style, door.immediate(accepted))

    async def _check(self, effect: CheckAnswer) -> Input:
        checked = await references.check(effect.text, self._host.workspace, self.agent.cwd)
        if checked.locations:
            return AnswerChecked(effect.id)
        return AnswerChecked(effect.id, references.correction(checked), references.warning(checked))

    def _report(self, report: ReportCall) -> None:
        self._gate.announce(report.use)
        told = self._shown.pop(report.use.id, report.content)
        content = clean(told) if told is not None else None
        places = self._places.pop(report.use.id, None)
        truncated = report.use.id in self._kept_whole
        say(self._host, self.agent, ToolCallUpdated(report.use.id, report.status, content, places, truncated))
        if report.status not in _CLOSED:
            say(self._host, self.agent, Activity(_activity(report.use), self.agent.tool_calls))


def _question_broke(effect: EffectId) -> Input:
    return PermissionAnswered(effect, CallDenied("Not run: an internal error kept the question from the user."))


def _tool_broke(effect: EffectId) -> Input:
    return ToolCompleted(effect, "An internal error ended this tool; it may have taken effect in part.", is_error=True)


def _activity(use: ToolUse) -> str:
    """``grep retry``: the tool and the first thing that it was given."""
    target = next((value for value in use.input.values() if isinstance(value, str)), "")
    return clean(f"{use.name} {' '.join(target.split())[:80]}".strip())
