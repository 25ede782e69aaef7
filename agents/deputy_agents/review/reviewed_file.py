"""A file as the user reviews it, and the changes at one of its lines."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from deputy_agents.review.file_state import FileState
from deputy_agents.review.hunks import Hunk
from deputy_agents.review.tracked import ChangeInfo, TrackedFile


@dataclass(frozen=True, slots=True)
class ReviewedFile:
    """A file with unreviewed hunks, in the state that the user sees."""

    file: TrackedFile
    state: FileState
    hunks: Sequence[Hunk]

    @property
    def path(self) -> str:
        return self.file.key.path

    @property
    def status(self) -> str:
        if self.state.base_form is None:
            return "created"
        return "deleted" if self.state.form is None else "modified"

    def changes(self, hunk: Hunk) -> list[ChangeInfo]:
        """The changes in a hunk, oldest first, with those of other sessions that it replaced."""
        infos = [self.file.infos[change_id] for change_id in hunk.change_ids if change_id in self.file.infos]
        if len(infos) == 1 and not infos[0].others:
            return infos
        found = dict.fromkeys(one for info in infos for one in (*info.others, info))
        return sorted(found, key=lambda info: info.time)


@dataclass(frozen=True, slots=True)
class Blame:
    """A change that a line of a file contains. Lines are counted from 0, the end excluded."""

    start: int
    end: int
    info: ChangeInfo
    kept: bool


def hunk_blame(reviewed: ReviewedFile, line: int) -> Iterator[Blame]:
    """The changes of the hunk at ``line``."""
    for hunk in reviewed.hunks:
        end = hunk.start + len(hunk.lines)
        if hunk.start <= line < max(end, hunk.start + 1):
            for info in reviewed.changes(hunk):
                yield Blame(hunk.start, end, info, kept=False)


def kept_blame(reviewed: ReviewedFile, line: int) -> Iterator[Blame]:
    """The change that added ``line``, if the user has kept it."""
    at = 0
    for run in reviewed.state.weave:
        end = at + len(run.lines) if run.is_live else at
        if at <= line < end and run.author and run.author in reviewed.file.infos:
            yield Blame(at, end, reviewed.file.infos[run.author], kept=True)
        at = end
