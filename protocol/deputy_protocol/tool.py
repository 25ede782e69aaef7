"""Tool calls, as shown in agent trees and transcripts."""

from enum import StrEnum

from deputy_protocol.base import Count, Flag, JsonObject, Wire
from deputy_protocol.place import Location


class ToolKind(StrEnum):
    """What kind of action a tool performs."""

    READ = "read"
    SEARCH = "search"
    EDIT = "edit"
    EXECUTE = "execute"
    FETCH = "fetch"
    THINK = "think"
    OTHER = "other"


class ToolStatus(StrEnum):
    """State of a tool call."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class DiffHunk(Wire):
    """Changed lines of a file, with some lines around them. The first line of a file is 1; a start is 0 when the file
    has no lines before or after the change."""

    old_start: Count
    old_count: Count
    new_start: Count
    new_count: Count
    lines: tuple[str, ...]
    """Each begins with a space (unchanged), `-` (removed), `+` (added) or a backslash (a note), and has no line end."""


class EditDiff(Wire):
    """What a completed edit has changed in a file."""

    hunks: tuple[DiffHunk, ...]
    truncated: Flag | None = None
    """True when `hunks` do not contain all changed lines completely."""


class ToolCall(Wire):
    """A tool call of an agent."""

    tool_call_id: str
    tool: str
    """Name of the tool."""
    title: str
    """`tool(target)`. For a sub-agent, its label comes first: `[research codebase] edit_file(src/lib.rs)`."""
    kind: ToolKind
    status: ToolStatus
    input: JsonObject
    locations: tuple[Location, ...] = ()
    """Files that the call is about."""
    reason: str | None = None
    """Which rule allowed or denied the call, if one did."""
