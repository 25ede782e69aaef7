"""What keeps the prompt cache of a provider valid: an agent's requests that start with the same bytes, and how long the
cache lasts."""

from collections.abc import Collection, Sequence
from dataclasses import replace

from deputy_agents.definition.definition import MCP_PREFIX
from deputy_agents.domain.message import Message, tool_uses
from deputy_agents.ports.model import ModelRequest

LONG_WAIT = 60.0
"""Seconds between two requests of an agent after which it is taken for one that waits: for its sub-agents, or for the
user."""


class PromptCache:
    """The order of one agent's tools, and how long the cache of its requests lasts.

    The cache of a prompt with delegation tools lasts for an hour, because its agent can wait for sub-agents. That of
    the messages does so once the agent has started sub-agents or has waited: writing it costs more, so other agents,
    which send one request after the other, do not.
    """

    def __init__(self) -> None:
        self._order: dict[str, None] = {}
        """Names of all tools so far."""
        self._seen = 0
        """Messages of the history that were searched for delegations."""
        self._waits = False
        self._last: float | None = None

    def ordered(self, names: Collection[str]) -> list[str]:
        """``names`` of tools in the order of the request: the tools of earlier requests stay where they are, new ones
        follow, those of MCP servers last. The order after a restart is the same if all were there from the start."""
        new = sorted(set(names) - self._order.keys(), key=lambda name: (name.startswith(MCP_PREFIX), name))
        self._order |= dict.fromkeys(new)
        return [name for name in self._order if name in names]

    def with_lifetime(
        self, request: ModelRequest, history: Sequence[Message], delegation_tools: Collection[str], now: float
    ) -> ModelRequest:
        """``request``, sent at ``now`` (seconds of a monotonic clock), with the lifetime of its cache."""
        if self._last is not None and now - self._last > LONG_WAIT:
            self._waits = True
        self._last = now
        if not self._waits:
            new = history[self._seen :]
            self._waits = any(use.name in delegation_tools for message in new for use in tool_uses(message))
        self._seen = len(history)
        delegates = bool(delegation_tools)
        return replace(request, long_cache_of_head=delegates, long_cache_of_messages=delegates and self._waits)
