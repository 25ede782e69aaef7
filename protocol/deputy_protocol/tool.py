"""Tool calls, as tree views and transcripts show them."""

from enum import StrEnum

from deputy_protocol.base import JsonObject, Wire
from deputy_protocol.place import Location


class ToolKind(StrEnum):
    """What a tool does to the world."""

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


class ToolCall(Wire):
    """A tool call of an agent."""

    tool_call_id: str
    tool: str
    title: str
    """`tool(target)`; a child's has its label in front: `[research codebase] edit_file(src/lib.rs)`."""
    kind: ToolKind
    status: ToolStatus
    input: JsonObject
    locations: tuple[Location, ...] = ()
    reason: str | None = None
    """Which rule has decided about it and how, where one has: `The rule shell(git status *) allows it.`"""
