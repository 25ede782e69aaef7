"""Which parts of a model's message go into the history."""

from dataclasses import replace

from deputy_agents.domain.message import Block, Message, Reply, StopReason, Text, Thinking, ToolUse


def sendable(reply: Reply) -> Message:
    """The message of ``reply`` without the blocks that must not be sent back: empty text, unsigned thinking, and
    thinking at the end of the message, which providers reject. A refusal also loses its tool calls."""
    content = [block for block in reply.message.content if not _unsendable(block)]
    if reply.stop_reason is StopReason.REFUSAL:
        content = [block for block in content if not isinstance(block, ToolUse)]
    while content and isinstance(content[-1], Thinking):
        content.pop()
    return replace(reply.message, content=tuple(content))


def text_only(partial: Message) -> Message:
    """The text of a message that was cut off; its thinking and its tool calls may be incomplete."""
    texts = tuple(block for block in partial.content if isinstance(block, Text) and block.text.strip())
    return replace(partial, content=texts)


def _unsendable(block: Block) -> bool:
    match block:
        case Text(text):
            return not text.strip()
        case Thinking(signature=None, redacted=None):
            return True
        case _:
            return False
