"""Language models."""

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from deputy_agents.domain.message import Message, Reply, Usage


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as the model sees it; ``input_schema`` is a JSON Schema of type ``object``."""

    name: str
    description: str
    input_schema: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One request. ``session_id``, ``agent_id`` and ``depth`` identify the sender to a rate limiter or a recorder and
    are not sent to the service. ``search`` allows the provider to search the web."""

    model: str
    system: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    max_tokens: int = 8192
    temperature: float | None = None
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


class ModelFactory(Protocol):
    """Returns the model with a name. Models hold no conversation, so all agents share one instance."""

    def __call__(self, name: str) -> Model: ...
