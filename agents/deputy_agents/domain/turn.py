"""A prompt on its way through a session, and how it ended."""

import asyncio
from dataclasses import dataclass, field
from typing import Literal

from deputy_agents.domain.event import TurnError
from deputy_agents.domain.message import Block, Image, Usage

Origin = Literal["user", "task_end", "command"]


@dataclass(frozen=True, slots=True)
class TurnResult:
    """How a turn ended. ``stop_reason`` is end_turn, max_tokens, max_turn_requests, refusal, cancelled, or error, then
    with ``error``; ``usage`` is what the primary used in this turn."""

    stop_reason: str
    usage: Usage
    error: TurnError | None = None


@dataclass(slots=True)
class Turn:
    """An accepted prompt: queued, running, or over."""

    turn_id: str
    blocks: tuple[Block, ...]
    origin: Origin
    text: str = ""
    """The prompt as people see it."""
    cancelled: bool = False
    """The user had cancelled it before it began."""
    usage_before: Usage = field(default_factory=Usage)
    outcome: TurnResult | None = None
    sent_back: "Turn | None" = None
    """What goes on where hooks at the end of this one have sent the agent back to work."""
    _done: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def pictures(self) -> int:
        """How many go with the prompt."""
        return sum(isinstance(block, Image) for block in self.blocks)

    def settle(self, outcome: TurnResult) -> None:
        self.outcome = outcome
        self._done.set()

    def used(self, total: Usage) -> Usage:
        """What the turn has used, of the primary's ``total``."""
        return total.since(self.usage_before)

    async def result(self) -> TurnResult:
        """Waits until the turn is over and everything about it is published."""
        await self._done.wait()
        if self.outcome is None:
            raise AssertionError("a settled turn has an outcome")
        return self.outcome
