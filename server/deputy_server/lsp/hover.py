"""Handler of ``textDocument/hover``: who changed a line, why, and what approved it."""

from datetime import UTC, datetime
from pathlib import Path

from deputy_agents.domain.errors import StoreError
from deputy_agents.domain.event import MessageAdded
from deputy_agents.review.reviewed_file import Blame
from deputy_agents.session.session import Session
from deputy_agents.text import cut, visible
from deputy_protocol.base import to_wire
from deputy_protocol.validate import parse
from deputy_server.convert.review import lines_range
from deputy_server.lsp.connection import Connection
from deputy_server.lsp.review import title_of
from deputy_server.lsp.text_params import HoverParams

_MAX_ENTRIES = 3
_MAX_REASON = 300
"""Characters of the message that led to a change."""
_LOOK_BACK = 200
"""Events before a tool call among which its reason is searched."""

_APPROVED = {
    "user": "approved by you",
    "rule": "approved by a rule",
    "mode": "allowed by the permission mode",
    "sandbox": "made in the sandbox",
    "none": "no approval recorded",
}
_MARKDOWN = str.maketrans({char: f"\\{char}" for char in "\\`*_{}[]<>#|!"})


async def hover(connection: Connection, raw: object) -> object:
    params = parse(HoverParams, raw)
    document = connection.documents.named(params.text_document.uri)
    if document is None or document.real_path is None or connection.transcript_at(document) is not None:
        return None
    line = params.position.line
    found = [
        (session, one)
        for session in connection.app.runtime.live()
        for one in await session.review.blame(str(document.real_path), line)
    ]
    if not found:
        return None
    texts = [await _text(connection, session, blame) for session, blame in found[:_MAX_ENTRIES]]
    if len(found) > _MAX_ENTRIES:
        texts.append(f"… and {len(found) - _MAX_ENTRIES} earlier changes")
    first = found[0][1]
    span = lines_range(first.start, max(first.end, first.start))
    return {"contents": {"kind": "markdown", "value": "\n\n---\n\n".join(texts)}, "range": to_wire(span)}


async def _text(connection: Connection, session: Session, blame: Blame) -> str:
    info = blame.info
    node = session.view.agents.get(info.agent_id)
    label = info.label or (node.info.label if node else info.agent_id)
    definition = f" ({_plain(node.info.definition)})" if node else ""
    state = "kept" if blame.kept else "not reviewed"
    when = datetime.fromtimestamp(info.time, UTC).astimezone().strftime("%Y-%m-%d %H:%M")
    lines = [f"**{_plain(label)}**{definition} changed this line: {state}"]
    if title := await title_of(session, info):
        lines.append(_plain(title))
    if reason := await _reason(session, blame):
        lines.append(f"Why: {_plain(cut(reason, _MAX_REASON))}")
    lines.append(f"{when}, {_APPROVED[info.approved.value]}")
    if not connection.client.events and (link := await _transcript(connection, session, info.agent_id)):
        lines.append(f"[Open transcript]({link.as_uri()})")
    return "  \n".join(lines)


async def _reason(session: Session, blame: Blame) -> str:
    """The first line of what the agent, or the user, wrote last before the change."""
    info = blame.info
    seq = session.view.transcripts.call(info.agent_id, info.tool_call_id, info.run)
    if seq is None:
        return ""
    try:
        events = await session.log.read(max(0, seq - _LOOK_BACK), min(seq, _LOOK_BACK))
    except StoreError:
        return ""
    texts = (
        event.body.text.strip()
        for event in reversed(events)
        if event.agent_id == info.agent_id and isinstance(event.body, MessageAdded)
    )
    return next((text.splitlines()[0] for text in texts if text), "")


async def _transcript(connection: Connection, session: Session, agent_id: str) -> Path | None:
    try:
        return await connection.transcripts.open(session, agent_id)
    except StoreError:
        return None


def _plain(text: str) -> str:
    return visible(text).translate(_MARKDOWN)
