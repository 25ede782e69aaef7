"""A session records every change that its agents make to files, by a tool or by a shell command. An **unreviewed hunk**
is a series of lines that differ from the file's *base* because of agents. The base is the file's text before its first
unreviewed change. Keeping a hunk moves it into the base; undoing it puts the base's lines back.

Lines that the user typed are never changed by either. A hunk that edits of the user overlap is `mixed`: undoing it
removes the lines of agents and leaves those of the user, or is a conflict where the two cannot be told apart. Adjacent
changed lines form one hunk. A hunk's `hunkId` stays the same while neither its base lines nor its lines change.

Each session lists only what its own agents changed. Where agents of two sessions changed the same lines, the hunk of
the later one names both. Keep and undo take exactly one selector: `hunkIds`, `uri`, `agentId`, `turnId` or `all`.
Unknown hunk ids, no selector, or several of them return error -32602. A hunk that is gone is a conflict in the result.

A client that declares `review` shows the changes itself, and gets no code lenses for them.
"""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, SerializationInfo, SerializerFunctionWrapHandler, model_serializer

from deputy_protocol.base import Count, Flag, Params, Wire
from deputy_protocol.envelope import Derived, Durable
from deputy_protocol.place import Range


class FileStatus(StrEnum):
    """What happened to a file."""

    CREATED = "created"
    MODIFIED = "modified"
    DELETED = "deleted"


class HunkChange(Wire):
    """A change that a hunk contains."""

    agent_id: str
    label: str
    """Label of the agent."""
    turn_id: str
    tool_call_id: str
    time: str


class Hunk(Wire):
    """Lines that differ from the base because of agents."""

    hunk_id: str
    range: Range
    """The lines in the current text. Empty if lines were only deleted."""
    base_lines: tuple[str, ...]
    """The lines in the base, without line ends."""
    lines: tuple[str, ...]
    """The current lines, without line ends."""
    changes: tuple[HunkChange, ...]
    """The changes that it consists of, oldest first."""
    mixed: Flag
    """Whether edits of the user overlap the hunk."""
    note: str | None = None
    """What the lines do not show, such as a binary file or a changed file mode."""


class ReviewFile(Wire):
    """A file with unreviewed hunks."""

    uri: str
    status: FileStatus
    added: Count
    """Number of lines."""
    removed: Count
    """Number of lines."""
    hunks: tuple[Hunk, ...]
    """In the order of the file."""


class ReviewTotals(Wire):
    """Counts over all listed files."""

    files: Count
    hunks: Count
    added: Count
    """Number of lines."""
    removed: Count
    """Number of lines."""


class ReviewListParams(Params):
    """Which hunks to list. Without further fields, all of the session."""

    session_id: str
    agent_id: str | None = None
    """Only hunks that this agent changed."""
    turn_id: str | None = None
    """Only hunks that were changed in this turn."""
    uri: str | None = None
    """Only hunks of this file."""


class ReviewListResult(Wire):
    """The unreviewed hunks."""

    files: tuple[ReviewFile, ...]
    """Ordered by path."""
    totals: ReviewTotals
    notes: tuple[str, ...] = ()
    """What the list does not cover, such as changes by shell commands where git is missing. Show them."""


class ReviewBaseParams(Params):
    """A file."""

    session_id: str
    uri: str


class ReviewBaseResult(Wire):
    """The left side of a diff."""

    text: str | None
    """The file's text without its unreviewed hunks; `null` if the file did not exist."""

    @model_serializer(mode="wrap")
    def _keep_null(self, handler: SerializerFunctionWrapHandler, info: SerializationInfo) -> dict[str, object]:
        # Here null has a meaning of its own; everywhere else absent optional fields are omitted.
        return {"text": self.text}


class ReviewParams(Params):
    """Which hunks to keep or undo: exactly one of the fields beside `sessionId`."""

    session_id: str
    hunk_ids: Annotated[tuple[str, ...], Field(min_length=1, max_length=10_000)] | None = None
    """These hunks."""
    uri: str | None = None
    """All hunks of this file."""
    agent_id: str | None = None
    """All lines that this agent changed."""
    turn_id: str | None = None
    """All lines that were changed in this turn."""
    all: Flag = False
    """All hunks."""


class ReviewConflict(Wire):
    """A hunk, or a whole file, that was left unchanged."""

    hunk_id: str | None = None
    """Absent if the reason concerns the whole file."""
    uri: str
    reason: str
    """Why, for the user."""


class ReviewResult(Wire):
    """What was kept or undone, and what was not."""

    done: tuple[str, ...]
    """Ids of hunks."""
    conflicts: tuple[ReviewConflict, ...]


class ReviewBlameParams(Params):
    """A line of a file, in all sessions of this server."""

    uri: str
    line: Count
    """Counted from 0."""


class ApprovedBy(StrEnum):
    """What approved a change: the user, a rule, the permission mode, or the sandbox, which confines the command that
    made it; `none` if nothing had to."""

    USER = "user"
    RULE = "rule"
    MODE = "mode"
    SANDBOX = "sandbox"
    NONE = "none"


class ReviewState(StrEnum):
    """Whether the user has kept the change."""

    UNREVIEWED = "unreviewed"
    KEPT = "kept"


class BlameAgent(Wire):
    """The agent that made a change."""

    agent_id: str
    label: str
    definition: str
    """Name of its agent definition."""


class BlameEntry(Wire):
    """A change that contains the line."""

    range: Range
    """The lines of the change around the line."""
    agent: BlameAgent
    session_id: str
    turn_id: str
    tool_call_id: str
    title: str
    """Title of the tool call."""
    time: str
    approved_by: ApprovedBy
    state: ReviewState


class ReviewBlameResult(Wire):
    """Who changed the line, latest change first. Empty if no agent did."""

    entries: tuple[BlameEntry, ...]


class ReviewVerb(StrEnum):
    """What happened to hunks."""

    KEPT = "kept"
    UNDONE = "undone"


class ChangesReviewed(Durable):
    """Hunks of a file were kept or undone."""

    type: Literal["changes_reviewed"] = "changes_reviewed"
    uri: str
    hunks: tuple[str, ...]
    """Their ids."""
    verb: ReviewVerb


class ReviewStatus(Derived):
    """Counts of the unreviewed hunks of the session. Request `deputy/review/list` again to show them."""

    type: Literal["review_status"] = "review_status"
    files: Count
    hunks: Count
    added: Count
    """Number of lines."""
    removed: Count
    """Number of lines."""
