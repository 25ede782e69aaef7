"""The output of a command, limited to its beginning and its end."""

from deputy_agents.text import clean


class BoundedOutput:
    """Accepts any amount of data and keeps the first and the last ``half`` bytes."""

    def __init__(self, half: int) -> None:
        self.size = 0
        """Bytes received so far."""
        self._half = half
        self._head = bytearray()
        self._tail = bytearray()

    def add(self, chunk: bytes) -> None:
        self.size += len(chunk)
        room = max(self._half - len(self._head), 0)
        self._head += chunk[:room]
        self._tail += chunk[room:]
        if len(self._tail) > 2 * self._half:
            del self._tail[: -self._half]

    def text(self, half: int | None = None) -> str:
        """The output as text without control characters: at most ``half`` bytes from each end, with a line about the
        omitted part between them."""
        half = self._half if half is None else min(half, self._half)
        kept = bytes(self._head + self._tail)
        if self.size <= 2 * half:
            return _text(kept)
        omission = f"[{self.size - 2 * half:,} bytes omitted]"
        return "\n".join((_text(kept[:half]), omission, _text(kept[-half:])))


def _text(data: bytes) -> str:
    return clean(data.decode(errors="replace"))
