"""What edits have changed."""

from deputy_agents.domain import preview
from deputy_protocol import tool


def diff_to_wire(diff: preview.EditDiff) -> tool.EditDiff:
    return tool.EditDiff(hunks=tuple(map(hunk_to_wire, diff.hunks)), truncated=diff.truncated or None)


def hunk_to_wire(hunk: preview.DiffHunk) -> tool.DiffHunk:
    return tool.DiffHunk(
        old_start=hunk.old_start,
        old_count=hunk.old_count,
        new_start=hunk.new_start,
        new_count=hunk.new_count,
        lines=hunk.lines,
    )
