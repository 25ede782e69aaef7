"""Whether a request of a conversation begins with the bytes of the one before, so that a provider's cache is hit."""

import json
from typing import Any

from tests.support.api_rules import Json, blocks_of


def misses(before: Json, after: Json) -> list[str]:
    """Why the cache that ``before`` has written would not serve ``after``; empty when it would."""
    found: list[str] = []
    if _head(before) != _head(after):
        found.append("tools or system differ")
    old, new = _flat(before), _flat(after)
    if new[: len(old)] != old:
        found.append("the messages do not begin with those of the request before")
    written, read = _marks(before), _marks(after)
    if written and max(written) not in read:
        found.append("no breakpoint stands where the request before had its last one")
    return found


def _head(body: Json) -> str:
    return json.dumps([body.get("tools"), body.get("system")])


def _flat(body: Json) -> list[str]:
    """Every block with its role, as it is sent but for the breakpoints, which are no part of what is cached."""
    blocks = [(message["role"], block) for message in body["messages"] for block in blocks_of(message)]
    return [json.dumps([role, _bare(block)]) for role, block in blocks]


def _bare(block: Json) -> dict[str, Any]:
    return {name: value for name, value in block.items() if name != "cache_control"}


def _marks(body: Json) -> list[int]:
    blocks = [block for message in body["messages"] for block in blocks_of(message)]
    return [index for index, block in enumerate(blocks) if "cache_control" in block]
