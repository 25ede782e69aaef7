"""Framing of the Language Server Protocol, read from a stream of bytes.

Tolerant in what it takes: header names in any case, unknown headers, bare line feeds, headers and bodies split
anywhere. What is no frame is reported once and skipped, so that one bad message never costs the connection.
"""

import asyncio
from dataclasses import dataclass
from enum import Enum, auto

MAX_MESSAGE = 64 * 2**20
"""Largest body that is taken, in bytes."""

LINE_LIMIT = 64 * 2**10
"""Bytes of a header line that are kept; bodies are not subject to this bound."""

_CHUNK = 2**16


class Fault(Enum):
    """Why a frame could not be read."""

    BAD_HEADER = auto()
    TOO_LARGE = auto()


@dataclass(frozen=True, slots=True)
class Header:
    """What a header block says: the length of the body in bytes, or why there is none to be had."""

    length: int | None = None
    fault: Fault | None = None


class Frames:
    """Reads message bodies one by one."""

    def __init__(self, reader: asyncio.StreamReader, *, limit: int = MAX_MESSAGE) -> None:
        self._reader = reader
        self.limit = limit
        """Largest body that is taken, in bytes."""

    async def read(self) -> bytes | Fault | None:
        """The next body, a fault that has been skipped, or ``None`` at the end of the stream.

        A stream that ends inside a frame has ended: half a message is no message. So has one that breaks: a client
        that crashes, or goes with something unread, resets its connection.
        """
        try:
            return await self._read()
        except OSError:
            return None

    async def _read(self) -> bytes | Fault | None:
        header = await self._header()
        if header is None:
            return None
        if header.fault is not None or header.length is None:
            return header.fault or Fault.BAD_HEADER
        if header.length > self.limit:
            return Fault.TOO_LARGE if await self._skip(header.length) else None
        try:
            return await self._reader.readexactly(header.length)
        except asyncio.IncompleteReadError:
            return None

    async def _header(self) -> Header | None:
        """Reads header lines up to the blank one. Blank lines before the first header are ignored."""
        length: int | None = None
        fault: Fault | None = None
        seen = False
        while True:
            line = await self._line()
            if line is None:
                return None
            if line == b"":
                if not seen:
                    continue
                return Header(fault=fault) if fault else Header(length=length)
            seen = True
            name, colon, value = line.partition(b":")
            if not colon:
                fault = Fault.BAD_HEADER
            elif name.strip().lower() == b"content-length":
                length = _natural(value)
                # A proper length ends what came before it: that is where reading falls into step again.
                fault = Fault.BAD_HEADER if length is None else None

    async def _line(self) -> bytes | None:
        """One line without its end, ``None`` at the end of the stream. Of an endless line only a part is kept."""
        try:
            line = await self._reader.readuntil(b"\n")
        except asyncio.IncompleteReadError:
            return None
        except asyncio.LimitOverrunError as error:
            await self._reader.readexactly(error.consumed)
            return b"?"
        return line.strip()

    async def _skip(self, count: int) -> bool:
        while count:
            chunk = await self._reader.read(min(count, _CHUNK))
            if not chunk:
                return False
            count -= len(chunk)
        return True


def _natural(value: bytes) -> int | None:
    """``value`` as a number of bytes; bounded in digits, as a longer one is rubbish and slow to convert."""
    digits = value.strip()
    return int(digits) if digits.isdigit() and len(digits) < 16 else None


def new_reader() -> asyncio.StreamReader:
    """A stream whose header lines are bounded; bodies are not subject to that bound."""
    return asyncio.StreamReader(limit=LINE_LIMIT)
