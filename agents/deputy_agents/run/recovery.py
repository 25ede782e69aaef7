"""What may have made the model service reject a request: found in the error and the history, as pure functions.

The service rejects the whole request because of one block, for instance an image that it cannot decode, and would
reject every later request too. A text replaces the block that the error names, or the likeliest one, in all requests. A
tool that the error names is left out.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from deputy_agents.domain.message import Block, Image, Message, Thinking, ToolResult
from deputy_agents.ports.model import ToolSpec
from deputy_agents.run.context_window import ContextWindow, Place, request_messages, without_earlier_thinking

_TOOL = re.compile(r"\btools[.\[](\d+)")
_MESSAGE = re.compile(r"\bmessages[.\[](\d+)")
_WORD = re.compile(r"[\w-]+")
_ABOUT_IMAGES = re.compile(r"image|media|picture|base64|pixel|dimension|png|jpe?g|gif|webp", re.IGNORECASE)
_ABOUT_THINKING = re.compile(r"thinking|signature", re.IGNORECASE)


def without_rejected(history: Sequence[Message], window: ContextWindow, error: str) -> ContextWindow | None:
    """The window without what the service may have rejected with the text ``error``; ``None`` if nothing is likely."""
    if _ABOUT_THINKING.search(error) and _has_thinking(request_messages(history, window)):
        return without_earlier_thinking(window, len(history))
    candidates = (places - window.withheld for places in _candidates(history, window, error))
    rejected = next(filter(None, candidates), None)
    return None if rejected is None else replace(window, withheld=window.withheld | rejected, tokens=0, counted=0)


def rejected_tool(tools: Sequence[ToolSpec], error: str) -> ToolSpec | None:
    """The one of the ``tools`` of a request that the service has rejected with the text ``error``, by its place or its
    name."""
    if found := _TOOL.search(error):
        index = int(found[1])
        return tools[index] if index < len(tools) else None
    if _MESSAGE.search(error):
        return None  # a call of a tool, not the tool
    words = set(_WORD.findall(error)) if "tool" in error.lower() else set[str]()
    named = [tool for tool in tools if "_" in tool.name and tool.name in words]
    return named[0] if len(named) == 1 else None


def _candidates(history: Sequence[Message], window: ContextWindow, error: str) -> Iterator[frozenset[Place]]:
    """What may have been rejected, the likeliest first."""
    if found := _MESSAGE.search(error):
        named = _indices_of_turn(history, window, int(found[1]))
        yield _places(history, named, _has_image)
        yield _places(history, named, _is_result)
    # The service has accepted what came before the last reply.
    yield _places(history, range(max(window.start, window.counted), len(history)), _has_image)
    if _ABOUT_IMAGES.search(error):
        yield _places(history, range(window.start, len(history)), _has_image)


def _places(
    history: Sequence[Message], indices: Iterable[int], is_suspect: Callable[[Block], bool]
) -> frozenset[Place]:
    return frozenset(
        (index, number) for index in indices for number, block in enumerate(history[index].content) if is_suspect(block)
    )


def _indices_of_turn(history: Sequence[Message], window: ContextWindow, turn: int) -> list[int]:
    """The messages of the history that are in message ``turn`` of the request, which joins messages of one role."""
    turns: list[list[int]] = [[-1]] if window.summary else []
    last = "user" if window.summary else ""
    for index in range(window.start, len(history)):
        role = history[index].role
        if role == last:
            turns[-1].append(index)
        else:
            turns.append([index])
        last = role
    return [index for index in turns[turn] if index >= 0] if turn < len(turns) else []


def _has_image(block: Block) -> bool:
    return isinstance(block, Image) or (isinstance(block, ToolResult) and bool(block.images))


def _is_result(block: Block) -> bool:
    return isinstance(block, ToolResult)


def _has_thinking(messages: Sequence[Message]) -> bool:
    return any(isinstance(block, Thinking) for message in messages for block in message.content)
