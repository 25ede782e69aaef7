"""The MCP servers of one session: which there are, whether the user lets them run, and the tools they give to agents.

All agents of the session share a server; one that a definition names belongs to the agents of that definition. It is
started before the first prompt that finds it, or before the first agent that it is for, and ends with the session. Each
new command line that the user has not written asks for approval once. The permission request is a tool call of the
primary, although no model made it, so that every client shows it among the others.
"""

import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup

from deputy_agents.definition.catalogue import Catalogue
from deputy_agents.definition.definition import Definition
from deputy_agents.domain.event import (
    CallStatus,
    InputRequest,
    OptionKind,
    PermissionRequest,
    SessionChanged,
    ToolCallStarted,
    ToolCallUpdated,
)
from deputy_agents.domain.event import ResolvedBy as By
from deputy_agents.domain.ids import new_id
from deputy_agents.domain.problem import Problem
from deputy_agents.domain.rule import AccessRequest, DecisionKind
from deputy_agents.domain.user_input import InputForm
from deputy_agents.guidance.library import Library
from deputy_agents.guidance.mcp_config import read_mcp_servers
from deputy_agents.guidance.mcp_entry import SETTINGS, McpServerEntry, McpServerSource
from deputy_agents.guidance.workspace_settings import WorkspaceSettings
from deputy_agents.mcp.catalog import McpServerState
from deputy_agents.mcp.connection import McpConnection
from deputy_agents.mcp.prompt import McpPrompt
from deputy_agents.mcp.tool import McpResourceTool, McpTool
from deputy_agents.permission.decide import Decision, decide
from deputy_agents.permission.inbox import InputOutcome, PermissionOutcome
from deputy_agents.run.agent import Agent
from deputy_agents.run.host import Host, emit
from deputy_agents.session.mcp_server_status import (
    STOPPED,
    TOOL,
    McpServer,
    McpServerStatus,
    access_request,
    permission_request,
)
from deputy_agents.session.services import Services
from deputy_agents.text import cut, visible
from deputy_agents.tool.base import Tool

logger = logging.getLogger(__name__)

PATIENCE = 10.0
"""Seconds that a prompt waits for servers that are starting. Later their tools are added when they are ready."""
SILENCE = 1.0
"""Seconds after which clients are notified of what a prompt waits for."""

_NOT_STARTED = {
    By.USER: "you denied it this time",
    By.DISMISSED: "the approval prompt was dismissed without an answer, which is not consent",
    By.UNREACHABLE: "it needs approval, and there is nobody to ask",
    By.CANCELLED: "the permission request was withdrawn",
}


def sources(
    settings: Mapping[str, object],
    user: WorkspaceSettings,
    workspace: WorkspaceSettings,
    definitions: Iterable[Definition],
    editor: Sequence[McpServerSource] = (),
) -> Sequence[McpServerSource]:
    """Places that name servers; of one name the first counts. What only the user can have written comes before what may
    come with a workspace, because the user's rules for a server are about the user's own."""
    of_definitions = (
        McpServerSource(one.source, inline, trusted=one.from_home, definition=one.name)
        for one in definitions
        if (inline := {name: entry for name, entry in (one.mcp_servers or {}).items() if entry is not None})
    )
    return (*editor, McpServerSource(SETTINGS, settings), *user.mcp_servers, *workspace.mcp_servers, *of_definitions)


def unknown_servers(definitions: Iterable[Definition], servers: Collection[tuple[str, str]]) -> Sequence[Problem]:
    """Servers that ``definitions`` name and that are not among ``servers``, which has :attr:`McpServerEntry.key`."""
    return [
        Problem(one.source, 1, f"It names the MCP server {cut(visible(name), 40)}, but there is no such server.")
        for one in definitions
        for name, entry in (one.mcp_servers or {}).items()
        if entry is None and ("", name) not in servers
    ]


class McpServers:
    """``.mcp.json`` files below ``roots`` come after all other sources. Servers run in ``folder``; ``services`` has
    the user's answers for it, and where the user is signed in."""

    def __init__(
        self,
        host: Host,
        tasks: TaskGroup,
        roots: Sequence[Path],
        folder: Path,
        services: Services,
        catalogue: Catalogue,
        library: Library,
    ) -> None:
        self.roots = tuple(roots)
        self.of_editor: Sequence[McpServerSource] = ()
        """Servers that the editor names for this session; they count from the next :meth:`refresh`."""
        self.problems: tuple[Problem, ...] = ()
        """What is wrong with the configuration."""
        self.named: frozenset[tuple[str, str]] | None = None
        """Keys of all servers in the configuration, disabled ones too; ``None`` before the first :meth:`refresh`."""
        self._host = host
        self._tasks = tasks
        self._folder = folder
        self._approvals = services.approvals
        self._sign_ins = services.sign_ins
        self._catalogue = catalogue
        self._library = library
        self._servers: dict[tuple[str, str], McpServer] = {}
        self._listeners: list[Callable[[], None]] = []

    def on_change(self, listener: Callable[[], None]) -> None:
        """Calls ``listener`` whenever a server has started, has ended or has other tools."""
        self._listeners.append(listener)

    def list(self) -> Sequence[McpServerStatus]:
        """By name, those of definitions last."""
        return [self._servers[key].status for key in sorted(self._servers)]

    @property
    def connection_problems(self) -> Sequence[Problem]:
        """Why servers do not run, unless the user has decided so, and which of their tools are left out."""
        return [
            Problem(server.entry.source.place, 1, reason)
            for _, server in sorted(self._servers.items())
            for reason in server.problems()
        ]

    def tools(self, definition: str = "") -> Mapping[str, Tool]:
        """Tools by name of the servers that run or are being restarted: of those for all agents, or of those for the
        agents of ``definition``."""
        mine = (s for _, s in sorted(self._servers.items()) if s.entry.source.definition == definition)
        running = [s.connection for s in mine if s.connection and s.state not in STOPPED]
        reading = (McpResourceTool(one) for one in running if one.catalog.resources)
        tools = (McpTool(one, name, own) for one in running for name, own in one.catalog.tools.items())
        return {tool.spec.name: tool for tool in (*reading, *tools)}  # a server's own tool wins over the resource tool

    def prompts(self) -> Mapping[str, McpPrompt]:
        """Prompts of the servers that run for all agents, by the names that users call them by."""
        servers = (s for _, s in sorted(self._servers.items()) if s.state is McpServerState.READY)
        running = (s.connection for s in servers if s.connection)
        found = (McpPrompt(one, offered) for one in running for offered in one.catalog.prompts)
        return {prompt.name: prompt for prompt in found}

    async def refresh(self) -> None:
        """Reads the configuration. Servers that are gone from it or have changed end."""
        roots = self.roots if self._host.settings.trusted else ()
        read = partial(read_mcp_servers, self._sources(), roots)
        named, self.problems = await to_thread.run_sync(read, abandon_on_cancel=True)
        self.named = frozenset(named)
        entries = {key: entry for key, entry in named.items() if not entry.disabled}
        for key, server in tuple(self._servers.items()):
            if entries.get(key) != server.entry:
                del self._servers[key]
                server.scope.cancel()
                server.decided.set()
                self._changed()
        for key, entry in entries.items():
            self._servers.setdefault(key, McpServer(entry))

    def _sources(self) -> Sequence[McpServerSource]:
        settings, library = self._host.settings, self._library
        workspace = library.workspace_settings if settings.trusted else WorkspaceSettings()
        definitions = self._catalogue.definitions.values()
        return sources(settings.mcp_servers, library.user_settings, workspace, definitions, self.of_editor)

    async def start(self, primary: Agent, waits_for: Callable[[str], None]) -> None:
        """Starts the servers for ``primary`` that may run without asking and waits for them, in bounded time. If that
        takes long, ``waits_for`` is called with their names. The others need :meth:`ask`."""
        started = await self._start(self._for("", primary.definition.name), primary)
        with anyio.move_on_after(SILENCE):
            await _start_finished(started)
            return
        waits_for(_names([server for server in started if server.state is McpServerState.STARTING]))
        await _start_finished(started)

    def ask(self, primary: Agent) -> None:
        """Asks the user about servers for ``primary`` that nothing has decided about. Does not wait for the answer."""
        self._ask_about(self._for("", primary.definition.name), primary)

    async def equip(self, primary: Agent, definition: str | None = None) -> None:
        """Starts the servers for ``primary``, or those for agents of ``definition`` alone. Waits for the user's answer
        about each, and then in bounded time for the servers."""
        mine = self._for("", primary.definition.name) if definition is None else self._for(definition)
        await self._start(mine, primary)
        self._ask_about(mine, primary)
        for server in mine:
            await server.decided.wait()
        await _start_finished(mine)

    def _for(self, *definitions: str) -> Sequence[McpServer]:
        return [server for server in self._servers.values() if server.entry.source.definition in definitions]

    async def _start(self, servers: Sequence[McpServer], primary: Agent) -> Sequence[McpServer]:
        """Starts those of ``servers`` that are new and may run without asking; returns the new ones."""
        new = [server for server in servers if server.state is McpServerState.NEW]
        for server in new:
            await self._decide(server, primary)
        return new

    def _ask_about(self, servers: Sequence[McpServer], primary: Agent) -> None:
        for server in servers:
            if server.state is McpServerState.NEW:
                server.state = McpServerState.AWAITING_APPROVAL
                self._tasks.start_soon(self._ask, server, primary)

    # -- permission ------------------------------------------------------------------------------------------------

    def _decision(self, access: AccessRequest, primary: Agent) -> Decision:
        return decide(self._host.policy(primary), access)

    async def _access(self, server: McpServer) -> AccessRequest:
        return await to_thread.run_sync(access_request, server.entry, self._folder, abandon_on_cancel=True)

    async def _decide(self, server: McpServer, primary: Agent) -> None:
        decision = self._decision(await self._access(server), primary)
        allowed: bool | None = decision.kind is DecisionKind.ALLOW
        if decision.kind is DecisionKind.ASK:
            stored = partial(self._approvals.get, self._folder, server.entry)
            allowed = await to_thread.run_sync(stored, abandon_on_cancel=True)
            if allowed is None and server.entry.source.trusted and decision.rule is None:
                allowed = True
        if server.state is not McpServerState.NEW:
            return  # a concurrent call has decided meanwhile
        if allowed:
            self._run(server, primary)
        elif allowed is not None:
            denied = decision.kind is DecisionKind.DENY
            server.reject(decision.reason if denied else "you chose never to start it", by_user=not denied)

    async def _ask(self, server: McpServer, primary: Agent) -> None:
        access = await self._access(server)
        decision = self._decision(access, primary)
        reason = decision.reason if decision.rule else ""
        request = permission_request(server.entry, primary, self._folder, reason)
        call_id = request.tool_call_id
        started = ToolCallStarted(call_id, TOOL, request.title, request.kind, CallStatus.PENDING, request.input)
        emit(self._host, primary, started)
        with server.scope:
            outcome = await self._host.inbox.ask(
                request, primary.run, lambda: PermissionOutcome.by_rule(self._decision(access, primary))
            )
            await self._settle(server, primary, request, outcome)
        if server.connection is not None:
            emit(self._host, primary, ToolCallUpdated(call_id, CallStatus.IN_PROGRESS))
            await server.connection.start_finished.wait()
        status = server.status
        done = CallStatus.COMPLETED if status.state is McpServerState.READY else CallStatus.FAILED
        emit(self._host, primary, ToolCallUpdated(call_id, done, status.summary()))

    async def _settle(
        self, server: McpServer, primary: Agent, request: PermissionRequest, outcome: PermissionOutcome
    ) -> None:
        option = outcome.option
        if outcome.input is not None and outcome.input != request.input:
            why = "the answer cannot change what is started; change it where the server is configured"
            server.reject(why, by_user=False)
            return
        if option is not None and option.kind in (OptionKind.ALLOW_ALWAYS, OptionKind.REJECT_ALWAYS):
            await self._keep_answer(server.entry, option.kind.allows)
        if outcome.allowed or (option is not None and option.kind.allows):
            self._run(server, primary)
        else:
            server.reject(outcome.reason or _NOT_STARTED[outcome.by], by_user=True)

    async def _keep_answer(self, entry: McpServerEntry, allowed: bool) -> None:
        try:
            await to_thread.run_sync(self._approvals.save, self._folder, entry, allowed)
        except OSError as error:
            logger.warning("the answer about MCP server %s was not stored: %s", entry.name, error)

    # -- running ---------------------------------------------------------------------------------------------------

    def _run(self, server: McpServer, primary: Agent) -> None:
        server.state = McpServerState.STARTING
        server.decided.set()
        server.connection = McpConnection(
            server.entry,
            str(self._folder),
            partial(self._connection_changed, server),
            isolated=self._host.settings.shell.isolated,
            ask=partial(self._ask_for_input, primary),
            sign_ins=self._sign_ins,
        )
        self._tasks.start_soon(self._keep_running, server, server.connection.run)

    async def _ask_for_input(self, primary: Agent, form: InputForm) -> InputOutcome:
        """Asks the user what an MCP server needs for requests of several agents, or of the user."""
        title = primary.title(f"{form.server}({visible(form.about)})")
        return await self._host.inbox.ask_input(InputRequest(new_id(), primary.ref, title, form), primary.run)

    async def _keep_running(self, server: McpServer, run: Callable[[], Awaitable[None]]) -> None:
        with server.scope:
            await run()

    def _connection_changed(self, server: McpServer) -> None:
        if server.connection is not None:
            server.state, server.problem = server.connection.state, server.connection.problem
        self._changed()

    def _changed(self) -> None:
        self._host.log.emit(SessionChanged())
        for listener in self._listeners:
            listener()


async def _start_finished(servers: Sequence[McpServer]) -> None:
    with anyio.move_on_after(PATIENCE):
        for server in servers:
            if server.connection is not None:
                await server.connection.start_finished.wait()


def _names(servers: Sequence[McpServer]) -> str:
    names = ", ".join(server.entry.name for server in servers)
    return f"the MCP server{'' if len(servers) == 1 else 's'} {names}" if servers else ""
