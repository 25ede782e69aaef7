"""What takes how much of an agent's context window, as a pure function."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from deputy_agents.domain.message import Message, ToolResult, Usage
from deputy_agents.run.context_window import estimate

PartName: TypeAlias = Literal["system", "tools", "mcp", "instructions", "messages", "results", "free"]


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a context window, in tokens."""

    name: PartName
    tokens: int


@dataclass(frozen=True, slots=True)
class ContextUsage:
    """The next request of an agent, in tokens. ``parts`` add up to ``window``, unless ``used`` is more than that.
    ``cached_share`` is the part of the last request that came from the provider's cache; ``None`` before there is one.
    Above ``compacts_at`` the history is compacted."""

    window: int
    used: int
    parts: tuple[Part, ...]
    compacts_at: int
    cached_share: float | None = None


@dataclass(frozen=True, slots=True)
class Estimates:
    """The estimated sizes of all parts but the free one, in tokens."""

    system: int
    tools: int
    mcp: int
    instructions: int
    messages: int
    results: int


@dataclass(frozen=True, slots=True)
class Compaction:
    """The size of the next request before and after a compaction, in tokens. It is not ``done`` if the conversation is
    too short."""

    before: int
    after: int
    done: bool


def context_usage(window: int, used: int, estimates: Estimates, compacts_at: int, last: Usage | None) -> ContextUsage:
    """The usage for a request of ``used`` tokens, which the provider has counted for the most part. The estimates say
    only how it is divided. ``last`` is the usage of the last request."""
    names: tuple[PartName, ...] = ("system", "tools", "mcp", "instructions", "messages", "results")
    sizes = _divided(used, [getattr(estimates, name) for name in names])
    parts = (*map(Part, names, sizes), Part("free", max(0, window - used)))
    return ContextUsage(window, used, parts, compacts_at, _cached_share(last))


def sizes_of(messages: Sequence[Message]) -> tuple[int, int]:
    """The sizes of the messages without and of the tool results in ``messages``."""
    blocks = [tuple(block for block in one.content if isinstance(block, ToolResult)) for one in messages]
    results = estimate([replace(one, content=found) for one, found in zip(messages, blocks, strict=True)])
    return estimate(messages) - results, results


def _divided(total: int, shares: Sequence[int]) -> list[int]:
    """``total`` in the proportions of ``shares``; the parts add up to it."""
    whole = sum(shares) or 1
    parts = [total * share // whole for share in shares]
    largest = max(range(len(parts)), key=parts.__getitem__)
    parts[largest] += total - sum(parts)
    return parts


def _cached_share(last: Usage | None) -> float | None:
    if last is None:
        return None
    prompt = last.input_tokens + last.cache_read_tokens + last.cache_write_tokens
    return last.cache_read_tokens / prompt if prompt else None
