"""Changes that agents made to files, kept so that they can be reverted."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FileChange:
    """A change of one file by one tool call. ``before`` and ``after`` are the complete texts; ``before`` is ``None``
    for a new file. ``path`` is absolute, with links resolved; ``time`` is in seconds since the epoch."""

    change_id: str
    agent_id: str
    run: int
    tool_call_id: str
    path: str
    before: str | None
    after: str
    time: float = 0.0
    withheld: bool = False
    """Both texts are empty, because they contain a secret."""
