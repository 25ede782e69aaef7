"""The marks of states, the same wherever Deputy draws text. Each stands beside a word: none carries meaning alone."""

from collections.abc import Mapping

QUEUED, RUNNING, ASKING, DONE, FAILED, CANCELLED = "…", "⟳", "?", "✓", "✗", "⊘"

ICONS: Mapping[str, str] = {
    "idle": QUEUED,
    "pending": QUEUED,
    "running": RUNNING,
    "in_progress": RUNNING,
    "completed": DONE,
    "failed": FAILED,
    "cancelled": CANCELLED,
}
"""By the status of an agent or of a tool call."""
