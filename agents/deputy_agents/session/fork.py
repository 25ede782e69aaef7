"""Copies of sessions: a fork begins as another session was at a checkpoint, and both go on independently."""

from collections.abc import Iterable
from dataclasses import replace

from deputy_agents.domain.ids import new_id
from deputy_agents.domain.permission_mode import PermissionMode
from deputy_agents.ports.store import SessionRecord, Store
from deputy_agents.session.title import title_of

_TITLE = "Fork of {title}"


async def fork(
    store: Store, record: SessionRecord, agent_ids: Iterable[str], checkpoint_id: str | None, now: float
) -> str:
    """Stores a fork of the session of ``record`` with ``agent_ids``, and returns its id. What the user has allowed for
    the rest of that session is not allowed here.

    Raises:
        InvalidRequest: there is no such checkpoint.
        WrongState: sessions are not stored.
        StoreError: the store cannot be used.
    """
    ids = {agent_id: new_id() for agent_id in agent_ids}
    copied = replace(
        record,
        session_id=new_id(),
        agent_id=ids[record.agent_id],
        title=title_of(_TITLE.format(title=record.title)) if record.title else "",
        created_at=now,
        updated_at=now,
        archived=False,
        rules=(),
        permission_mode=record.permission_mode if record.permission_mode is PermissionMode.PLAN else None,
    )
    await store.fork(record.session_id, copied, ids, checkpoint_id)
    return copied.session_id
