"""What an agent's model receives of its history, as pure functions.

The history itself only grows. When it outgrows the context window of the model, compaction replaces its first part, in
requests only, by a text with the task, the messages of the user, a summary and the files used. A cut never separates a
tool call from its result. In the same way, a text replaces what the service rejects.

Thinking is bound to everything before it: providers reject a request that repeats it after the prompt, the tools or
earlier messages have changed. So thinking from before such a change is left out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias, cast

from deputy_agents.domain.message import Block, Image, Message, Text, Thinking, ToolResult, ToolUse, Usage
from deputy_agents.ports.store import ContextRecord

Place: TypeAlias = tuple[int, int]
"""A block of the history: the index of its message, and its index in the message."""

_BYTES_PER_TOKEN = 3.5
_IMAGE_TOKENS = 1600
_BLOCK_TOKENS = 10

_MAX_REPLY_SHARE = 4
"""A reply has at most this part of the window."""
_MAX_REPLY_SHARE_OF_ROOM = 3
"""A reply also has at most this part of what the prompt and the tools leave, which is little in a small window."""
_SUMMARY_SHARE = 8
_MAX_SUMMARY = 8192
_COMPACT_ABOVE = 0.85
"""The share of the room for the history above which it is compacted. It leaves a margin, as sizes are estimates."""
_KEEP = 0.25
"""The share of the room that compaction keeps unchanged."""
_RESULTS = 0.4
"""The share of the room that the results of one reply may have together."""
_REPLACEMENT = 0.25
"""The share of the room that the text of a compaction may have."""
_MIN_ROOM = 400
"""Tokens that a history has room for even if the prompt and the tools nearly fill the window."""

MAX_IMAGES = 100
"""Images that services accept in one request."""
MAX_IMAGE_BYTES = 20 * 1024 * 1024
"""The most bytes that all images of a request may have together after base64 encoding: services accept 32 MB."""

PLAN_TOOL = "todo"
"""The tool with which agents keep a plan."""

_MAX_TASK = 8_000
_MAX_USER_MESSAGE = 2_000
_MAX_USER_MESSAGES = 20
_MAX_FILES = 60


@dataclass(frozen=True, slots=True)
class Sizes:
    """What follows from the size of the model's context window, in tokens. ``reply`` is the most that a reply may have,
    ``frame`` the size of the prompt and the tools, and ``room`` what is left for the history."""

    reply: int
    frame: int
    room: int

    @property
    def full(self) -> int:
        """The size of a request above which the history is compacted."""
        return self.frame + int(_COMPACT_ABOVE * self.room)

    @property
    def keep(self) -> int:
        """What compaction keeps unchanged."""
        return int(_KEEP * self.room)

    @property
    def summary(self) -> int:
        """The most that the model's summary may have."""
        return min(_MAX_SUMMARY, self.reply, max(_MIN_ROOM // 2, self.room // _SUMMARY_SHARE))

    @property
    def results(self) -> int:
        """The most that the results of one reply may have together, in bytes."""
        return int(_RESULTS * self.room * _BYTES_PER_TOKEN)

    @property
    def replacement(self) -> int:
        """The most that the text of a compaction may have, in characters."""
        return int(_REPLACEMENT * self.room * _BYTES_PER_TOKEN)


def sizes(window: int, max_tokens: int, frame: int) -> Sizes:
    """The sizes for a context window of ``window`` tokens and a setting of at most ``max_tokens`` for a reply."""
    reply = max(1, min(max_tokens, window // _MAX_REPLY_SHARE, (window - frame) // _MAX_REPLY_SHARE_OF_ROOM))
    return Sizes(reply, frame, max(_MIN_ROOM, window - reply - frame))


@dataclass(frozen=True, slots=True)
class ContextWindow:
    """``summary`` replaces the messages before ``start``; thinking before ``thinking_start`` is left out; a text
    replaces the ``withheld`` blocks, and the images before ``image_start``. ``tokens`` is the size of the last request
    with its reply, as the provider counted; it covers the messages before ``counted``."""

    summary: str = ""
    start: int = 0
    thinking_start: int = 0
    withheld: frozenset[Place] = frozenset()
    tokens: int = 0
    counted: int = 0
    image_start: Place = (0, 0)


def request_messages(history: Sequence[Message], window: ContextWindow) -> tuple[Message, ...]:
    """The messages of the next request."""
    sent = [Message("user", (Text(window.summary),))] if window.summary else []
    held = {index for index, _ in window.withheld}
    for index, message in enumerate(history[window.start :], window.start):
        kept = _with_withheld(message, index, window.withheld) if index in held else message
        if index <= window.image_start[0]:
            kept = _without_images(kept, index, window.image_start)
        sent.append(_without_thinking(kept) if index < window.thinking_start else kept)
    return tuple(sent)


def to_record(agent_id: str, frame: str, window: ContextWindow) -> ContextRecord:
    """What is stored of ``window``."""
    return ContextRecord(
        agent_id, frame, window.summary, window.start, window.thinking_start, tuple(sorted(window.withheld))
    )


def from_record(record: ContextRecord, length: int) -> ContextWindow:
    """The window that was stored; the history has ``length`` messages, which may be fewer after a crash."""
    if record.start > length:
        return ContextWindow(thinking_start=length)
    return ContextWindow(record.summary, record.start, record.thinking_start, frozenset(record.withheld))


def with_bounded_images(history: Sequence[Message], window: ContextWindow) -> ContextWindow:
    """The window without the oldest images, if there are more than services accept in one request. Half of them are
    left out at once, because each change costs the service's cache."""
    images: list[tuple[Place, int, int]] = []
    for index, message in enumerate(history[window.start :], window.start):
        for number, block in enumerate(message.content):
            place = (index, number)
            found = _images(block) if place >= window.image_start and place not in window.withheld else ()
            if found:
                images.append((place, len(found), sum(len(image.data) for image in found)))
    count, size = sum(count for _, count, _ in images), sum(size for _, _, size in images)
    if count <= MAX_IMAGES and size <= MAX_IMAGE_BYTES:
        return window
    start = window.image_start
    for place, of_block, size_of_block in images:
        if count <= MAX_IMAGES // 2 and size <= MAX_IMAGE_BYTES // 2:
            break
        count, size = count - of_block, size - size_of_block
        start = (place[0], place[1] + 1)
    return replace(window, image_start=start, tokens=0, counted=0)


WITHHELD = "[Left out: the model service rejected this.]"


TOO_MANY_IMAGES = "[Left out: an earlier image. Read it again if you need it.]"


def _with_withheld(message: Message, index: int, withheld: frozenset[Place]) -> Message:
    content = [
        _replacement(block) if (index, number) in withheld else block for number, block in enumerate(message.content)
    ]
    return replace(message, content=tuple(content))


def _replacement(block: Block, why: str = WITHHELD) -> Block:
    match block:
        case ToolResult(images=images, content=text) if images:
            return replace(block, images=(), content=f"{text}\n{why}".strip())
        case ToolResult():
            return replace(block, content=why)
        case ToolUse():
            return replace(block, input={})
        case _:
            return Text(why)


def _without_images(message: Message, index: int, start: Place) -> Message:
    content = tuple(
        _replacement(block, TOO_MANY_IMAGES) if (index, number) < start and _images(block) else block
        for number, block in enumerate(message.content)
    )
    return replace(message, content=content)


def _images(block: Block) -> tuple[Image, ...]:
    match block:
        case Image():
            return (block,)
        case ToolResult(images=images):
            return images
        case _:
            return ()


def without_earlier_thinking(window: ContextWindow, length: int) -> ContextWindow:
    """The window after the prompt, the tools or the model have changed; the history has ``length`` messages."""
    return replace(window, thinking_start=length, tokens=0, counted=0)


def with_usage(window: ContextWindow, usage: Usage, length: int) -> ContextWindow:
    """The window after a reply, with which the history has ``length`` messages."""
    prompt = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
    return replace(window, tokens=prompt + usage.output_tokens, counted=length) if prompt else window


def request_size(history: Sequence[Message], window: ContextWindow, frame_tokens: int) -> int:
    """Tokens of the next request: the provider's count, plus an estimate of what is new. ``frame_tokens`` are those of
    the prompt and the tools."""
    if window.counted > window.start:
        return window.tokens + estimate(history[window.counted :])
    return frame_tokens + estimate(request_messages(history, window))


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


def compacted(
    history: Sequence[Message], window: ContextWindow, at: int, summary: str, max_length: int = 2**20, keep: str = ""
) -> ContextWindow:
    """The window in which a text of about ``max_length`` characters replaces the messages before ``at``. ``summary`` is
    the model's, and may be empty; ``keep`` is what the user wants to keep."""
    parts = [
        _HEAD,
        *_user_messages(history[:at], max_length // 2),
        *([f"## To keep, as the user asked\n\n{_shortened(keep, _MAX_USER_MESSAGE)}"] if keep else []),
        *([f"## Work and decisions so far\n\n{_shortened(summary, max_length // 2)}"] if summary else []),
        *_open_work(history, max_length // 8),
        *_files(history[:at], max_length // 8),
    ]
    withheld = frozenset(place for place in window.withheld if place[0] >= at)
    return ContextWindow("\n\n".join(parts), start=at, thinking_start=len(history), withheld=withheld)


def cleared(history: Sequence[Message]) -> ContextWindow:
    """The window that leaves out the whole history."""
    return ContextWindow(start=len(history), thinking_start=len(history))


def named_paths(messages: Sequence[Message]) -> set[str]:
    """The paths named in calls, as the model wrote them."""
    return {
        path
        for message in messages
        for block in message.content
        if isinstance(block, ToolUse) and isinstance(path := block.input.get("path"), str)
    }


def summary_messages(
    history: Sequence[Message], window: ContextWindow, at: int, room: int, keep: str = ""
) -> tuple[Message, ...] | None:
    """The messages of the request for a summary of the messages before ``at``: as many of the last ones as ``room``
    tokens hold. ``None`` when not even the last one fits. ``keep`` is what the user wants to keep."""
    text = f"{SUMMARY_REQUEST}{_KEEP_REQUEST.format(_shortened(keep, _MAX_USER_MESSAGE)) if keep else ''}"
    prompt = Message("user", (Text(text),))
    messages = request_messages(history[:at], window)
    if estimate((*messages, prompt)) > room:
        start = cut_index(history[:at], window.start, room - estimate((_LEFT_OUT, prompt)))
        if start is None:
            return None
        messages = (_LEFT_OUT, *request_messages(history[:at], replace(window, summary="", start=start)))
    return None if estimate((*messages, prompt)) > room else (*messages, prompt)


SUMMARY_REQUEST = (
    "This conversation is about to exceed your context window. Write down, for yourself, what you need to continue "
    "without its earlier part: the goal, decisions and their reasons, what was changed and where, facts found with "
    "file and line, what failed, and what remains to be done. Be complete and brief. Call no tool; answer in text only."
)
_KEEP_REQUEST = "\n\nThe user wants you to keep in particular: {}"

_HEAD = (
    "The earlier part of this conversation was removed to free your context window. This is what is known of it; the "
    "conversation continues right after it."
)
_READ_AGAIN = (
    "You no longer have what is in these files. Read a file again before you rely on it or change it: an edit of a "
    "file that you have not read again is rejected."
)


_LEFT_OUT = Message("user", (Text("[The earlier part of this conversation is left out.]"),))


def _user_messages(messages: Sequence[Message], max_length: int) -> list[str]:
    """The task, and the latest of the user's later messages."""
    texts = [text for message in messages if message.role == "user" and (text := message.text.strip())]
    if not texts:
        return []
    task, later = texts[0], texts[1:]
    parts = [f"## The task, as it was given\n\n{_shortened(task, min(_MAX_TASK, max_length))}"]
    left = max_length - len(parts[0])
    quotes: list[str] = []
    for text in reversed(later[-_MAX_USER_MESSAGES:]):
        quote = f"> {_shortened(text, min(_MAX_USER_MESSAGE, max_length // 4))}"
        left -= len(quote)
        if left < 0:
            break
        quotes.insert(0, quote)
    if quotes:
        parts.append("## Later messages\n\n" + "\n\n".join(quotes))
    return parts


def _open_work(history: Sequence[Message], max_length: int) -> list[str]:
    """The latest plan, as far as it is not done."""
    plans = [
        block.input.get("entries")
        for message in history
        for block in message.content
        if isinstance(block, ToolUse) and block.name == PLAN_TOOL
    ]
    entries = cast("list[object]", plans[-1]) if plans and isinstance(plans[-1], list) else []
    steps = (cast("Mapping[str, object]", entry) for entry in entries if isinstance(entry, dict))
    left = [f"- {step.get('content')} ({step.get('status', 'pending')})" for step in steps if not _is_done(step)]
    return ["## Open work, from your plan\n\n" + _shortened("\n".join(left), max_length)] if left else []


def _is_done(step: Mapping[str, object]) -> bool:
    return step.get("status") == "completed"


def _files(messages: Sequence[Message], max_length: int) -> list[str]:
    """The files named in calls, the latest last."""
    paths: dict[str, str] = {}
    for message in messages:
        for block in message.content:
            if isinstance(block, ToolUse) and isinstance(path := block.input.get("path"), str):
                paths.pop(path, None)
                paths[path] = block.name
    if not paths:
        return []
    lines: list[str] = []
    for path, tool in reversed(list(paths.items())[-_MAX_FILES:]):
        lines.insert(0, f"- {path} ({tool})")
        max_length -= len(lines[0])
        if max_length < 0:
            break
    return [f"## Files, with the last tool used on each\n\n{_READ_AGAIN}\n\n" + "\n".join(lines)]


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
