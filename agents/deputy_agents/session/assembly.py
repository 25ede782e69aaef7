"""Puts the parts of a session together. Each gets all that it needs when it is made."""

from pathlib import Path

from anyio.abc import TaskGroup

from deputy_agents.definition.catalogue import Catalogue
from deputy_agents.definition.loader import PRIMARY
from deputy_agents.domain.event import SessionChanged
from deputy_agents.events.event_log import EventLog
from deputy_agents.events.view import View
from deputy_agents.files.workspace import Workspace
from deputy_agents.guidance.library import Library
from deputy_agents.permission.inbox import Inbox
from deputy_agents.ports.store import SessionRecord
from deputy_agents.run.driver import Driver
from deputy_agents.session.builder import Builder
from deputy_agents.session.change_tracker import ChangeTracker
from deputy_agents.session.customizations import Customizations
from deputy_agents.session.host import SessionHost
from deputy_agents.session.mcp_servers import McpServers
from deputy_agents.session.permissions import SessionPermissions
from deputy_agents.session.prompt_acceptor import PromptAcceptor
from deputy_agents.session.record_keeper import RecordKeeper
from deputy_agents.session.restore import Past
from deputy_agents.session.roster import Roster
from deputy_agents.session.services import Services
from deputy_agents.session.session import Parts, Session
from deputy_agents.session.supervisor import Supervisor
from deputy_agents.session.turn_scheduler import TurnScheduler
from deputy_agents.shell.background import BackgroundProcesses


def assemble(
    services: Services,
    record: SessionRecord,
    workspace: Workspace,
    catalogue: Catalogue,
    library: Library,
    tasks: TaskGroup,
    past: Past | None = None,
    definition: str = PRIMARY,
) -> Session:
    """A session whose tasks run in ``tasks``. ``past`` is what a stored session was; ``definition`` names that of a new
    session's primary agent."""
    log = EventLog(
        record.session_id,
        services.store,
        services.clock,
        past.view if past else View(),
        past.numbering if past else None,
    )
    keeper = RecordKeeper(record, log, services.store, services.clock, tasks)
    inbox = Inbox(log, tasks, services.grace)
    permissions = SessionPermissions(services, keeper, library, inbox)
    changes = ChangeTracker(workspace, log, is_new=past is None)
    processes = BackgroundProcesses(tasks, services.clock, lambda: log.emit(SessionChanged()))
    roster = Roster(record.agent_id)
    host = SessionHost(services, log, inbox, workspace, library, permissions, changes, processes, roster)

    cwd = Path(record.cwd)
    mcp_servers = McpServers(host, tasks, workspace.roots, cwd, services.approvals, catalogue, library)
    builder = Builder(host, catalogue, library, mcp_servers)
    supervisor = Supervisor(host, builder, roster, mcp_servers, services.slots, services.metrics, tasks)
    primary = _primary(supervisor, record, cwd, past, definition)
    turns = TurnScheduler(host, primary, supervisor, keeper, mcp_servers, tasks)
    return Session(
        Parts(
            keeper=keeper,
            permissions=permissions,
            changes=changes,
            roster=roster,
            host=host,
            mcp_servers=mcp_servers,
            customizations=Customizations(host, catalogue, library, mcp_servers),
            supervisor=supervisor,
            primary=primary,
            turns=turns,
            prompts=PromptAcceptor(host, primary, turns, mcp_servers, library),
            tasks=tasks,
            is_new=past is None,
        )
    )


def _primary(supervisor: Supervisor, record: SessionRecord, cwd: Path, past: Past | None, definition: str) -> Driver:
    if past is None:
        return supervisor.build_primary(cwd, record.model, definition)
    node = past.view.agents.get(record.agent_id)
    primary = supervisor.build_primary(cwd, record.model, node.info.definition if node else definition)
    supervisor.restore(past)
    return primary
