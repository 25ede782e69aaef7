"""The body of a request to the Messages API, made in the plainest way: one object, without any cache."""

from collections.abc import Sequence

from deputy_agents.domain.message import Message
from deputy_agents.model.request_params import CACHED, Param, block_params, head_params
from deputy_agents.ports.model import ModelRequest


def plain_body(request: ModelRequest) -> Param:
    """What ``RequestBodies.encode`` encodes."""
    turns = _turns(request.messages)
    for _, blocks in [turn for turn in turns if turn[0] == "user"][-2:]:
        blocks[-1]["cache_control"] = CACHED
    return {**head_params(request), "messages": [{"role": role, "content": blocks} for role, blocks in turns]}


def _turns(messages: Sequence[Message]) -> list[tuple[str, list[Param]]]:
    """Messages as the API requires them: roles alternate, none is empty, and tool results come first."""
    turns: list[tuple[str, list[Param]]] = []
    for message in messages:
        blocks = [param for block in message.content for param in block_params(block)]
        if not blocks:
            continue
        if turns and turns[-1][0] == message.role:
            turns[-1][1].extend(blocks)
        else:
            turns.append((message.role, blocks))
    for _, blocks in turns:
        blocks.sort(key=lambda block: block["type"] != "tool_result")
    if turns and turns[-1][0] == "assistant":
        _strip_end(turns[-1][1][-1])
    return turns


def _strip_end(block: Param) -> None:
    """Removes trailing whitespace, which the API rejects in a reply that the model continues."""
    if isinstance(text := block.get("text"), str):
        block["text"] = text.rstrip()
