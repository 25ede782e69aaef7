"""Lines read from a stream of bytes, each bounded."""

import asyncio

MAX_LINE = 64 * 2**20
"""Bytes of the longest line that is taken."""


class TooLong:
    """A line that was longer, and has been skipped."""


async def read_line(reader: asyncio.StreamReader) -> bytes | TooLong | None:
    """The next line, or ``None`` at the end of the stream: a line without its end is no message."""
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
            return TooLong() if skipped else line


def new_reader() -> asyncio.StreamReader:
    """A stream for :func:`read_line`."""
    return asyncio.StreamReader(limit=MAX_LINE)
