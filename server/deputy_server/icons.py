"""State icons for text output. Each is shown next to a word, so that no meaning depends on an icon alone."""

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
"""By the status of an agent or a tool call."""
