"""The offline model."""

from collections.abc import AsyncGenerator, Iterator

import anyio
from anyio import to_thread

from deputy_agents.domain.message import Block, Message, Reply, StopReason, Text
from deputy_agents.model.offline.delegation import INTRODUCTION, delegation_step
from deputy_agents.model.offline.edit_request import edit_request
from deputy_agents.model.offline.replace import replace_step, without_instructions
from deputy_agents.model.offline.search import search_step
from deputy_agents.model.offline.turn import Move, Turn, read_turn
from deputy_agents.model.offline.words import is_greeting
from deputy_agents.ports.model import ModelEvent, ModelRequest, TextPart

OFFLINE = "offline"
"""The name of this model."""

_MAX_ROUNDS = 8
_MAX_PARTS = 150
_PART_LENGTH = 12


class OfflineModel:
    """A :class:`deputy_agents.ports.model.Model`.

    ``think`` is the delay before a reply and ``pace`` the delay between its parts, in seconds. They make the output
    look natural; tests set both to zero.
    """

    def __init__(self, *, think: float = 0.25, pace: float = 0.015) -> None:
        self._think = think
        self._pace = pace

    async def prepare(self) -> None:
        """There is nothing to wait for."""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        move = await to_thread.run_sync(_next_move, read_turn(request))  # it may parse long files
        await anyio.sleep(self._think)
        for part in _parts(move.text):
            yield TextPart(part)
            await anyio.sleep(self._pace)
        content: tuple[Block, ...] = (Text(move.text), *move.calls)
        yield Reply(Message("assistant", content), StopReason.TOOL_USE if move.calls else StopReason.END_TURN)


def _next_move(turn: Turn) -> Move:
    if turn.rounds >= _MAX_ROUNDS:
        return Move("I stop here: I have no rule for these tool results.")
    wanted = edit_request(without_instructions(turn.task))
    if is_greeting(turn.task):
        return Move(INTRODUCTION)
    if "spawn_agent" in turn.tools:
        return delegation_step(turn, wanted)
    return replace_step(turn, wanted) if wanted else search_step(turn)


def _parts(text: str) -> Iterator[str]:
    size = max(_PART_LENGTH, len(text) // _MAX_PARTS + 1)
    for at in range(0, len(text), size):
        yield text[at : at + size]
