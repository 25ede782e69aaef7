"""The view of a session as it is stored beside the events, so that opening a long session reads only its last events.

A saved view is a cache: one that other code has made, that is damaged, or that does not fit the events is ignored, and
the events are folded again.
"""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from hashlib import sha256
from pathlib import Path

from pydantic import TypeAdapter

from deputy_agents.domain import access, event, message, outcome, review, user_input
from deputy_agents.domain.event import Event, InputRequest, PermissionRequest, PlanEntry, TurnFinished
from deputy_agents.events import lineage, transcript_index, view
from deputy_agents.events.lineage import Lineage
from deputy_agents.events.transcript_index import TranscriptIndex
from deputy_agents.events.view import AgentNode, View
from deputy_agents.ports.store import StoredView, ViewRecord

logger = logging.getLogger(__name__)

_CODE = (access, event, lineage, message, outcome, review, transcript_index, user_input, view)
"""What a saved view depends on."""


@dataclass(frozen=True, slots=True)
class _Facts:
    """What a view has besides the index of transcripts."""

    agents: tuple[AgentNode, ...]
    permission_requests: tuple[PermissionRequest, ...]
    input_requests: tuple[InputRequest, ...]
    plans: dict[str, tuple[PlanEntry, ...]]
    last_turn: TurnFinished | None
    open_turn: str | None
    truncated: tuple[str, ...]
    replies: tuple[tuple[str, int, int], ...]
    agent_seqs: tuple[tuple[str | None, int | None, int], ...]
    lineage: Lineage
    first_seqs: dict[str, int]


def saved(live: View, code: str) -> ViewRecord:
    """``live`` as it is now, to be stored; ``code`` is the :func:`version`. Takes a few milliseconds, as it copies no
    text."""
    facts = _Facts(
        tuple(live.agents.values()),
        tuple(live.permission_requests.values()),
        tuple(live.input_requests.values()),
        dict(live.plans),
        live.last_turn,
        live.open_turn,
        tuple(live.truncated),
        tuple((*key, count) for key, count in live.replies.items()),
        tuple((*key, number) for key, number in live.agent_seqs.items()),
        Lineage(dict(live.lineage.marks), live.lineage.hidden),
        dict(live.first_seqs),
    )
    return ViewRecord(live.last_seq, code, facts, live.transcripts.copy())


def restored(stored: StoredView | None) -> View | None:
    """The view that was stored; ``None`` if there is none that this code has made, or it is damaged. Blocks for as long
    as it takes to parse. Never raises."""
    if stored is None or stored.version != version():
        return None
    try:
        facts = _facts().validate_json(stored.facts)
        found = View()
        found.transcripts = _index().validate_json(stored.index)
    except (ValueError, RecursionError) as error:
        logger.warning("a saved view cannot be read: %s", type(error).__name__)
        return None
    found.last_seq = stored.seq
    for node in facts.agents:
        found.agents[node.info.agent_id] = replace(node, activity=None) if node.activity else node
    found.permission_requests = {request.request_id: request for request in facts.permission_requests}
    found.input_requests = {request.request_id: request for request in facts.input_requests}
    found.plans = facts.plans
    found.last_turn, found.open_turn = facts.last_turn, facts.open_turn
    found.truncated = set(facts.truncated)
    found.replies = {(agent_id, run): count for agent_id, run, count in facts.replies}
    found.agent_seqs = {(agent_id, run): number for agent_id, run, number in facts.agent_seqs}
    found.lineage, found.first_seqs = facts.lineage, facts.first_seqs
    return found


def follows(base: View, events: Sequence[Event]) -> bool:
    """Whether ``events`` continue ``base``."""
    return not events or events[0].seq == base.last_seq + 1


def fold(events: Iterable[Event], onto: View | None = None) -> View:
    """The view of ``events``, which continue ``onto``."""
    folded = onto or View()
    for one in events:
        folded.apply(one)
    return folded


@cache
def version() -> str:
    """Identifies the code that folds events: a view that other code has saved may be wrong. Blocks at the first
    call."""
    digest = sha256()
    for module in (*(Path(one.__file__ or "") for one in _CODE), Path(__file__)):
        try:
            digest.update(module.read_bytes())
        except OSError:
            digest.update(str(module).encode())
    return digest.hexdigest()[:32]


@cache
def _facts() -> TypeAdapter[_Facts]:
    return TypeAdapter(_Facts)


@cache
def _index() -> TypeAdapter[TranscriptIndex]:
    return TypeAdapter(TranscriptIndex)
