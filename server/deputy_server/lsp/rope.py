"""A text that is fast to edit at any length: no operation takes time for each line."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from deputy_agents.text import lines_with_ends

PIECE = 2**12
"""Approximate number of characters per piece."""


class Rope:
    """The text in pieces. Only the last piece may end with a carriage return: a line feed might follow, and both form
    one line end."""

    def __init__(self, text: str) -> None:
        self._pieces = list(_cut(text))
        self._text: str | None = text
        # The start of each piece in characters and in line ends, computed on demand from the first piece on. Most edits
        # are near the previous one, so that few starts have to be recomputed.
        self._offsets = [0]
        self._numbers = [0]

    @property
    def text(self) -> str:
        if self._text is None:
            self._text = "".join(self._pieces)
        return self._text

    def replace(self, start: int, end: int, text: str) -> None:
        """Replace the text from ``start`` to ``end`` by ``text``."""
        first, before = self._find(start)
        last, behind = self._find(max(start, end))
        new = self._pieces[first][:before] + text + self._pieces[last][behind:]
        while last + 1 < len(self._pieces) and (len(new) < PIECE // 2 or new.endswith("\r")):
            last += 1
            new += self._pieces[last]
        self._pieces[first : last + 1] = _cut(new)
        del self._offsets[first + 1 :], self._numbers[first + 1 :]
        self._text = None

    def line(self, number: int) -> tuple[int, str]:
        """The start of a line, and its text without the line end. Lines after the last one are empty, at the end."""
        while self._numbers[-1] < number and self._count_next():
            pass
        index = max(bisect_left(self._numbers, number) - 1, 0)
        lines = lines_with_ends(self._pieces[index])
        inside = number - self._numbers[index]
        start = self._offsets[index] + sum(map(len, lines[:inside]))
        return start, self._complete_line(index, lines[inside]).rstrip("\r\n") if inside < len(lines) else ""

    def _complete_line(self, index: int, beginning: str) -> str:
        parts = [beginning]
        while not parts[-1].endswith(("\n", "\r")) and (index := index + 1) < len(self._pieces):
            parts.append(lines_with_ends(self._pieces[index])[0])
        return "".join(parts)

    def position(self, offset: int) -> tuple[int, str]:
        """The number of the line at ``offset``, and the line's text before it."""
        index, column = self._find(offset)
        lines = lines_with_ends(self._pieces[index][:column])
        number = self._numbers[index] + len(lines) - 1
        parts = [lines[-1]]
        while len(lines) == 1 and index > 0:
            index -= 1
            lines = lines_with_ends(self._pieces[index])
            parts.append(lines[-1])
        return number, "".join(reversed(parts))

    def _find(self, offset: int) -> tuple[int, int]:
        """The index of the piece at ``offset``, and the offset in that piece."""
        while self._offsets[-1] <= offset and self._count_next():
            pass
        index = bisect_right(self._offsets, offset) - 1
        return index, min(offset - self._offsets[index], len(self._pieces[index]))

    def _count_next(self) -> bool:
        """Compute the start of one more piece; ``False`` when all are computed."""
        index = len(self._offsets) - 1
        if index + 1 == len(self._pieces):
            return False
        self._offsets.append(self._offsets[index] + len(self._pieces[index]))
        self._numbers.append(self._numbers[index] + line_ends(self._pieces[index]))
        return True


def line_ends(text: str) -> int:
    r"""The number of LSP's line ends in ``text``: ``\n``, ``\r\n`` or ``\r``."""
    return text.count("\n") + text.count("\r") - text.count("\r\n")


def _cut(text: str) -> Iterator[str]:
    start = 0
    while len(text) - start > 2 * PIECE:
        end = start + PIECE
        while end < len(text) and text[end - 1] == "\r":
            end += 1
        yield text[start:end]
        start = end
    yield text[start:]
