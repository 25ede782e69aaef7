"""How an editor without a plugin shows unreviewed hunks: code lenses, code actions, hovers and diagnostics."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import anyio
from anyio.abc import TaskGroup
from lsprotocol.types import DiagnosticSeverity
from pydantic import BaseModel

from deputy_agents.domain.errors import StoreError
from deputy_agents.domain.event import CallStatus, Event, ToolCallUpdated
from deputy_agents.domain.review import ChangesReviewed, ReviewStatus
from deputy_agents.review.hunks import Hunk
from deputy_agents.review.reviewed_file import ReviewedFile
from deputy_agents.session.session import Session
from deputy_agents.text import cut, visible
from deputy_protocol import command_table
from deputy_protocol.base import to_wire
from deputy_protocol.command import PromptArgument, ReviewAllArgument, ReviewHunksArgument, ReviewPlaceArgument
from deputy_protocol.contract import Command
from deputy_server.convert.review import lines_range
from deputy_server.lsp.client import Client
from deputy_server.lsp.findings import Findings
from deputy_server.lsp.lens_refresh import LensRefresh
from deputy_server.rpc.json import JsonObject

HINTS_DELAY = 0.3
"""Seconds after a change of a text until its diagnostics are sent again."""

AnyCommand: TypeAlias = "Command[Any, Any]"

_ASK = "Explain this change: what it does, why it is needed, and what to look out for."
_MAX_LABEL = 30


@dataclass(frozen=True, slots=True)
class Mark:
    """A command at a line, counted from 0, with its title as a lens and as a code action."""

    line: int
    last: int
    lens: str
    action: str
    command: str
    argument: JsonObject


async def reviewed_at(sessions: Sequence[Session], path: Path) -> list[tuple[Session, ReviewedFile]]:
    """The unreviewed hunks of a file, in each session that changed it."""
    found: list[tuple[Session, ReviewedFile]] = []
    for session in sessions:
        try:
            files, _ = await session.review.unreviewed_files(str(path))
        except StoreError:
            continue
        found += ((session, one) for one in files)
    return found


def marks_of(session: Session, reviewed: ReviewedFile, uri: str) -> Iterator[Mark]:
    """The commands for the hunks of a file, those for all of it first."""
    counts = [file.counts.hunks for file in session.review.changes.files.values()]
    everything = ReviewAllArgument(session_id=session.id, uri=uri)
    yield _mark(0, 0, "Keep all", "", command_table.REVIEW_KEEP_ALL_COMMAND, everything)
    yield _mark(0, 0, "Undo all", "", command_table.REVIEW_UNDO_ALL_COMMAND, everything)
    total = f"{len(reviewed.hunks)} of {max(sum(counts), len(reviewed.hunks))}"
    yield _mark(0, 0, total, "", command_table.REVIEW_NEXT_COMMAND, ReviewPlaceArgument(uri=uri))
    for hunk in reviewed.hunks:
        yield from _hunk_marks(session, reviewed, hunk, uri)


def _hunk_marks(session: Session, reviewed: ReviewedFile, hunk: Hunk, uri: str) -> Iterator[Mark]:
    first, last = hunk.start, max(hunk.start, hunk.start + len(hunk.lines) - 1)
    one = ReviewHunksArgument(session_id=session.id, hunk_ids=(hunk.hunk_id,))
    changes = reviewed.changes(hunk)
    label = cut(visible(session.review.changes.label(changes[-1].agent_id)), _MAX_LABEL) if changes else "Agent"
    text = PromptArgument(text=_ASK, session_id=session.id, uri=uri, range=lines_range(first, last + 1), queue=True)
    yield _mark(first, last, f"{label}: Keep", "Keep this change", command_table.REVIEW_KEEP_COMMAND, one)
    yield _mark(first, last, "Undo", "Undo this change", command_table.REVIEW_UNDO_COMMAND, one)
    yield _mark(first, last, "Ask", "Ask about this change", command_table.PROMPT_COMMAND, text)
    if changes:
        of_agent = ReviewAllArgument(session_id=session.id, agent_id=changes[-1].agent_id)
        title = f"Keep all changes of {label}"
        yield _mark(first, last, "", title, command_table.REVIEW_KEEP_ALL_COMMAND, of_agent)


def _mark(line: int, last: int, lens: str, action: str, command: AnyCommand, argument: BaseModel) -> Mark:
    return Mark(line, last, lens, action, command.name, to_wire(argument))


class ReviewMarks:
    """Keeps the lenses and diagnostics of one client up to date. ``sessions`` returns the open sessions."""

    def __init__(
        self,
        client: Client,
        findings: Findings,
        lenses: LensRefresh,
        tasks: TaskGroup,
        sessions: Callable[[], Sequence[Session]],
    ) -> None:
        self.hints = False
        """Whether the client wants diagnostics."""
        self._client = client
        self._findings = findings
        self._lenses = lenses
        self._tasks = tasks
        self._sessions = sessions
        self._updating = False

    def on_event(self, event: Event) -> None:
        match event.body:
            case ReviewStatus() | ChangesReviewed() | ToolCallUpdated(status=CallStatus.COMPLETED):
                if not self._client.review:
                    self._lenses.start()
                self.update_soon()
            case _:
                pass

    def set_hints(self, wanted: bool) -> None:
        """Apply the setting ``review.hints``."""
        if wanted != self.hints:
            self.hints = wanted
            self._start_update()

    def update_soon(self) -> None:
        """Send diagnostics again, once for all calls within a moment."""
        if self.hints:
            self._start_update()

    def _start_update(self) -> None:
        if not self._updating:
            self._updating = True
            self._tasks.start_soon(self._update)

    async def _update(self) -> None:
        await anyio.sleep(HINTS_DELAY)
        self._updating = False
        found: dict[Path, list[JsonObject]] = {}
        for session in self._sessions() if self.hints else ():
            try:
                files, _ = await session.review.unreviewed_files()
            except StoreError:
                continue
            for one in files:
                hints = [_hint(session, one, hunk) for hunk in one.hunks]
                found.setdefault(Path(one.path), []).extend(hints)
        self._findings.set_hints(found)


def _hint(session: Session, reviewed: ReviewedFile, hunk: Hunk) -> JsonObject:
    labels = dict.fromkeys(info.label or session.review.changes.label(info.agent_id) for info in reviewed.changes(hunk))
    what = hunk.note or f"+{len(hunk.lines)} −{len(hunk.base_lines)} lines"
    mixed = " You have edited it." if hunk.mixed else ""
    return {
        "range": to_wire(lines_range(hunk.start, hunk.start + len(hunk.lines))),
        "severity": DiagnosticSeverity.Hint.value,
        "source": "deputy",
        "code": "unreviewed",
        "message": f"Not reviewed: {visible(', '.join(labels))} changed this ({what}).{mixed}",
        "data": {"sessionId": session.id, "hunkId": hunk.hunk_id},
    }
