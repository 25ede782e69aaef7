"""Bodies of events about checkpoints and the review of changes. Paths are absolute."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class ChangesReviewed:
    """The user has kept or undone hunks of a file, given by their ids."""

    path: str
    hunks: tuple[str, ...]
    verb: Literal["kept", "undone"]


@dataclass(frozen=True, slots=True)
class ReviewStatus:
    """Counts of what is not reviewed: files, hunks, and added and removed lines. Never stored."""

    files: int
    hunks: int
    added: int
    removed: int


@dataclass(frozen=True, slots=True)
class CheckpointCreated:
    """The state before a turn is stored, or the one that a rewind leaves."""

    checkpoint_id: str
    turn_id: str


@dataclass(frozen=True, slots=True)
class SessionRewound:
    """The session went back to a checkpoint: its files, its conversation, or both. What the conversation was since then
    is hidden."""

    checkpoint_id: str
    turn_id: str
    files: bool
    conversation: bool
