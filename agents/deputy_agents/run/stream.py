"""What has been shown of one model message, across repeats of its request."""

import re

from deputy_agents.domain.ids import new_id
from deputy_agents.domain.message import Message, Text
from deputy_agents.text import clean

_UNFINISHED = re.compile(r"(?:\r|\x1b(?:\[[0-?]*[ -/]*|\][^\x07\x1b]*\x1b?)?)?\Z")
"""The start of an escape sequence or line end that the next piece may complete."""


class Stream:
    """The text of one message as it comes, cleaned for people. After a repeat the same message is told again from its
    start, so nothing is shown until the new text passes what was shown before."""

    def __init__(self) -> None:
        self.message_id = new_id()
        self._pieces: list[str] = []
        self._length = 0
        self._held = ""
        self._shown = 0
        self._shown_text = ""

    def restart(self) -> None:
        """The request is repeated."""
        self._shown_text = self._longest()
        self._pieces = []
        self._length = 0
        self._held = ""

    def add(self, piece: str) -> str:
        """Takes the next piece; returns what of it is new to the user."""
        piece = self._whole(piece)
        self._pieces.append(piece)
        self._length += len(piece)
        new = min(self._length - self._shown, len(piece))
        if new <= 0:
            return ""
        self._shown = self._length
        return piece[-new:]

    def partial(self) -> Message | None:
        """What was shown, as a message; ``None`` when nothing was."""
        text = self._longest()
        return Message("assistant", (Text(text),), self.message_id) if text.strip() else None

    def _whole(self, piece: str) -> str:
        """``piece`` cleaned, with what was held back before it; its unfinished end is held back in turn."""
        text = self._held + piece
        end = unfinished.start() if (unfinished := _UNFINISHED.search(text)) else len(text)
        self._held = text[end:]
        return clean(text[:end])

    def _longest(self) -> str:
        text = "".join(self._pieces)
        return text if len(text) >= len(self._shown_text) else self._shown_text
