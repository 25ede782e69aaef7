"""The part of a model message that clients have seen, across retries of its request."""

import re

from deputy_agents.domain.ids import new_id
from deputy_agents.domain.message import Message, Text
from deputy_agents.text import clean

_UNFINISHED = re.compile(r"(?:\r|\x1b(?:\[[0-?]*[ -/]*|\][^\x07\x1b]*\x1b?)?)?\Z")
"""The start of an escape sequence or line end that the next piece may complete."""


class Stream:
    """The cleaned text of one message while it is streamed. A retry streams the message from its start again, so
    nothing is shown until the text is longer than what was shown before."""

    def __init__(self) -> None:
        self.message_id = new_id()
        self._pieces: list[str] = []
        self._length = 0
        self._pending = ""
        self._shown_length = 0
        self._shown_text = ""

    def restart(self) -> None:
        """Starts over for a retry of the request."""
        self._shown_text = self._longest()
        self._pieces = []
        self._length = 0
        self._pending = ""

    def add(self, piece: str) -> str:
        """Adds the next piece, and returns the part of it that was not shown before."""
        piece = self._complete_part(piece)
        self._pieces.append(piece)
        self._length += len(piece)
        new = min(self._length - self._shown_length, len(piece))
        if new <= 0:
            return ""
        self._shown_length = self._length
        return piece[-new:]

    def partial(self) -> Message | None:
        """The text shown so far as a message; ``None`` when there is none."""
        text = self._longest()
        return Message("assistant", (Text(text),), self.message_id) if text.strip() else None

    def _complete_part(self, piece: str) -> str:
        """Cleans the pending text and ``piece``, except for an unfinished end, which becomes the pending text."""
        text = self._pending + piece
        end = unfinished.start() if (unfinished := _UNFINISHED.search(text)) else len(text)
        self._pending = text[end:]
        return clean(text[:end])

    def _longest(self) -> str:
        text = "".join(self._pieces)
        return text if len(text) >= len(self._shown_text) else self._shown_text
