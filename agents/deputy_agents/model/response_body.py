"""The body of a response of a model service, as far as it is needed to find out what is wrong with it."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import suppress
from typing import Protocol

import anyio

from deputy_agents.model.error_words import MAX_BODY, ErrorWords, error_words

_READ_TIMEOUT = 5.0


class Response(Protocol):
    """A response of the HTTP client."""

    def aiter_bytes(self) -> AsyncIterator[bytes]: ...


class ResponseBody:
    """The body of a ``response`` that should be an event stream. It keeps the beginning, in case there is no event."""

    def __init__(self, response: Response) -> None:
        self._response = response
        self._start = bytearray()

    async def aiter_bytes(self) -> AsyncGenerator[bytes]:
        """The parts of the body, as an HTTP response has them."""
        async for part in self._response.aiter_bytes():
            if len(self._start) < MAX_BODY:
                self._start += part[: MAX_BODY - len(self._start)]
            yield part

    def error(self) -> ErrorWords | None:
        """What the body says, if it is JSON with an error, not a stream of events."""
        text = _decoded(self._start).strip()
        if not text.startswith(("{", "[")):
            return None
        words = error_words(text)
        return words if words.is_error else None


async def read_words(response: Response) -> ErrorWords:
    """What the body of ``response`` says. Reads its beginning, in bounded time."""
    start = bytearray()
    with suppress(Exception), anyio.move_on_after(_READ_TIMEOUT):
        async for part in response.aiter_bytes():
            start += part
            if len(start) >= MAX_BODY:
                break
    return error_words(_decoded(start))


def _decoded(body: bytearray) -> str:
    return bytes(body[:MAX_BODY]).decode(errors="replace")
