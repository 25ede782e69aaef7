"""Unreviewed hunks and their selection."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import cache

from pydantic.alias_generators import to_camel

from deputy_agents.domain.errors import InvalidRequest
from deputy_agents.events.view import AgentNode
from deputy_agents.review.hunks import Hunk
from deputy_agents.review.reviewed_file import Blame, ReviewedFile
from deputy_agents.review.tracked import ChangeInfo, counts_of
from deputy_agents.session.review import Reviewed, Selection
from deputy_agents.text import well_formed
from deputy_protocol import review
from deputy_protocol.base import rfc3339
from deputy_protocol.place import Position, Range
from deputy_server.convert.uris import path_of, uri_of

Labels = Callable[[str], str]
"""The label of an agent, by its id."""

Fields = dict[str, object]

_SELECTORS = ("hunk_ids", "uri", "agent_id", "turn_id", "all")


def selection_from_wire(params: review.ReviewParams) -> Selection:
    """
    Raises:
        InvalidRequest: there is not exactly one selector.
    """
    given = [name for name in _SELECTORS if getattr(params, name) not in (None, False)]
    if len(given) != 1:
        field = to_camel(given[-1]) if given else "hunkIds"
        raise InvalidRequest(f"{field}: give exactly one of hunkIds, uri, agentId, turnId and all.", field)
    return Selection(
        hunk_ids=params.hunk_ids,
        path=None if params.uri is None else str(path_of(params.uri, "uri")),
        agent_ids=None if params.agent_id is None else frozenset((params.agent_id,)),
        turn_id=params.turn_id,
        all=params.all,
    )


def files_to_wire(files: Sequence[ReviewedFile], notes: Sequence[str], labels: Labels) -> review.ReviewListResult:
    # Built of plain values and validated at once: thousands of hunks would take several times as long as models.
    labels = cache(labels)
    listed = [_file(one, labels) for one in files]
    totals = {name: sum(counts[name] for _, counts in listed) for name in ("hunks", "added", "removed")}
    return review.ReviewListResult.model_validate(
        {
            "files": [fields for fields, _ in listed],
            "totals": totals | {"files": len(listed)},
            "notes": list(notes),
        }
    )


def _file(reviewed: ReviewedFile, labels: Labels) -> tuple[Fields, dict[str, int]]:
    counts = asdict(counts_of(reviewed.hunks))
    fields: Fields = {
        "uri": uri_of(reviewed.path),
        "status": reviewed.status,
        "added": counts["added"],
        "removed": counts["removed"],
        "hunks": [_hunk(reviewed, hunk, labels) for hunk in reviewed.hunks],
    }
    return fields, counts


def _hunk(reviewed: ReviewedFile, hunk: Hunk, labels: Labels) -> Fields:
    return {
        "hunk_id": hunk.hunk_id,
        "range": _lines_range(hunk.start, hunk.start + len(hunk.lines)),
        "base_lines": _without_ends(hunk.base_lines),
        "lines": _without_ends(hunk.lines),
        "changes": [_change(info, labels) for info in reviewed.changes(hunk)],
        "mixed": hunk.mixed,
        "note": hunk.note,
    }


def _change(info: ChangeInfo, labels: Labels) -> Fields:
    return {
        "agent_id": info.agent_id,
        "label": info.label or labels(info.agent_id),
        "turn_id": info.turn_id,
        "tool_call_id": info.tool_call_id,
        "time": rfc3339(info.time),
    }


def _lines_range(start: int, end: int) -> Fields:
    return {"start": {"line": start, "character": 0}, "end": {"line": end, "character": 0}}


def lines_range(start: int, end: int) -> Range:
    """Whole lines, counted from 0, the end excluded."""
    return Range(start=Position(line=start, character=0), end=Position(line=end, character=0))


def _without_ends(lines: Sequence[str]) -> tuple[str, ...]:
    return tuple(well_formed(line.rstrip("\r\n")) for line in lines)


def reviewed_to_wire(result: Reviewed) -> review.ReviewResult:
    return review.ReviewResult(
        done=tuple(result.done),
        conflicts=tuple(
            review.ReviewConflict(hunk_id=one.hunk_id, uri=uri_of(one.path), reason=one.reason)
            for one in result.conflicts
        ),
    )


def blame_to_wire(blame: Blame, session_id: str, node: AgentNode | None, title: str) -> review.BlameEntry:
    """``node`` is the agent and ``title`` that of the tool call, as far as they are known."""
    info = blame.info
    return review.BlameEntry(
        range=lines_range(blame.start, blame.end),
        agent=review.BlameAgent(
            agent_id=info.agent_id,
            label=info.label or (node.info.label if node else ""),
            definition=node.info.definition if node else "",
        ),
        session_id=session_id,
        turn_id=info.turn_id,
        tool_call_id=info.tool_call_id,
        title=title,
        time=rfc3339(info.time),
        approved_by=review.ApprovedBy(info.approved.value),
        state=review.ReviewState.KEPT if blame.kept else review.ReviewState.UNREVIEWED,
    )


def path_from_wire(uri: str | None) -> str | None:
    """
    Raises:
        InvalidRequest: ``uri`` is not a ``file:`` URI.
    """
    return None if uri is None else str(path_of(uri, "uri"))
