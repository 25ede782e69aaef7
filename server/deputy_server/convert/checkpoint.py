"""Checkpoints and rewinds as the wire has them."""

from collections.abc import Sequence

from deputy_agents.files.line_diff import changed_lines
from deputy_agents.review.weave import split
from deputy_agents.session.checkpoints import Listed
from deputy_agents.session.rewind import Planned, Rewound
from deputy_protocol.base import rfc3339
from deputy_protocol.checkpoint import (
    Checkpoint,
    CheckpointListResult,
    CheckpointPreviewResult,
    PreviewFile,
    RewindConflict,
    SessionRewindResult,
)
from deputy_protocol.review import FileStatus
from deputy_server.convert.prompt import prompt_to_wire
from deputy_server.convert.uris import uri_of


def checkpoints_to_wire(listed: Sequence[Listed], notes: Sequence[str]) -> CheckpointListResult:
    return CheckpointListResult(checkpoints=tuple(map(_checkpoint, listed)), notes=tuple(notes))


def _checkpoint(one: Listed) -> Checkpoint:
    return Checkpoint(
        checkpoint_id=one.record.checkpoint_id,
        turn_id=one.record.turn_id,
        seq=one.seq,
        time=rfc3339(one.record.time),
        title=one.record.title,
        files=one.files,
        added=one.added,
        removed=one.removed,
    )


def plan_to_wire(planned: Sequence[Planned]) -> CheckpointPreviewResult:
    return CheckpointPreviewResult(files=tuple(map(_file, planned)))


def _file(one: Planned) -> PreviewFile:
    added = removed = 0
    for change in changed_lines(split(one.now or ""), split(one.then or "")):
        added += change.new_end - change.new_start
        removed += change.old_end - change.old_start
    return PreviewFile(
        uri=uri_of(one.path),
        status=FileStatus(one.status),
        added=added,
        removed=removed,
        conflict=one.conflict or None,
    )


def rewound_to_wire(rewound: Rewound) -> SessionRewindResult:
    return SessionRewindResult(
        prompt=None if rewound.prompt is None else prompt_to_wire(rewound.prompt),
        files=tuple(map(uri_of, rewound.files)),
        conflicts=tuple(RewindConflict(uri=uri_of(path), reason=reason) for path, reason in rewound.conflicts),
    )
