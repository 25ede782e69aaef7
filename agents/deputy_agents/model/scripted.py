"""A model that replies as a script determines, for tests and experiments.

::

    def script(request: ModelRequest) -> Scripted:
        if tool_results(request):
            return say("It says hello.")
        return call("read_file", path="hello.txt")

    model = ScriptedModel(script)
"""

import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Sequence
from typing import TypeAlias

import anyio.lowlevel

from deputy_agents.domain.ids import new_id
from deputy_agents.domain.message import Block, Message, Reply, StopReason, Text, Thinking, ToolResult, ToolUse, Usage
from deputy_agents.ports.model import ModelEvent, ModelRequest, TextPart, ThinkingPart

Scripted: TypeAlias = Reply | Sequence[ModelEvent] | AsyncIterator[ModelEvent]
"""A reply, from which the parts are derived; or all events, of which the last is the reply."""

Script: TypeAlias = Callable[[ModelRequest], Scripted | Awaitable[Scripted]]
"""Returns the reply to a request; may wait or raise ModelError."""


class ScriptedModel:
    """A :class:`deputy_agents.ports.model.Model` that runs ``script``. ``requests`` are all requests so far, in
    order."""

    def __init__(self, script: Script) -> None:
        self.requests: list[ModelRequest] = []
        self._script = script

    async def prepare(self) -> None:
        """There is nothing to wait for."""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        self.requests.append(request)
        await anyio.lowlevel.checkpoint()
        scripted = self._script(request)
        if inspect.isawaitable(scripted):
            scripted = await scripted
        if isinstance(scripted, AsyncIterator):
            async for event in scripted:
                yield event
            return
        for event in _events(scripted) if isinstance(scripted, Reply) else scripted:
            yield event


def say(text: str, stop_reason: StopReason = StopReason.END_TURN, usage: Usage = Usage()) -> Reply:  # noqa: B008 - frozen
    """A reply with only text."""
    return Reply(Message("assistant", (Text(text),) if text else ()), stop_reason, usage)


def use(name: str, /, **input: object) -> ToolUse:
    """One tool call with a new id, for :func:`calls`."""
    return ToolUse(f"toolu_{new_id()}", name, input)


def call(name: str, /, **input: object) -> Reply:
    """A reply with one tool call."""
    return calls([use(name, **input)])


def calls(uses: Sequence[ToolUse], text: str = "") -> Reply:
    """A reply with several tool calls, after an optional ``text``."""
    content: tuple[Block, ...] = (Text(text), *uses) if text else tuple(uses)
    return Reply(Message("assistant", content), StopReason.TOOL_USE)


def tool_results(request: ModelRequest) -> tuple[ToolResult, ...]:
    """The tool results in the last message of ``request``; empty if that is a prompt."""
    last = request.messages[-1] if request.messages else Message("user", ())
    return tuple(block for block in last.content if isinstance(block, ToolResult))


def _events(reply: Reply) -> Iterator[ModelEvent]:
    for block in reply.message.content:
        match block:
            case Text(text):
                yield TextPart(text)
            case Thinking(thinking) if thinking:
                yield ThinkingPart(thinking)
            case _:
                pass
    yield reply
