"""What has been shown of one model message, across repeats of its request."""

from deputy_agents.ids import new_id
from deputy_agents.message import Message, Text


class Stream:
    """The text of one message as it comes. After a repeat the same message is told again from its start, so nothing
    is shown until the new text passes what was shown before."""

    def __init__(self) -> None:
        self.message_id = new_id()
        self._pieces: list[str] = []
        self._length = 0
        self._shown = 0
        self._shown_text = ""

    def restart(self) -> None:
        """The request is repeated."""
        self._shown_text = self._longest()
        self._pieces = []
        self._length = 0

    def add(self, piece: str) -> str:
        """Takes the next piece; returns what of it is new to the user."""
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

    def _longest(self) -> str:
        text = "".join(self._pieces)
        return text if len(text) >= len(self._shown_text) else self._shown_text
