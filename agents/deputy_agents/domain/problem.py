"""Problems in files that users write for agents."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with a definition file, for the user. ``line`` counts from 1. A ``fatal`` one keeps the
    definition from being loaded; with any other it was, without the part that the reason names."""

    file: str
    line: int
    reason: str
    fatal: bool = False

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.reason}"
