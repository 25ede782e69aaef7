"""What an edit has changed, as lines of plain text."""

from deputy_agents.domain.preview import EditDiff
from deputy_agents.events.view import ToolCall
from deputy_protocol import tool
from deputy_server.preview import hunk_lines

MAX_LINES = 60
"""Lines of a diff in a document."""


def edit_diff(call: ToolCall) -> str:
    """The diff of a completed edit; empty for any other call."""
    diff = call.update.diff if call.update else None
    return "\n".join(diff_lines(diff, MAX_LINES)) if diff else ""


def diff_lines(diff: EditDiff | tool.EditDiff, most: int) -> list[str]:
    """The first ``most`` lines of a diff, and how many more there are."""
    lines = list(hunk_lines(diff.hunks, truncated=bool(diff.truncated)))
    more = len(lines) - most
    return lines if more <= 1 else [*lines[:most], f"\\ {more} more lines"]
