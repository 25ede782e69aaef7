"""What agents have made of files, so that it can be taken back."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FileChange:
    """What one call of an agent did to a file: ``before`` and ``after`` are its whole text (``None``: there was no
    file). ``path`` is absolute, without links; ``time`` in seconds since the epoch."""

    change_id: str
    agent_id: str
    run: int
    tool_call_id: str
    path: str
    before: str | None
    after: str
    time: float = 0.0
    withheld: bool = False
    """The texts are not kept, as they hold a secret: both are empty."""
