"""An accepted prompt, and the result of its turn."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from deputy_agents.domain.event import TurnError
from deputy_agents.domain.message import Block, Image, Usage

Origin = Literal["user", "task_end", "command"]

Work: TypeAlias = Callable[[], Awaitable[str]]
"""What a turn does in place of a prompt to the model. Returns what the user sees of it."""


@dataclass(frozen=True, slots=True)
class CommandResult:
    """What a slash command has done before its turn, which shows ``text``: the ``prompt`` that was gone back over, and
    the id of a session that was ``forked``."""

    text: str
    prompt: tuple[Block, ...] | None = None
    forked: str | None = None

    async def shown(self) -> str:
        """The :data:`Work` of the turn."""
        return self.text


@dataclass(frozen=True, slots=True)
class TurnResult:
    """The end of a turn. ``stop_reason`` is end_turn, max_tokens, max_turn_requests, refusal, cancelled, or error; only
    the last has an ``error``. ``usage`` is the primary's in this turn."""

    stop_reason: str
    usage: Usage
    error: TurnError | None = None


@dataclass(slots=True)
class Turn:
    """An accepted prompt: queued, running, or finished."""

    turn_id: str
    blocks: tuple[Block, ...]
    origin: Origin
    text: str = ""
    """The prompt as the user sees it."""
    written: tuple[Block, ...] = ()
    """The prompt as the user wrote it."""
    cancelled: bool = False
    """The user cancelled the turn before it started."""
    work: Work | None = None
    command: CommandResult | None = None
    """What a slash command has done before the turn."""
    usage_before: Usage = field(default_factory=Usage)
    outcome: TurnResult | None = None
    sent_back: "Turn | None" = None
    """The turn that continues this one, if a hook at its end sent the agent back to work."""
    _done: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def pictures(self) -> int:
        """The number of images in the prompt."""
        return sum(isinstance(block, Image) for block in self.blocks)

    def finish(self, outcome: TurnResult) -> None:
        self.outcome = outcome
        self._done.set()

    def used(self, total: Usage) -> Usage:
        """The usage of this turn, from the primary's ``total``."""
        return total.since(self.usage_before)

    async def result(self) -> TurnResult:
        """Waits until the turn has finished and all its events are published."""
        await self._done.wait()
        if self.outcome is None:
            raise AssertionError("a finished turn has an outcome")
        return self.outcome
