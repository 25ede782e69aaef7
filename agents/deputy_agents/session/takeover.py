"""A session whose client is gone gets another one."""

from collections.abc import Sequence
from pathlib import Path

from deputy_agents.files.workspace import Workspace
from deputy_agents.session.clients import ClientSettings
from deputy_agents.session.session import Session


async def take_over(session: Session, client: ClientSettings, roots: Sequence[Path]) -> None:
    """Make ``session`` that of ``client``, within ``roots``, as if it had opened the session, unless it has a client
    that is connected, or something runs in it: what runs keeps the settings that it was started with."""
    if session.settings.client.connected:
        return
    further = client.current.roots if client.current.trusted else ()
    opened = await Workspace.open(roots, None, further)
    if session.works:
        return
    session.settings.client = client
    session.workspace.further = opened.further
    if opened.roots != session.workspace.roots:
        session.set_roots(opened.roots)
    session.inbox.grace = client.grace
    session.permissions.client_changed()
    await session.refresh()
