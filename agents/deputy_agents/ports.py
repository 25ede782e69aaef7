"""What the core asks of the world, as small protocols.

Adapters live in ``model/``, ``store/`` and ``workspace.py``; front ends give a :class:`Buffers` and a
:class:`Questioner`. ``server/deputy_server/app.py`` is the only place that chooses among them.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

from deputy_agents.event import Event, Question, ResolvedBy
from deputy_agents.message import Message, Reply, Usage

# -- model -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as the model sees it; ``input_schema`` is a JSON Schema of type ``object``."""

    name: str
    description: str
    input_schema: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One request. ``agent_id`` and ``depth`` tell a limiter who asks; they are not sent."""

    model: str
    system: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    max_tokens: int = 8192
    temperature: float | None = None
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
class Waiting:
    """The request waits before it is sent, because of ``why``; ``None`` when that is over."""

    why: str | None


@dataclass(frozen=True, slots=True)
class Begun:
    """The service has taken the request: what it answers is on its way."""


@dataclass(frozen=True, slots=True)
class Used:
    """What the request has used by now. It counts when no :class:`Reply` follows, whose usage is the whole."""

    usage: Usage


ModelEvent: TypeAlias = Waiting | Begun | Used | TextPart | ThinkingPart | Reply


class Model(Protocol):
    """A language model behind any provider."""

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        """Yields parts as they come and, last, exactly one :class:`Reply` (``message.id`` is left empty). An adapter
        that can tell yields :class:`Begun` first; :class:`Waiting` comes from what stands between.

        Raises:
            ModelError: the request failed; nothing else is raised for what a provider or a network does.

        Cancelling the task that iterates closes the connection at once.
        """
        ...


class ModelFactory(Protocol):
    """Gives the model of a name. Models are shared: nothing needs one of its own (they hold no conversation)."""

    def __call__(self, name: str) -> Model: ...


# -- store -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """A session as lists show it. ``cwd`` is an absolute path."""

    session_id: str
    agent_id: str
    title: str
    cwd: str
    created_at: float
    updated_at: float
    model: str
    archived: bool = False
    agent_count: int = 0


@dataclass(frozen=True, slots=True)
class HistoryRecord:
    """One message of one agent's model history, appended in order."""

    agent_id: str
    message: Message


class Store(Protocol):
    """Keeps sessions. The event log is the truth; everything else is a fold of it or beside it.

    ``append`` is atomic: all or nothing of one call is there after a crash, and it returns after the commit.
    """

    async def create(self, record: SessionRecord) -> None: ...

    async def update(self, record: SessionRecord) -> None: ...

    async def sessions(self, cwd: str | None = None) -> Sequence[SessionRecord]:
        """Newest first."""
        ...

    async def append(self, session_id: str, events: Sequence[Event], history: Sequence[HistoryRecord] = ()) -> None:
        """Commits numbered events and history messages.

        Raises:
            StoreError: the session is unknown, or ``seq`` does not follow the last one.
        """
        ...

    async def events(self, session_id: str, after: int = 0, limit: int | None = None) -> Sequence[Event]:
        """Durable events with ``seq`` greater than ``after``, in order."""
        ...

    async def history(self, session_id: str, agent_id: str) -> Sequence[Message]: ...

    async def close(self) -> None: ...


# -- the user's side ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Buffer:
    """An open document of the editor. ``version`` is the editor's."""

    path: Path
    text: str
    version: int | None


class Buffers(Protocol):
    """Open documents. They win over the disk: agents see what the user sees."""

    def get(self, path: Path) -> Buffer | None:
        """The open document at ``path`` (absolute, symlinks resolved), or ``None``."""
        ...

    def all(self) -> Sequence[Buffer]:
        """Every open document that has a path, in no order."""
        ...

    async def apply(self, path: Path, new_text: str, *, version: int | None, label: str) -> None:
        """Changes an open document through the editor, so that its undo works.

        Raises:
            ToolError: the document moved on from ``version``, or the editor refused.
        """
        ...


@dataclass(frozen=True, slots=True)
class Selected:
    """An explicit choice. ``input`` replaces the tool's input; ``feedback`` is told to the model."""

    option_id: str
    feedback: str | None = None
    input: Mapping[str, object] | None = None


@dataclass(frozen=True, slots=True)
class Dismissed:
    """No choice: closed, null, an error, garbage (``dismissed``), or nobody there who can ask (``unreachable``)."""

    by: Literal[ResolvedBy.DISMISSED, ResolvedBy.UNREACHABLE] = ResolvedBy.DISMISSED


Answer: TypeAlias = Selected | Dismissed


class Questioner(Protocol):
    """A client that can put a question to a person."""

    async def ask(self, question: Question) -> Answer:
        """Waits for the person as long as it takes. Cancelled when the matter is settled elsewhere."""
        ...


class Clock(Protocol):
    """Time and waiting, so that tests need neither."""

    def time(self) -> float:
        """Seconds since the epoch."""
        ...

    def monotonic(self) -> float: ...

    async def sleep(self, seconds: float) -> None: ...
