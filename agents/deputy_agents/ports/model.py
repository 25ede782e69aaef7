"""Language models."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from deputy_agents.domain.message import Message, Reply, Usage
from deputy_agents.domain.model_card import Effort, ModelCard, ThinkingType


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as the model sees it; ``input_schema`` is a JSON Schema of type ``object``."""

    name: str
    description: str
    input_schema: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Thinking:
    """How the model thinks before it answers. ``budget`` is a number of tokens, with ``ThinkingType.BUDGET``."""

    type: ThinkingType
    budget: int = 0


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One request. ``session_id``, ``agent_id`` and ``depth`` identify the sender to a rate limiter or a recorder and
    are not sent to the service. ``search`` allows the provider to search the web. Without ``thinking`` and ``effort``
    the defaults of the service apply. ``long_cache_of_head`` and ``long_cache_of_messages`` ask the prompt cache of
    the provider to keep the prompt with the tools, and the messages, for an hour instead of some minutes."""

    model: str
    system: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    max_tokens: int = 8192
    temperature: float | None = None
    thinking: Thinking | None = None
    effort: Effort | None = None
    long_cache_of_head: bool = False
    long_cache_of_messages: bool = False
    search: bool = False
    session_id: str = ""
    agent_id: str = ""
    depth: int = 0


@dataclass(frozen=True, slots=True)
class TextPart:
    """The next piece of the visible text."""

    text: str


@dataclass(frozen=True, slots=True)
class ThinkingPart:
    """The next piece of the reasoning, for display only."""

    text: str


@dataclass(frozen=True, slots=True)
class RequestDelayed:
    """The request waits before it is sent. ``reason`` says why; ``None`` when the wait is over."""

    reason: str | None


@dataclass(frozen=True, slots=True)
class RequestAccepted:
    """The service has accepted the request; the reply follows."""


@dataclass(frozen=True, slots=True)
class UsageReported:
    """The usage of the request so far. It counts only when no :class:`Reply` follows: a reply has the total."""

    usage: Usage


ModelEvent: TypeAlias = RequestDelayed | RequestAccepted | UsageReported | TextPart | ThinkingPart | Reply


class Model(Protocol):
    """A language model of any provider."""

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        """Yields parts as they arrive and, last, exactly one :class:`Reply` (its ``message.id`` is empty). An adapter
        yields :class:`RequestAccepted` first if the protocol shows it; :class:`RequestDelayed` comes from wrappers.

        Raises:
            ModelError: the request failed; failures of the provider and the network raise nothing else.

        Cancelling the task that iterates closes the connection at once.
        """
        ...

    async def prepare(self) -> None:
        """Does what the first request would have to wait for, as far as it needs neither the user nor a request to the
        service. Never raises."""
        ...


class ModelClient(Model, Protocol):
    """The adapter for one service: all its models share connections. Only ``model/providers.py`` makes it."""

    async def list_models(self) -> Sequence[tuple[str, ModelCard]]:
        """The names of the models that the service offers, in its order, with what it says about them.

        Raises:
            ModelError: the request failed, or the service has no such list (``not_found``).
        """
        ...

    async def check(self) -> None:
        """Does all that a request does before it is sent.

        Raises:
            ModelError: something is missing, such as a library, a key or a region.
        """
        ...

    async def aclose(self) -> None:
        """Closes all connections; open requests fail."""
        ...


class ModelFactory(Protocol):
    """Returns the model with a name. Models hold no conversation, so all agents share one instance."""

    def __call__(self, name: str) -> Model: ...
