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
    """One request. ``agent_id`` and ``depth`` tell a limiter who asks; they are not sent. ``search`` lets the provider
    search the web for the answer."""

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
    """A piece of visible text, in order."""

    text: str


@dataclass(frozen=True, slots=True)
class ThinkingPart:
    """A piece of reasoning, for show."""

    text: str


@dataclass(frozen=True, slots=True)
class RequestDelayed:
    """The request waits before it is sent, because of ``why``; ``None`` when that is over."""

    why: str | None


@dataclass(frozen=True, slots=True)
class RequestAccepted:
    """The service has taken the request: what it answers is on its way."""


@dataclass(frozen=True, slots=True)
class UsageReported:
    """What the request has used by now. It counts when no :class:`Reply` follows, whose usage is the whole."""

    usage: Usage


ModelEvent: TypeAlias = RequestDelayed | RequestAccepted | UsageReported | TextPart | ThinkingPart | Reply


class Model(Protocol):
    """A language model behind any provider."""

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        """Yields parts as they come and, last, exactly one :class:`Reply` (``message.id`` is left empty). An adapter
        that can tell yields :class:`RequestAccepted` first; :class:`RequestDelayed` comes from what stands between.

        Raises:
            ModelError: the request failed; nothing else is raised for what a provider or a network does.

        Cancelling the task that iterates closes the connection at once.
        """
        ...


class ModelFactory(Protocol):
    """Gives the model of a name. Models are shared: nothing needs one of its own (they hold no conversation)."""

    def __call__(self, name: str) -> Model: ...
