"""What a long test has tried and found: one row of the table that ``make soak`` prints."""

from dataclasses import dataclass, field


@dataclass
class Findings:
    """``lost`` are inputs and events that the server had acknowledged or shown, ``invalid`` the rules of the model
    service that a request broke. The longest stalls are in seconds."""

    tries: int = 0
    orphans: list[str] = field(default_factory=list[str])
    lost: list[str] = field(default_factory=list[str])
    invalid: list[str] = field(default_factory=list[str])
    stall: float | None = None
    """The longest time until a request was answered, by the clock, which also counts what other programs take."""
    busy: float | None = None
    """The same, but only the time in which the server was on a processor."""
    notes: list[str] = field(default_factory=list[str])

    def check(self) -> None:
        """Raises AssertionError unless nothing was lost, left over or invalid."""
        for found in (self.orphans, self.lost, self.invalid):
            assert not found, "\n".join(found)
