"""Model requests of one agent: streams replies to clients, retries, and keeps what was shown of a reply that failed."""

import random
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial

import anyio

from deputy_agents.concurrency.off_loop import off_loop
from deputy_agents.domain.errors import ModelError, ModelErrorKind, NotConfigured, StoreError
from deputy_agents.domain.event import Location, MessageAdded, MessageDelta, StatusChanged, ThoughtAdded, ThoughtDelta
from deputy_agents.domain.ids import new_id
from deputy_agents.domain.message import Message, Reply, ToolUse, thought_of, tool_uses
from deputy_agents.domain.outcome import AgentStatus
from deputy_agents.ports.model import TextPart, ThinkingPart
from deputy_agents.run import backoff
from deputy_agents.run.agent import Agent
from deputy_agents.run.answer_check import check_references
from deputy_agents.run.conversation import Conversation
from deputy_agents.run.effect import ModelFailed, ModelReplied, RequestModel, RetryDue, ScheduleRetry
from deputy_agents.run.host import AgentTree, Host, emit
from deputy_agents.run.state import EffectId
from deputy_agents.run.stream import Stream
from deputy_agents.text import clean

FALLBACK_KINDS = (ModelErrorKind.OVERLOADED, ModelErrorKind.RATE_LIMITED, ModelErrorKind.SERVER)
"""Failures for which the fallback model takes over."""
FALLBACK_AFTER = 3
"""The attempt after which it does, if the failure can be retried."""
_FALLBACK_NOTICE = "{} does not answer ({}), so {} takes over until the end of this {}."


class ModelRequests:
    """Performs ``RequestModel`` and ``ScheduleRetry`` for ``agent``. ``hold_slot`` waits until it may run."""

    def __init__(self, agent: Agent, host: Host, tree: AgentTree, hold_slot: Callable[[], Awaitable[None]]) -> None:
        self._agent = agent
        self._host = host
        self._tree = tree
        self._hold_slot = hold_slot
        self.conversation = Conversation(agent, host)
        self._stream = Stream()
        self._effect: EffectId | None = None
        """The last effect that belongs to the message in ``_stream``."""
        self._failing_since: float | None = None
        self._references: dict[str, tuple[Location, ...]] = {}
        """Places that a message refers to, by message id, until they are published."""
        self._cleaned: tuple[str, str] = ("", "")
        """The text of the last reply, and that text as clients see it."""

    async def send(self, effect: RequestModel) -> ModelReplied | ModelFailed:
        """Sends the history to the model and streams its reply."""
        if effect.attempt == 1:
            self._stream = Stream()
            self._failing_since = None
        else:
            self._stream.restart()
        self._effect = effect.id
        # Everything so far is stored and published before the next request.
        await self._host.log.flush()
        await self._hold_slot()
        if self._tree.over_budget(self._agent):
            await anyio.sleep_forever()  # until the cancel that is on its way stops this effect
        try:
            await self._agent.remember()
            return await self._replied(effect, await self.conversation.ask(self._publish))
        except StoreError as error:
            return self._failed(effect, ModelError(str(error), ModelErrorKind.UNKNOWN, retryable=True))
        except ModelError as error:
            return self._failed(effect, error)
        except NotConfigured as error:
            return self._failed(effect, ModelError(str(error), ModelErrorKind.NOT_CONFIGURED))

    async def wait_to_retry(self, effect: ScheduleRetry) -> RetryDue:
        """Waits before the next attempt, by back-off or as long as the service asked for."""
        settings = self._host.settings.retry
        self._effect = effect.id  # what was shown of the message must survive a cancel during this wait
        seconds = backoff.delay(settings, effect.attempt, effect.retry_after, random.random)
        attempts = backoff.max_attempts(effect.kind, self._agent.context.attempts)
        detail = backoff.status_detail(ModelErrorKind(effect.kind), seconds, effect.attempt, attempts)
        emit(self._host, self._agent, StatusChanged(AgentStatus.RUNNING, detail=detail))
        await self._host.clock.sleep(seconds)
        emit(self._host, self._agent, StatusChanged(AgentStatus.RUNNING))
        return RetryDue(effect.id)

    async def search_web(self, query: str) -> Reply:
        """Searches the web by the provider of the agent's model. Raises as :meth:`Conversation.search`."""
        return await self.conversation.search(query)

    @property
    def result_limit(self) -> int:
        """The most bytes that the results of one reply may have together, so that the next request fits."""
        return self.conversation.sizes().results

    def partial(self, effect: EffectId) -> Message | None:
        """What clients have seen of the reply to ``effect``, if that is the last request."""
        return self._stream.partial() if effect == self._effect else None

    def ended(self, effect: EffectId) -> None:
        """Counts what a request used that ended in any way, also by a cancel."""
        if effect == self._effect:
            self.conversation.count_unfinished()

    def broken(self, effect: EffectId) -> ModelFailed:
        """The end of a request that an internal error broke."""
        text = "An internal error ended the model request. The log has the details."
        return ModelFailed(effect, ModelErrorKind.UNKNOWN.value, text, partial=self._stream.partial())

    def take_references(self, message_id: str) -> tuple[Location, ...]:
        """The places that a reply refers to, once."""
        return self._references.pop(message_id, ())

    def take_cleaned(self, text: str) -> str:
        """``text`` as clients see it; for that of the last reply, without a wait."""
        (reply, cleaned), self._cleaned = self._cleaned, ("", "")
        return cleaned if text == reply else clean(text)

    def _publish(self, part: TextPart | ThinkingPart) -> None:
        match part:
            case TextPart(text):
                if new := self._stream.add(text):
                    emit(self._host, self._agent, MessageDelta(self._stream.message_id, new))
            case ThinkingPart(text):
                emit(self._host, self._agent, ThoughtDelta(self._stream.message_id, clean(text)))

    async def _replied(self, effect: RequestModel, reply: Reply) -> ModelReplied:
        self.conversation.count(reply.usage)
        message = replace(self._with_unique_ids(reply.message), id=self._stream.message_id)
        if thought := thought_of(message):
            shown = await off_loop(len(thought), partial(clean, thought))
            emit(self._host, self._agent, ThoughtAdded(message.id, shown))
        text = message.text
        self._cleaned = text, await off_loop(len(text), partial(clean, text))
        if not tool_uses(message):
            checked = await check_references(text, self._agent, self._host)
            if checked.locations:
                self._references[message.id] = checked.locations
        return ModelReplied(effect.id, replace(reply, message=message))

    def _with_unique_ids(self, message: Message) -> Message:
        """Makes the ids of tool calls unique for the agent: some services restart their numbers in each reply."""
        content = list(message.content)
        for index, block in enumerate(content):
            if isinstance(block, ToolUse):
                name, copy = block.id, 1
                while not name or name in self._agent.call_ids:
                    copy += 1
                    name = f"{block.id}-{copy}"
                self._agent.calls += 1
                self._agent.call_ids.add(name)
                content[index] = replace(block, id=name)
        return replace(message, content=tuple(content))

    def _failed(self, effect: RequestModel, error: ModelError) -> ModelFailed:
        if self._falls_back(effect, error):
            return ModelFailed(effect.id, error.kind.value, str(error), retryable=True, retry_after=0)
        settings = self._host.settings.retry
        now = self._host.clock.monotonic()
        self._failing_since = now if self._failing_since is None else self._failing_since
        retryable = error.retryable and now - self._failing_since < settings.total
        if error.retry_after is not None and error.retry_after > settings.retry_after_cap:
            retryable = False
        return ModelFailed(
            effect.id, error.kind.value, str(error), retryable, error.retry_after, error.action, self._stream.partial()
        )

    def _falls_back(self, effect: RequestModel, error: ModelError) -> bool:
        """Switches to the fallback model of the settings if the agent's own stays overloaded, and notifies the user.
        Returns whether it did."""
        agent, settings = self._agent, self._host.settings
        fallback, attempts = settings.fallback_model, backoff.max_attempts(error.kind.value, agent.context.attempts)
        if not fallback or fallback == agent.model or error.kind not in FALLBACK_KINDS or effect.attempt >= attempts:
            return False
        long_wait = error.retry_after is not None and error.retry_after > settings.retry.retry_after_cap
        if error.retryable and not long_wait and effect.attempt < FALLBACK_AFTER:
            return False
        rest = "run" if agent.is_child else "turn"
        text = _FALLBACK_NOTICE.format(agent.model, str(error).rstrip("."), fallback, rest)
        agent.fallback = fallback
        emit(self._host, agent, MessageAdded(new_id(), "assistant", clean(text)))
        return True
