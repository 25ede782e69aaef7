"""Message framing over byte streams: ``Content-Length`` headers, as LSP has them, and one message per line.

Readers accept header names in any case, unknown headers unless they are strict, bare line feeds, and frames split at
any byte. An invalid frame is reported once and skipped, so that it does not end the connection.
"""

import asyncio
from enum import Enum, auto
from typing import Protocol

MAX_MESSAGE = 64 * 2**20
"""Largest accepted message body, in bytes."""

MAX_HEADER_LINE = 64 * 2**10
"""Longest accepted header line, in bytes. Bodies have their own limit."""

_CHUNK = 2**16
_HEADERS = (b"content-length", b"content-type")


class FrameError(Enum):
    """Why a frame could not be read."""

    BAD_HEADER = auto()
    TOO_LARGE = auto()
    FOREIGN = auto()
    """A header that LSP does not have, such as the first line of an HTTP request. Nothing that follows is a message."""


class MessageReader(Protocol):
    """A source of messages."""

    async def read(self) -> bytes | FrameError | None:
        """Return the next message body, the error of a frame that was skipped, or ``None`` at the end."""
        ...


def new_reader(max_line: int = MAX_HEADER_LINE) -> asyncio.StreamReader:
    """Create a stream with a limit on the length of a line, in bytes."""
    return asyncio.StreamReader(limit=max_line)


class Lines:
    """Reads one message per line and skips blank lines. The stream's limit is that of a message."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader

    async def read(self) -> bytes | FrameError | None:
        """Return the next line, the error of a line that was skipped, or ``None`` at the end of the stream or when it
        breaks. An unfinished last line is dropped."""
        try:
            while (line := await _read_line(self._reader)) is not None:
                if isinstance(line, FrameError) or line.strip():
                    return line
        except OSError:
            pass
        return None


class Frames:
    """Reads messages framed by ``Content-Length`` headers."""

    def __init__(self, reader: asyncio.StreamReader, *, limit: int = MAX_MESSAGE, strict: bool = False) -> None:
        """``strict`` accepts no other headers than those of LSP, and reads nothing after another one: where web pages
        can connect, the body of an HTTP request must not be read as messages."""
        self._reader = reader
        self._strict = strict
        self._ended = False
        self.limit = limit
        """Largest accepted body, in bytes."""

    async def read(self) -> bytes | FrameError | None:
        """Return the next body, the error of a frame that was skipped, or ``None`` at the end of the stream or when it
        breaks: a client that crashes, or leaves data unread, resets its connection. An unfinished last frame is
        dropped."""
        try:
            return await self._read()
        except OSError:
            return None

    async def _read(self) -> bytes | FrameError | None:
        if self._ended:
            return None
        length = await self._read_header()
        self._ended = length is FrameError.FOREIGN
        if not isinstance(length, int):
            return length
        if length > self.limit:
            return FrameError.TOO_LARGE if await self._skip(length) else None
        try:
            return await self._reader.readexactly(length)
        except asyncio.IncompleteReadError:
            return None

    async def _read_header(self) -> int | FrameError | None:
        """Read header lines up to the blank line and return the length of the body in bytes. Blank lines before the
        first header line are ignored."""
        length: int | FrameError | None = None
        while (line := await _read_line(self._reader)) is not None:
            header = b"" if isinstance(line, FrameError) else line.strip()
            name, colon, value = header.partition(b":")
            name = name.strip().lower()
            if isinstance(line, bytes) and not header:
                if length is not None:
                    return length
            elif self._strict and name not in _HEADERS:
                return FrameError.FOREIGN
            elif not colon:
                length = FrameError.BAD_HEADER
            elif name == b"content-length":
                # A valid length clears earlier errors: reading is back in step with the client.
                length = _parse_length(value)
            elif length is None:
                length = FrameError.BAD_HEADER
        return None

    async def _skip(self, count: int) -> bool:
        while count:
            chunk = await self._reader.read(min(count, _CHUNK))
            if not chunk:
                return False
            count -= len(chunk)
        return True


async def _read_line(reader: asyncio.StreamReader) -> bytes | FrameError | None:
    """Return the next line with its end, ``TOO_LARGE`` for one above the stream's limit, which is skipped, or ``None``
    at the end of the stream."""
    skipped = False
    while True:
        try:
            line = await reader.readuntil(b"\n")
        except asyncio.IncompleteReadError:
            return None
        except asyncio.LimitOverrunError as error:
            await reader.readexactly(error.consumed)
            skipped = True
        else:
            return FrameError.TOO_LARGE if skipped else line


def _parse_length(value: bytes) -> int | FrameError:
    """Parse a number of bytes. The number of digits is limited, as longer numbers are invalid and slow to parse."""
    digits = value.strip()
    return int(digits) if digits.isdigit() and len(digits) < 16 else FrameError.BAD_HEADER


def frame_with_header(body: bytes) -> bytes:
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


def frame_as_line(body: bytes) -> bytes:
    return body + b"\n"


def unframed(body: bytes) -> bytes:
    """Return the body unchanged, for a transport that has messages of its own, as WebSocket has."""
    return body
