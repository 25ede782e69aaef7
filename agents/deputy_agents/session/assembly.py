"""Puts the parts of a session together. Each gets all that it needs when it is made."""

from collections.abc import Callable
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
from deputy_agents.ports.clock import Clock
from deputy_agents.ports.store import SessionRecord
from deputy_agents.project.briefing import Briefing
from deputy_agents.run.driver import Driver
from deputy_agents.run.effect import Notice
from deputy_agents.session.builder import Builder
from deputy_agents.session.builtin_commands import BuiltinCommands
from deputy_agents.session.change_tracker import ChangeTracker
from deputy_agents.session.checkpoints import Checkpoints
from deputy_agents.session.clients import ClientSettings, SessionSettings
from deputy_agents.session.coverage import Coverage
from deputy_agents.session.customizations import Customizations
from deputy_agents.session.histories import Histories
from deputy_agents.session.host import SessionHost
from deputy_agents.session.mcp_servers import McpServers
from deputy_agents.session.model_choice import ModelChoice
from deputy_agents.session.permissions import SessionPermissions
from deputy_agents.session.process_notices import ProcessNotices
from deputy_agents.session.prompt_acceptor import PromptAcceptor
from deputy_agents.session.record_keeper import RecordKeeper
from deputy_agents.session.restore import Past
from deputy_agents.session.review import Review
from deputy_agents.session.rewind import Rewind
from deputy_agents.session.roster import Roster
from deputy_agents.session.services import Services
from deputy_agents.session.session import Parts, Session
from deputy_agents.session.supervisor import Supervisor
from deputy_agents.session.turn_scheduler import TurnScheduler
from deputy_agents.shell.background import BackgroundProcesses


def assemble(
    services: Services,
    client: ClientSettings,
    record: SessionRecord,
    workspace: Workspace,
    catalogue: Catalogue,
    library: Library,
    tasks: TaskGroup,
    past: Past | None = None,
    definition: str = PRIMARY,
) -> Session:
    """A session of ``client``. ``past`` is what a stored one was; ``definition`` names that of a new primary agent."""
    log = _log(services, record, past)
    keeper = RecordKeeper(record, log, services.store, services.clock, tasks)
    inbox = Inbox(log, tasks, client.grace)
    settings = SessionSettings(client)
    permissions = SessionPermissions(settings, keeper, library, inbox)
    changes = ChangeTracker(log, services.ledgers, is_new=(is_new := past is None))
    roster = Roster(record.agent_id)
    checkpoints = _checkpoints(services, record, workspace, log, tasks, changes, lambda: _is_idle(turns, supervisor))
    jobs = BackgroundProcesses(tasks, services.clock, lambda: log.emit(SessionChanged()))
    recall = Histories(log, services.store)
    coverage = checkpoints.coverage
    host = SessionHost(
        services, settings, log, inbox, workspace, library, permissions, changes, coverage, jobs, roster, recall, keeper
    )
    cwd = Path(record.cwd)
    briefing = _briefing(workspace, cwd, services.clock, tasks)
    mcp_servers = McpServers(host, tasks, workspace.roots, cwd, services, catalogue, library)
    builder = Builder(host, catalogue, library, mcp_servers, briefing)
    supervisor = Supervisor(host, builder, roster, mcp_servers, recall, services.slots, services.metrics, tasks)
    primary = _primary(supervisor, record, cwd, past, definition)
    turns = TurnScheduler(host, primary, supervisor, keeper, mcp_servers, checkpoints, tasks)
    turns.restore(past.prompts if past else ())
    jobs.on_end(ProcessNotices(host, supervisor, roster, turns).ended)
    choice = ModelChoice(keeper, roster, supervisor)
    commands = BuiltinCommands(host, supervisor, roster, library, choice, permissions, turns, keeper)
    review = Review(workspace, log, changes, lambda text: primary.feed(Notice(text)))
    rewind = Rewind(host, services.store, checkpoints, review, supervisor, recall, keeper, lambda: session.works)
    session = Session(
        Parts(
            settings=settings,
            keeper=keeper,
            permissions=permissions,
            review=review,
            roster=roster,
            host=host,
            mcp_servers=mcp_servers,
            customizations=Customizations(host, catalogue, library, mcp_servers, permissions),
            supervisor=supervisor,
            model_choice=choice,
            primary=primary,
            turns=turns,
            prompts=PromptAcceptor(host, primary, turns, mcp_servers, library, briefing, commands, rewind, is_new),
            tasks=tasks,
            rewind=rewind,
            is_new=is_new,
        )
    )
    return session


def _log(services: Services, record: SessionRecord, past: Past | None) -> EventLog:
    view, saved_seq = (past.view, past.saved_seq) if past else (View(), 0)
    return EventLog(record.session_id, services.store, services.clock, view, saved_seq)


def _briefing(workspace: Workspace, cwd: Path, clock: Clock, tasks: TaskGroup) -> Briefing:
    briefing = Briefing(workspace, cwd, clock)
    tasks.start_soon(briefing.collect)
    return briefing


def _checkpoints(
    services: Services,
    record: SessionRecord,
    workspace: Workspace,
    log: EventLog,
    tasks: TaskGroup,
    changes: ChangeTracker,
    is_idle: Callable[[], bool],
) -> Checkpoints:
    coverage = Coverage(record.session_id, services.snapshots, workspace, tasks, is_idle)
    changes.further_notes = lambda: coverage.notes
    return Checkpoints(log, services.store, services.clock, record.agent_id, coverage)


def _is_idle(turns: TurnScheduler, supervisor: Supervisor) -> bool:
    """Whether no agent works."""
    return turns.running is None and not supervisor.below(supervisor.primary.agent.id)


def _primary(supervisor: Supervisor, record: SessionRecord, cwd: Path, past: Past | None, definition: str) -> Driver:
    if past is None:
        return supervisor.build_primary(cwd, record, definition)
    node = past.view.agents.get(record.agent_id)
    primary = supervisor.build_primary(cwd, record, node.info.definition if node else definition)
    supervisor.restore(past)
    return primary
