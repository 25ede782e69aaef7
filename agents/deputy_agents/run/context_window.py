"""What of an agent's history its model is sent, as pure functions.

The history itself only grows. When it gets too long for the model's window, its first part is replaced, in what is
sent, by a text that keeps the task, the user's words, what was decided and the files that were touched. The cut never
parts a tool call from its result.

Reasoning is bound to all that stands before it: providers refuse a request that sends it back behind a prompt, tools or
messages that have changed since. So it is left out of messages from before such a change.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from deputy_agents.domain.message import Block, Image, Message, Text, Thinking, ToolResult, ToolUse, Usage

_BYTES_PER_TOKEN = 3.5
_IMAGE_TOKENS = 1600
_BLOCK_TOKENS = 10

_TASK_LENGTH = 8_000
_WORDS_LENGTH = 2_000
_MAX_FILES = 60


@dataclass(frozen=True, slots=True)
class Memory:
    """``summary`` stands for the messages before ``since``; reasoning before ``reasons_since`` is not sent.
    ``tokens`` is the size of the last request with its answer, as the model counted, up to message ``counted``."""

    summary: str = ""
    since: int = 0
    reasons_since: int = 0
    tokens: int = 0
    counted: int = 0


def shown(history: Sequence[Message], memory: Memory) -> tuple[Message, ...]:
    """The messages of the next request."""
    first = (Message("user", (Text(memory.summary),)),) if memory.summary else ()
    old = map(_without_reasons, history[memory.since : memory.reasons_since])
    return (*first, *old, *history[max(memory.since, memory.reasons_since) :])


def rebound(memory: Memory, length: int) -> Memory:
    """What stands before the messages of a history of this length has changed."""
    return replace(memory, reasons_since=length, tokens=0, counted=0)


def counted(memory: Memory, usage: Usage, length: int) -> Memory:
    """A request was answered; with the answer, the history has ``length`` messages."""
    prompt = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
    return replace(memory, tokens=prompt + usage.output_tokens, counted=length) if prompt else memory


def size(history: Sequence[Message], memory: Memory, fixed: Callable[[], int]) -> int:
    """Tokens of the next request: what was counted and an estimate of the rest; ``fixed`` gives those of prompt
    and tools."""
    if memory.counted > memory.since:
        return memory.tokens + estimate(history[memory.counted :])
    return fixed() + estimate(shown(history, memory))


def estimate(messages: Sequence[Message]) -> int:
    return sum(_tokens(block) for message in messages for block in message.content)


def tokens_of(text: str) -> int:
    return int(len(text.encode("utf-8", "replace")) / _BYTES_PER_TOKEN)


def cut(history: Sequence[Message], since: int, keep: int) -> int | None:
    """Where the part to keep begins: the longest one of at most ``keep`` tokens, else the shortest there is; ``None``
    when nothing can go."""
    found: int | None = None
    tokens = 0
    for index in range(len(history) - 1, since, -1):
        tokens += estimate(history[index : index + 1])
        if any(isinstance(block, ToolResult) for block in history[index].content):
            continue  # its calls stand before it
        if found is not None and tokens > keep:
            break
        found = index
    return found


def compacted(history: Sequence[Message], at: int, told: str) -> Memory:
    """Puts a text in place of the messages before ``at``: ``told`` is what the model says of them, and may be empty."""
    parts = [
        _HEAD,
        *_words(history[:at]),
        *([f"## What was done and decided\n\n{told}"] if told else []),
        *_files(history[:at]),
    ]
    return Memory("\n\n".join(parts), since=at, reasons_since=len(history))


SUMMARY_REQUEST = (
    "This conversation is about to outgrow your context window. Write down, for yourself, what you need to go on "
    "without its earlier part: the goal, decisions and their reasons, what was changed and where, facts found with "
    "file and line, what failed, and what remains to be done. Be complete and brief. Call no tool; answer in text only."
)

_HEAD = (
    "The earlier part of this conversation was taken out to make room. This is what is known of it; "
    "the conversation goes on right behind it."
)


def _words(messages: Sequence[Message]) -> list[str]:
    """The task in its own words, and what the user has said since."""
    said = [text for message in messages if message.role == "user" and (text := message.text.strip())]
    if not said:
        return []
    task, later = said[0], said[1:]
    parts = [f"## The task, in the words in which it was given\n\n{_shortened(task, _TASK_LENGTH)}"]
    if later:
        words = "\n\n".join(f"> {_shortened(text, _WORDS_LENGTH)}" for text in later[-20:])
        parts.append(f"## What was said since\n\n{words}")
    return parts


def _files(messages: Sequence[Message]) -> list[str]:
    """Files that were named in calls, the latest last."""
    paths: dict[str, str] = {}
    for message in messages:
        for block in message.content:
            if isinstance(block, ToolUse) and isinstance(path := block.input.get("path"), str):
                paths.pop(path, None)
                paths[path] = block.name
    if not paths:
        return []
    lines = [f"- {path} ({tool})" for path, tool in list(paths.items())[-_MAX_FILES:]]
    return ["## Files in work, with the last tool used on each\n\n" + "\n".join(lines)]


def _shortened(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[:length]} […]"


def _without_reasons(message: Message) -> Message:
    content = tuple(block for block in message.content if not isinstance(block, Thinking))
    return message if len(content) == len(message.content) else replace(message, content=content)


def _tokens(block: Block) -> int:
    match block:
        case Text(text):
            size = tokens_of(text)
        case Thinking():
            size = tokens_of(block.thinking) + tokens_of(block.signature or "") + tokens_of(block.redacted or "")
        case Image():
            size = _IMAGE_TOKENS
        case ToolUse():
            size = tokens_of(block.name) + tokens_of(str(block.input))
        case ToolResult():
            size = tokens_of(block.content) + _IMAGE_TOKENS * len(block.images)
    return size + _BLOCK_TOKENS
