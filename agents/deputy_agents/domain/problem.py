"""Problems in the files that users write for agents."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem in a file, in words for the user. ``line`` counts from 1. After a ``fatal`` problem the file is not
    loaded; otherwise it is, without the part that ``reason`` names."""

    file: str
    line: int
    reason: str
    fatal: bool = False

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.reason}"
