"""The turn as the offline model sees it: its task, the tool calls made for it, and their results."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from deputy_agents.domain.ids import new_id
from deputy_agents.domain.message import Message, Text, ToolResult, ToolUse, tool_uses
from deputy_agents.ports.model import ModelRequest

_TASK_LENGTH = 4000


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call of this turn and its result."""

    name: str
    input: Mapping[str, object]
    result: str
    is_error: bool

    def text(self, key: str) -> str:
        """An input as text; empty when it is missing."""
        return str(self.input.get(key, ""))


@dataclass(frozen=True, slots=True)
class Turn:
    """``rounds`` is the number of replies that the model has already sent in this turn."""

    task: str
    tools: frozenset[str]
    calls: tuple[Call, ...]
    rounds: int

    def made(self, name: str) -> list[Call]:
        return [call for call in self.calls if call.name == name]


@dataclass(frozen=True, slots=True)
class Move:
    """The next reply: ``text`` and tool ``calls``. A move without calls ends the turn."""

    text: str
    calls: tuple[ToolUse, ...] = ()


def use(name: str, **input: object) -> ToolUse:
    return ToolUse(f"toolu_{new_id()}", name, input)


def read_turn(request: ModelRequest) -> Turn:
    """The turn that began with the user's last prompt."""
    messages = request.messages
    start = max((index for index, message in enumerate(messages) if _is_prompt(message)), default=len(messages))
    answers = messages[start + 1 :]
    return Turn(
        task=_task(messages[start]) if start < len(messages) else "",
        tools=frozenset(tool.name for tool in request.tools),
        calls=tuple(_calls(answers)),
        rounds=sum(message.role == "assistant" for message in answers),
    )


def _is_prompt(message: Message) -> bool:
    """Text beside tool results is additional information, not a new task."""
    return (
        message.role == "user"
        and bool(_task(message))
        and not any(isinstance(block, ToolResult) for block in message.content)
    )


def _task(message: Message) -> str:
    texts = (block.text.strip() for block in message.content if isinstance(block, Text))
    return next(filter(None, texts), "")[:_TASK_LENGTH]


def _calls(messages: Sequence[Message]) -> list[Call]:
    results = {
        block.tool_use_id: block for message in messages for block in message.content if isinstance(block, ToolResult)
    }
    return [
        Call(use.name, use.input, result.content, result.is_error)
        for message in messages
        if message.role == "assistant"
        for use in tool_uses(message)
        if (result := results.get(use.id)) is not None
    ]


# -- tool results --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Hit:
    """A matching line; ``line`` counts from 1."""

    path: str
    line: int
    text: str


_HIT = re.compile(r"^(?P<path>[^:\n]+):(?P<line>\d+):(?P<text>.*)$", re.MULTILINE)
_NUMBERED = re.compile(r"^ *(?P<line>\d+)(?:\t|: ?| ?[|│→] ?| {2})(?P<text>.*)$", re.MULTILINE)


def hits_of(call: Call) -> list[Hit]:
    """The hits in the result of a ``grep``."""
    if call.is_error:
        return []
    return [Hit(match["path"], int(match["line"]), match["text"]) for match in _HIT.finditer(call.result)]


def numbered_lines(call: Call) -> dict[int, str]:
    """The lines in the result of a ``read_file`` by line number."""
    if call.is_error:
        return {}
    return {int(match["line"]): match["text"] for match in _NUMBERED.finditer(call.result)}


def names_of(call: Call) -> list[str]:
    """The entries in the result of a ``glob`` or ``list_dir``."""
    if call.is_error:
        return []
    lines = (line.strip() for line in call.result.splitlines())
    # Notes about omitted entries are sentences in brackets or parentheses.
    return [line for line in lines if line and line[0] not in "([" and not line.endswith((".", ":"))]
