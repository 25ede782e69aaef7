"""What an agent's model receives of its history, as pure functions.

The history itself only grows. When it outgrows the context window of the model, compaction replaces its first part, in
requests only, by a text with the task, the messages of the user, a summary and the files used. A cut never separates a
tool call from its result.

Thinking is bound to everything before it: providers reject a request that repeats it after the prompt, the tools or
earlier messages have changed. So thinking from before such a change is left out.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from deputy_agents.domain.message import Block, Image, Message, Text, Thinking, ToolResult, ToolUse, Usage

_BYTES_PER_TOKEN = 3.5
_IMAGE_TOKENS = 1600
_BLOCK_TOKENS = 10

_MAX_TASK = 8_000
_MAX_USER_MESSAGE = 2_000
_MAX_USER_MESSAGES = 20
_MAX_FILES = 60


@dataclass(frozen=True, slots=True)
class ContextWindow:
    """``summary`` replaces the messages before ``start``; thinking before ``thinking_start`` is left out. ``tokens`` is
    the size of the last request with its reply, as the provider counted; it covers the messages before ``counted``."""

    summary: str = ""
    start: int = 0
    thinking_start: int = 0
    tokens: int = 0
    counted: int = 0


def request_messages(history: Sequence[Message], window: ContextWindow) -> tuple[Message, ...]:
    """The messages of the next request."""
    summary = (Message("user", (Text(window.summary),)),) if window.summary else ()
    old = map(_without_thinking, history[window.start : window.thinking_start])
    return (*summary, *old, *history[max(window.start, window.thinking_start) :])


def without_earlier_thinking(window: ContextWindow, length: int) -> ContextWindow:
    """The window after the prompt, the tools or the model have changed; the history has ``length`` messages."""
    return replace(window, thinking_start=length, tokens=0, counted=0)


def with_usage(window: ContextWindow, usage: Usage, length: int) -> ContextWindow:
    """The window after a reply, with which the history has ``length`` messages."""
    prompt = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
    return replace(window, tokens=prompt + usage.output_tokens, counted=length) if prompt else window


def request_size(history: Sequence[Message], window: ContextWindow, frame_tokens: Callable[[], int]) -> int:
    """Tokens of the next request: the provider's count, plus an estimate of what is new. ``frame_tokens`` returns those
    of the prompt and the tools."""
    if window.counted > window.start:
        return window.tokens + estimate(history[window.counted :])
    return frame_tokens() + estimate(request_messages(history, window))


def estimate(messages: Sequence[Message]) -> int:
    """Tokens of ``messages``."""
    return sum(_tokens(block) for message in messages for block in message.content)


def tokens_of(text: str) -> int:
    return int(len(text.encode("utf-8", "replace")) / _BYTES_PER_TOKEN)


def cut_index(history: Sequence[Message], start: int, keep: int) -> int | None:
    """The index after ``start`` from which messages are kept: the lowest that keeps at most ``keep`` tokens, else the
    highest possible. ``None`` when nothing can be cut."""
    found: int | None = None
    tokens = 0
    for index in range(len(history) - 1, start, -1):
        tokens += estimate(history[index : index + 1])
        if any(isinstance(block, ToolResult) for block in history[index].content):
            continue  # its calls are in the message before
        if found is not None and tokens > keep:
            break
        found = index
    return found


def compacted(history: Sequence[Message], at: int, summary: str) -> ContextWindow:
    """The window in which a text replaces the messages before ``at``. ``summary`` is the model's, and may be empty."""
    parts = [
        _HEAD,
        *_user_messages(history[:at]),
        *([f"## Work and decisions so far\n\n{summary}"] if summary else []),
        *_files(history[:at]),
    ]
    return ContextWindow("\n\n".join(parts), start=at, thinking_start=len(history))


SUMMARY_REQUEST = (
    "This conversation is about to exceed your context window. Write down, for yourself, what you need to continue "
    "without its earlier part: the goal, decisions and their reasons, what was changed and where, facts found with "
    "file and line, what failed, and what remains to be done. Be complete and brief. Call no tool; answer in text only."
)

_HEAD = (
    "The earlier part of this conversation was removed because the context window was nearly full. This is what is "
    "known of it; the conversation continues right after it."
)


def _user_messages(messages: Sequence[Message]) -> list[str]:
    """The task, and the latest of the user's later messages."""
    texts = [text for message in messages if message.role == "user" and (text := message.text.strip())]
    if not texts:
        return []
    task, later = texts[0], texts[1:]
    parts = [f"## The task, as it was given\n\n{_shortened(task, _MAX_TASK)}"]
    if later:
        quotes = "\n\n".join(f"> {_shortened(text, _MAX_USER_MESSAGE)}" for text in later[-_MAX_USER_MESSAGES:])
        parts.append(f"## Later messages\n\n{quotes}")
    return parts


def _files(messages: Sequence[Message]) -> list[str]:
    """The files named in calls, the latest last."""
    paths: dict[str, str] = {}
    for message in messages:
        for block in message.content:
            if isinstance(block, ToolUse) and isinstance(path := block.input.get("path"), str):
                paths.pop(path, None)
                paths[path] = block.name
    if not paths:
        return []
    lines = [f"- {path} ({tool})" for path, tool in list(paths.items())[-_MAX_FILES:]]
    return ["## Files, with the last tool used on each\n\n" + "\n".join(lines)]


def _shortened(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[:length]} […]"


def _without_thinking(message: Message) -> Message:
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
