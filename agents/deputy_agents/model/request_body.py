"""Encodes a :class:`ModelRequest` as the body of a request to the Messages API.

Each request of a conversation starts with the bytes of the previous one, which the provider's prompt cache requires. So
the blocks of earlier requests are kept in their encoded form as long as the history has them, and a request costs what
it adds. The event loop runs between parts of what has to be encoded.
"""

from collections import OrderedDict, deque
from collections.abc import Iterator
from dataclasses import dataclass
from weakref import ref

from anyio.lowlevel import checkpoint
from pydantic_core import to_json

from deputy_agents.concurrency.long_json import PART, json_parts
from deputy_agents.domain.message import Block, Text
from deputy_agents.model.request_params import CACHED, CACHED_LONG, block_params, head_params
from deputy_agents.ports.model import ModelRequest

MAX_KEPT = 64 * 2**20
"""Bytes of memory for blocks that are kept for later requests. The ones that were not used for the longest time go
first."""
_KEPT_BLOCK = 1000
"""About what a kept block takes besides its text, in bytes."""
_BLOCK_COST = 64
"""What a block counts for its number, in characters."""
_BREAKPOINT = b',"cache_control":' + to_json(CACHED) + b"}"
_LONG_BREAKPOINT = b',"cache_control":' + to_json(CACHED_LONG) + b"}"


@dataclass(frozen=True, slots=True)
class _Encoded:
    """A block of the API."""

    is_result: bool
    json: bytes


@dataclass(frozen=True, slots=True)
class _Kept:
    """What a block of a history was encoded as."""

    block: "ref[Block]"
    encoded: tuple[_Encoded, ...]
    size: int


@dataclass(slots=True)
class _Turn:
    """A message of the API. ``last`` is the block of the history that its last one was made from."""

    role: str
    blocks: list[_Encoded]
    last: Block
    breakpoint: bytes = b""
    """Replaces the end of the last block, if there is one."""

    def json(self) -> Iterator[bytes]:
        yield b'{"role":"%b","content":[' % self.role.encode()
        for index, block in enumerate(self.blocks):
            if index:
                yield b","
            if self.breakpoint and index == len(self.blocks) - 1:
                yield from (block.json[:-1], self.breakpoint)
            else:
                yield block.json
        yield b"]}"


class RequestBodies:
    """Encodes the requests of all conversations with one service."""

    def __init__(self) -> None:
        self._kept: OrderedDict[int, _Kept] = OrderedDict()
        """By the id of the block. Without the block, another one can have its id."""
        self._gone: deque[int] = deque()
        """The ids of blocks that no history has any more. Any thread may be the last that has one."""
        self._size = 0
        self._since_checkpoint = 0

    async def encode(self, request: ModelRequest) -> bytes:
        """The body of ``POST /v1/messages``, streaming.

        The last tool, the system text and the last block of the last two user messages have cache breakpoints. Of the
        last two, one reads what the previous request wrote and one writes for the next request.
        """
        turns = await self._turns(request)
        for turn in [turn for turn in turns if turn.role == "user"][-2:]:
            turn.breakpoint = _LONG_BREAKPOINT if request.long_cache_of_messages else _BREAKPOINT
        pieces = [to_json(head_params(request))[:-1], b',"messages":[']
        for index, turn in enumerate(turns):
            if index:
                pieces.append(b",")
            pieces += turn.json()
        return b"".join([*pieces, b"]}"])

    async def _turns(self, request: ModelRequest) -> list[_Turn]:
        """Messages as the API requires them: roles alternate, none is empty, and tool results come first."""
        turns: list[_Turn] = []
        for message in request.messages:
            for block in message.content:
                encoded = await self._encoded(block)
                if not encoded:
                    continue
                if not turns or turns[-1].role != message.role:
                    turns.append(_Turn(message.role, [], block))
                turns[-1].blocks += encoded
                turns[-1].last = block
        for turn in turns:
            turn.blocks.sort(key=lambda block: not block.is_result)
        if turns and turns[-1].role == "assistant" and isinstance(end := turns[-1].last, Text):
            # The API rejects trailing whitespace in a reply that the model continues.
            turns[-1].blocks[-1:] = await self._encode_block(Text(end.text.rstrip()))
        return turns

    async def _encoded(self, block: Block) -> tuple[_Encoded, ...]:
        """The block, or nothing if the API would reject it."""
        while self._gone:
            self._forget(self._gone.popleft())
        if (kept := self._kept.get(id(block))) is not None and kept.block() is block:
            self._kept.move_to_end(id(block))
            await self._let_others_run(0)
            return kept.encoded
        encoded = tuple(await self._encode_block(block))
        if encoded:
            self._keep(block, encoded)
        return encoded

    def _keep(self, block: Block, encoded: tuple[_Encoded, ...]) -> None:
        key, gone = id(block), self._gone
        if (earlier := self._kept.pop(key, None)) is not None:
            self._size -= earlier.size
        size = sum(_KEPT_BLOCK + len(one.json) for one in encoded)
        self._kept[key] = _Kept(ref(block, lambda _: gone.append(key)), encoded, size)
        self._size += size
        while self._size > MAX_KEPT:
            self._size -= self._kept.popitem(last=False)[1].size

    def _forget(self, key: int) -> None:
        if (kept := self._kept.get(key)) is not None and kept.block() is None:
            self._size -= self._kept.pop(key).size

    async def _encode_block(self, block: Block) -> list[_Encoded]:
        encoded: list[_Encoded] = []
        for param in block_params(block):
            pieces: list[bytes] = []
            for piece in json_parts(param):
                pieces.append(piece)
                await self._let_others_run(len(piece))
            encoded.append(_Encoded(param["type"] == "tool_result", b"".join(pieces)))
        return encoded

    async def _let_others_run(self, encoded: int) -> None:
        self._since_checkpoint += encoded + _BLOCK_COST
        if self._since_checkpoint >= PART:
            self._since_checkpoint = 0
            await checkpoint()
