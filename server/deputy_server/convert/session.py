"""Sessions and queued prompts."""

from collections.abc import Sequence

from deputy_agents.domain import event as ev
from deputy_agents.ports.store import SessionRecord
from deputy_protocol import event as wire_event
from deputy_protocol import session
from deputy_protocol.base import rfc3339
from deputy_protocol.model import Effort, Thinking
from deputy_server.convert.uris import uri_of


def session_to_wire(record: SessionRecord) -> session.SessionInfo:
    return session.SessionInfo(
        session_id=record.session_id,
        parent_session_id=record.parent_session_id,
        title=record.title,
        cwd=uri_of(record.cwd),
        created_at=rfc3339(record.created_at),
        updated_at=rfc3339(record.updated_at),
        archived=record.archived,
        model=record.model,
        permission_mode=None if record.permission_mode is None else session.PermissionMode(record.permission_mode),
        agent_count=record.agent_count,
        effort=None if record.effort is None else Effort(record.effort),
        thinking=None if record.thinking is None else Thinking(record.thinking),
    )


def queued_prompts_to_wire(waiting: Sequence[ev.QueuedPrompt]) -> tuple[wire_event.PromptQueueEntry, ...]:
    return tuple(
        wire_event.PromptQueueEntry(prompt_id=one.prompt_id, text=one.text, pictures=one.pictures or None)
        for one in waiting
    )
