"""A **checkpoint** is the state of the workspace's files before a turn. **Rewinding** a session goes back to one: its
files, its conversation, or both. **Forking** continues from one in a new session, and changes no file.

A rewind erases nothing. The log keeps what happened, and the state that was left is a checkpoint too, so a rewind can
itself be undone. Checkpoints cover what shell commands change where git is installed, without using your repository.
"""

from enum import StrEnum
from typing import Literal

from deputy_protocol.base import Count, Flag, Params, Wire
from deputy_protocol.envelope import Durable
from deputy_protocol.message import PromptBlock
from deputy_protocol.review import FileStatus


class Checkpoint(Wire):
    """The state before a turn, or the one that a rewind left."""

    checkpoint_id: str
    turn_id: str
    seq: Count
    """Number of its event. The prompt of its turn has a greater number."""
    time: str
    title: str
    """First line of the turn's prompt."""
    files: Count
    """Number of files that differ from the next checkpoint, or now from the last one."""
    added: Count
    """Number of lines."""
    removed: Count
    """Number of lines."""


class CheckpointListResult(Wire):
    """The checkpoints of a session."""

    checkpoints: tuple[Checkpoint, ...]
    """Newest first."""
    notes: tuple[str, ...] = ()
    """What the checkpoints do not cover, such as changes by shell commands where git is missing. Show them."""


class CheckpointParams(Params):
    """A checkpoint of a session."""

    session_id: str
    checkpoint_id: str


class PreviewFile(Wire):
    """A file that a rewind would change."""

    uri: str
    status: FileStatus
    """What would happen to it."""
    added: Count
    """Number of lines."""
    removed: Count
    """Number of lines."""
    conflict: str | None = None
    """Why the rewind cannot change this file, for the user."""


class CheckpointPreviewResult(Wire):
    """What a rewind of the files would change."""

    files: tuple[PreviewFile, ...]


class OnConflict(StrEnum):
    """What a rewind does if it cannot change a file: `stop` changes nothing, `skip` leaves out that file."""

    STOP = "stop"
    SKIP = "skip"


class SessionRewindParams(CheckpointParams):
    """What to rewind, and to where."""

    files: Flag
    """Restore the files."""
    conversation: Flag
    """Continue the conversation from there."""
    on_conflict: OnConflict = OnConflict.STOP


class RewindConflict(Wire):
    """A file that was left unchanged."""

    uri: str
    reason: str
    """Why, for the user."""


class SessionRewindResult(Wire):
    """What was rewound."""

    prompt: tuple[PromptBlock, ...] | None = None
    """The prompt of the turn that was gone back over. Put it into the input."""
    files: tuple[str, ...]
    """URIs of the files that were changed."""
    conflicts: tuple[RewindConflict, ...]


class SessionForkParams(Params):
    """What to fork."""

    session_id: str
    checkpoint_id: str | None = None
    """Default: the session as it is now."""


class CheckpointCreated(Durable):
    """The state of the files before a turn is stored."""

    type: Literal["checkpoint_created"] = "checkpoint_created"
    checkpoint_id: str
    turn_id: str


class SessionRewound(Durable):
    """The session went back to a checkpoint."""

    type: Literal["session_rewound"] = "session_rewound"
    checkpoint_id: str
    turn_id: str
    """The turn that the checkpoint precedes."""
    files: Flag
    """Whether the files were restored."""
    conversation: Flag
    """Whether the conversation continues from there. Load the session again."""
