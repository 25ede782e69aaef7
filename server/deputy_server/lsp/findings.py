"""Findings of reviews as diagnostics, as long as the lines that they are about exist."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup
from lsprotocol import types

from deputy_agents.domain.event import (
    AgentFinished,
    CallStatus,
    Event,
    ToolCallUpdated,
    TurnFinished,
)
from deputy_agents.domain.ids import new_id
from deputy_agents.domain.outcome import AgentStatus
from deputy_agents.editor.findings import Finding, Severity, findings
from deputy_agents.events.entries import read_message
from deputy_agents.session.session import Session
from deputy_agents.text import lines_with_ends, visible
from deputy_server.lsp.documents import Documents
from deputy_server.lsp.protocol import RpcProtocol
from deputy_server.rpc.json import JsonObject

REVIEWER = "code_review"
"""The agent definition whose answers are searched for findings, built-in or the user's."""

RECHECK_INTERVAL = 0.5
"""Seconds between two checks of files that agents may have changed."""

_SEVERITIES = {
    Severity.CRITICAL: types.DiagnosticSeverity.Error,
    Severity.MAJOR: types.DiagnosticSeverity.Warning,
    Severity.MINOR: types.DiagnosticSeverity.Information,
}


@dataclass(frozen=True, slots=True)
class ShownFinding:
    """A finding that the client shows."""

    finding_id: str
    session_id: str
    finding: Finding

    @property
    def span(self) -> tuple[int, int]:
        """Its first and last line, counted from 0."""
        return self.finding.start - 1, self.finding.start - 2 + len(self.finding.lines)


class Findings:
    """The findings that one client shows."""

    def __init__(self, protocol: RpcProtocol, documents: Documents, tasks: TaskGroup) -> None:
        self._protocol = protocol
        self._documents = documents
        self._tasks = tasks
        self._shown: dict[Path, list[ShownFinding]] = {}
        self._rechecking = False
        self._hints: dict[Path, list[JsonObject]] = {}

    def set_hints(self, hints: dict[Path, list[JsonObject]]) -> None:
        """Show these diagnostics beside the findings, instead of earlier ones: a file has one list of diagnostics."""
        changed = [path for path in {**self._hints, **hints} if self._hints.get(path) != hints.get(path)]
        self._hints = hints
        for path in changed:
            self._publish(path)

    def on_event(self, session: Session, event: Event) -> None:
        """Show the findings of a completed review, and recheck when agents may have changed files."""
        match event.body:
            case AgentFinished(status=AgentStatus.COMPLETED):
                node = session.view.agents.get(event.agent_id or "")
                if node is not None and node.info.definition == REVIEWER:
                    self._tasks.start_soon(self._add, session, node.info.agent_id)
            case ToolCallUpdated(status=CallStatus.COMPLETED) | TurnFinished():
                self.recheck_soon()
            case _:
                pass

    async def _add(self, session: Session, agent_id: str) -> None:
        """Show what a review has found. Its findings replace earlier ones of the session in the same files."""
        found = await findings(await _answer(session, agent_id), session.workspace, Path(session.record.cwd))
        for path in {finding.path for finding in found}:
            self._shown[path] = [old for old in self._shown.get(path, ()) if old.session_id != session.id]
        for finding in found:
            self._shown[finding.path].append(ShownFinding(new_id(), session.id, finding))
        for path in {finding.path for finding in found}:
            self._publish(path)

    def at(self, path: Path, first: int, last: int) -> Iterator[ShownFinding]:
        """The findings in ``path`` that touch the lines from ``first`` to ``last``, counted from 0."""
        for shown in self._shown.get(path, ()):
            if shown.span[0] <= last and first <= shown.span[1]:
                yield shown

    def dismiss(self, finding_id: str) -> bool:
        """Remove a finding. Return ``False`` when it is not shown."""
        everywhere = ((path, one) for path, shown in self._shown.items() for one in shown)
        found = next(((path, one) for path, one in everywhere if one.finding_id == finding_id), None)
        if found is not None:
            path, dismissed = found
            self._shown[path].remove(dismissed)
            self._publish(path)
        return found is not None

    def text_changed(self, path: Path, text: Callable[[], str]) -> None:
        """Move findings along with their lines, and remove those whose lines have changed."""
        if shown := self._shown.get(path):
            lines = [line.rstrip("\r\n") for line in lines_with_ends(text())]
            moved = [found for one in shown if (found := _moved(one, lines)) is not None]
            if moved != shown:
                self._shown[path] = moved
                self._publish(path)

    def recheck_soon(self) -> None:
        """Recheck the files that are not open in the editor, once for all calls within ``RECHECK_INTERVAL``."""
        if self._shown and not self._rechecking:
            self._rechecking = True
            self._tasks.start_soon(self._recheck)

    async def _recheck(self) -> None:
        await anyio.sleep(RECHECK_INTERVAL)
        self._rechecking = False
        for path in tuple(self._shown):
            if self._documents.at(path) is None:
                text = await anyio.to_thread.run_sync(_read, path)
                self.text_changed(path, lambda text=text: text)

    def _publish(self, path: Path) -> None:
        document = self._documents.at(path)
        diagnostics = [*map(self._diagnostic, self._shown.get(path, ())), *self._hints.get(path, ())]
        params: JsonObject = {"uri": document.uri if document else path.as_uri(), "diagnostics": diagnostics}
        if document is not None and document.version is not None:
            params["version"] = document.version
        self._protocol.notify(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS, params)
        if not self._shown.get(path):
            self._shown.pop(path, None)

    def _diagnostic(self, shown: ShownFinding) -> JsonObject:
        finding, (first, last) = shown.finding, shown.span
        units = self._documents.position_codec.client_num_units
        begin, end = finding.lines[0], finding.lines[-1]
        indent = len(begin) - len(begin.lstrip())
        return {
            "range": {
                "start": {"line": first, "character": indent},
                "end": {"line": last, "character": units(end)},
            },
            "severity": _SEVERITIES[finding.severity].value,
            "source": "deputy",
            "code": str(finding.severity),
            "message": visible(finding.text),
            "data": {"findingId": shown.finding_id},
        }


async def _answer(session: Session, agent_id: str) -> str:
    """The agent's last message, from its transcript: the result in its end event may be truncated."""
    seq = session.view.transcripts.last_answers.get(agent_id)
    message = await read_message(session.view, session.log.read_at, seq)
    return message.text if message else ""


def _moved(shown: ShownFinding, lines: Sequence[str]) -> ShownFinding | None:
    """``shown`` at the nearest place with the same lines; ``None`` if there is no such place."""
    wanted, before = list(shown.finding.lines), shown.span[0]
    places = (at for at, line in enumerate(lines) if line == wanted[0] and lines[at : at + len(wanted)] == wanted)
    at = min(places, key=lambda place: abs(place - before), default=None)
    return None if at is None else replace(shown, finding=replace(shown.finding, start=at + 1))


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""
