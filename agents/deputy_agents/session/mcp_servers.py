"""The MCP servers of one session: which there are, whether the user lets them run, and what they give agents.

A server is shared by all agents of the session, one that a definition brings along by all agents of that. It is
started before the first prompt that finds it, or before the first agent that it is for, and ends with the session. Each
new command line that the user has not written is asked about once: the question is a call of the primary, though no
model has made it, so that every client shows it where it shows the others.
"""

import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup

from deputy_agents.definition.definition import Definition
from deputy_agents.domain.event import (
    Batch,
    CallStatus,
    CommandPreview,
    Option,
    OptionKind,
    PermissionRequest,
    Preview,
    TextPreview,
    ToolCallStarted,
    ToolCallUpdated,
    ToolKind,
)
from deputy_agents.domain.event import ResolvedBy as By
from deputy_agents.domain.ids import new_id
from deputy_agents.domain.problem import Problem
from deputy_agents.domain.rule import AccessRequest, Action, DecisionKind
from deputy_agents.files.paths import short_path
from deputy_agents.guidance.mcp_config import read_servers
from deputy_agents.guidance.mcp_entry import EDITOR, SETTINGS, ServerEntry, Source
from deputy_agents.guidance.workspace_settings import Written
from deputy_agents.mcp.approvals import Approvals
from deputy_agents.mcp.catalog import McpCatalog, McpServerState
from deputy_agents.mcp.connection import McpConnection
from deputy_agents.mcp.prompt import McpPrompt
from deputy_agents.mcp.tool import McpResourceTool, McpTool
from deputy_agents.permission.decide import Decision, decide
from deputy_agents.permission.inbox import PermissionOutcome
from deputy_agents.run.agent import Agent, Host, say
from deputy_agents.text import cut, visible
from deputy_agents.tool.base import Tool

logger = logging.getLogger(__name__)

TOOL = "mcp"
"""The name by which rules speak of starting servers: ``mcp(npx -y server *)``."""
PATIENCE = 10.0
"""Seconds that a prompt waits for servers that are starting; their tools come later then."""
SILENCE = 1.0
"""Seconds after which the user is told what a prompt waits for."""
_MAX_TITLE = 200


def sources(
    settings: Mapping[str, object],
    own: Written,
    workspace: Written,
    definitions: Iterable[Definition],
    editor: Sequence[Source] = (),
) -> Sequence[Source]:
    """Who names servers, the first of one name counts. What nobody but the user has written goes before what may come
    with a workspace: rules that they have for a server are about theirs."""
    of_definitions = (
        Source(one.source, inline, own=one.own, definition=one.name)
        for one in definitions
        if (inline := {name: entry for name, entry in (one.servers or {}).items() if entry is not None})
    )
    return (*editor, Source(SETTINGS, settings), *own.servers, *workspace.servers, *of_definitions)


def unknown(definitions: Iterable[Definition], servers: Collection[tuple[str, str]]) -> Sequence[Problem]:
    """What ``definitions`` name and none of ``servers``, known by :attr:`ServerEntry.key`, is."""
    return [
        Problem(one.source, 1, f"It names the MCP server {cut(visible(name), 40)}, and there is none of that name.")
        for one in definitions
        for name, entry in (one.servers or {}).items()
        if entry is None and ("", name) not in servers
    ]


@dataclass(slots=True)
class _Server:
    entry: ServerEntry
    state: McpServerState = McpServerState.NEW
    problem: str = ""
    known: bool = False
    """The user was asked about it, or has said themselves that it must not run, and need not be told."""
    decided: anyio.Event = field(default_factory=anyio.Event)
    connection: McpConnection | None = None
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """A server as lists show it. ``problem`` says why it does not run."""

    entry: ServerEntry
    state: McpServerState
    problem: str
    catalog: McpCatalog


class McpServers:
    """``named`` says who names servers, the first of one name counts; ``.mcp.json`` in ``roots`` comes last. ``folder``
    is where they run; the user's answers are kept for it in ``approvals``. ``changed`` is called when a server has
    come, has gone, or has other tools."""

    def __init__(
        self,
        host: Host,
        tasks: TaskGroup,
        roots: Sequence[Path],
        folder: Path,
        approvals: Approvals,
        named: Callable[[], Sequence[Source]],
        changed: Callable[[], None],
    ) -> None:
        self.problems: tuple[Problem, ...] = ()
        """What is wrong with what is written about them."""
        self.named: frozenset[tuple[str, str]] | None = None
        """Those that are written about, by their keys, switched off or not; ``None`` before anybody has looked."""
        self._host = host
        self._tasks = tasks
        self.roots = tuple(roots)
        self._folder = folder
        self._approvals = approvals
        self._named = named
        self._changed = changed
        self._servers: dict[tuple[str, str], _Server] = {}

    def list(self) -> Sequence[ServerStatus]:
        """By name, those of definitions last."""
        return [_status(self._servers[key]) for key in sorted(self._servers)]

    @property
    def faults(self) -> Sequence[Problem]:
        """Why servers do not run, where the user has not said so themselves, and which of their tools nobody gets."""
        return [
            Problem(server.entry.source.place, 1, reason)
            for _, server in sorted(self._servers.items())
            for reason in _faults(server)
        ]

    def tools(self, definition: str = "") -> Mapping[str, Tool]:
        """Those of the servers that run, or ran and are being started again, by the names that agents use: of those
        that are for all agents, or that are for those of ``definition`` alone."""
        mine = (s for _, s in sorted(self._servers.items()) if s.entry.source.definition == definition)
        running = [s.connection for s in mine if s.connection and s.state is not _FAILED]
        reading = (McpResourceTool(one) for one in running if one.catalog.resources)
        tools = (McpTool(one, name, own) for one in running for name, own in one.catalog.tools.items())
        return {tool.spec.name: tool for tool in (*reading, *tools)}  # one of its own goes before

    def prompts(self) -> Mapping[str, McpPrompt]:
        """Those of the servers that run for all agents, by the names by which people call them."""
        running = [s.connection for _, s in sorted(self._servers.items()) if s.connection and s.state is _READY]
        found = (McpPrompt(one, offered) for one in running for offered in one.catalog.prompts)
        return {prompt.name: prompt for prompt in found}

    async def refresh(self) -> None:
        """Looks which servers there are now; those that are gone, or are another thing now, end."""
        roots = self.roots if self._host.settings.trusted else ()
        read = partial(read_servers, self._named(), roots)
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
            self._servers.setdefault(key, _Server(entry))

    async def start(self, primary: Agent, waits_for: Callable[[str], None]) -> None:
        """Starts those that are for ``primary`` and may be started, and waits for them, in bounded time; if that takes
        long, ``waits_for`` is told for what. About the others the user is asked when :meth:`ask` is called."""
        started = await self._start(self._for("", primary.definition.name), primary)
        with anyio.move_on_after(SILENCE):
            await _settled(started)
            return
        waits_for(_listed([server for server in started if server.state is McpServerState.STARTING]))
        await _settled(started)

    def ask(self, primary: Agent) -> None:
        """Asks about those that nobody has decided about, without waiting for the answer."""
        self._ask_about(self._for("", primary.definition.name), primary)

    async def equip(self, primary: Agent, definition: str | None = None) -> None:
        """Starts those that are for ``primary``, or for agents of ``definition`` alone. Waits until the user has
        answered about each, and then for the servers, in bounded time."""
        mine = self._for("", primary.definition.name) if definition is None else self._for(definition)
        await self._start(mine, primary)
        self._ask_about(mine, primary)
        for server in mine:
            await server.decided.wait()
        await _settled(mine)

    def _for(self, *definitions: str) -> Sequence[_Server]:
        return [server for server in self._servers.values() if server.entry.source.definition in definitions]

    async def _start(self, servers: Sequence[_Server], primary: Agent) -> Sequence[_Server]:
        """Starts those that nobody has decided about and that may be started: these."""
        new = [server for server in servers if server.state is McpServerState.NEW]
        for server in new:
            await self._consider(server, primary)
        return new

    def _ask_about(self, servers: Sequence[_Server], primary: Agent) -> None:
        for server in servers:
            if server.state is McpServerState.NEW:
                server.state = McpServerState.ASKED
                self._tasks.start_soon(self._ask, server, primary)

    # -- whether it may --------------------------------------------------------------------------------------------

    def _decision(self, server: _Server, primary: Agent) -> Decision:
        request = AccessRequest(TOOL, Action.CONNECT, server.entry.line)
        return decide(self._host.policy(primary), request)

    async def _consider(self, server: _Server, primary: Agent) -> None:
        decision = self._decision(server, primary)
        allowed: bool | None = decision.kind is DecisionKind.ALLOW
        if decision.kind is DecisionKind.ASK:
            stored = partial(self._approvals.get, self._folder, server.entry)
            allowed = await to_thread.run_sync(stored, abandon_on_cancel=True)
            if allowed is None and server.entry.source.own and decision.rule is None:
                allowed = True
        if server.state is not McpServerState.NEW:
            return  # another has looked meanwhile
        if allowed:
            self._run(server)
        elif allowed is not None:
            denied = decision.kind is DecisionKind.DENY
            self._refuse(server, decision.reason if denied else "you have said that it must not run", known=not denied)

    async def _ask(self, server: _Server, primary: Agent) -> None:
        decision = self._decision(server, primary)
        permission_request = _question(server.entry, primary, self._folder, decision.reason if decision.rule else "")
        call_id = permission_request.tool_call_id
        say(
            self._host,
            primary,
            ToolCallStarted(
                call_id,
                TOOL,
                permission_request.title,
                permission_request.kind,
                CallStatus.PENDING,
                permission_request.input,
                (),
            ),
        )
        with server.scope:
            resolution = await self._host.inbox.ask(
                permission_request, primary.run, lambda: self._by_rule(server, primary)
            )
            await self._answered(server, permission_request, resolution)
        if server.connection is not None:
            say(self._host, primary, ToolCallUpdated(call_id, CallStatus.IN_PROGRESS))
            await server.connection.start_finished.wait()
        status = _status(server)
        done = CallStatus.COMPLETED if status.state is McpServerState.READY else CallStatus.FAILED
        say(self._host, primary, ToolCallUpdated(call_id, done, _outcome(status)))

    def _by_rule(self, server: _Server, primary: Agent) -> PermissionOutcome | None:
        now = self._decision(server, primary)
        if now.kind is DecisionKind.ASK:
            return None
        return PermissionOutcome(By.RULE, allowed=now.kind is DecisionKind.ALLOW, decision=now.reason)

    async def _answered(
        self, server: _Server, permission_request: PermissionRequest, resolution: PermissionOutcome
    ) -> None:
        option = resolution.option
        if resolution.input is not None and resolution.input != permission_request.input:
            why = "what is started cannot be changed by the answer; change it where it is named"
            self._refuse(server, why, known=False)
            return
        if option is not None and option.kind in (OptionKind.ALLOW_ALWAYS, OptionKind.REJECT_ALWAYS):
            await self._keep(server.entry, option.kind.allows)
        if resolution.allowed or (option is not None and option.kind.allows):
            self._run(server)
        else:
            self._refuse(server, resolution.decision or _NOT_STARTED[resolution.by], known=True)

    def _refuse(self, server: _Server, why: str, *, known: bool) -> None:
        server.state, server.problem, server.known = McpServerState.REFUSED, why, known
        server.decided.set()

    async def _keep(self, entry: ServerEntry, allowed: bool) -> None:
        try:
            await to_thread.run_sync(self._approvals.save, self._folder, entry, allowed)
        except OSError as error:
            logger.warning("the answer about MCP server %s is not kept: %s", entry.name, error)

    # -- running ---------------------------------------------------------------------------------------------------

    def _run(self, server: _Server) -> None:
        server.state = McpServerState.STARTING
        server.decided.set()
        server.connection = McpConnection(server.entry, str(self._folder), partial(self._moved, server))
        self._tasks.start_soon(self._keep_running, server, server.connection.run)

    async def _keep_running(self, server: _Server, run: Callable[[], Awaitable[None]]) -> None:
        with server.scope:
            await run()

    def _moved(self, server: _Server) -> None:
        if server.connection is not None:
            server.state, server.problem = server.connection.state, server.connection.problem
        self._changed()


_FAILED, _READY = McpServerState.FAILED, McpServerState.READY
_OPTIONS = {
    OptionKind.ALLOW_ALWAYS: "Start it, now and later in this folder",
    OptionKind.ALLOW_ONCE: "Start it this time",
    OptionKind.REJECT_ONCE: "Not this time",
    OptionKind.REJECT_ALWAYS: "Never start it in this folder",
}
_NOT_STARTED = {
    By.USER: "you have said that it must not run now",
    By.DISMISSED: "the question was dismissed without an answer, which is no consent",
    By.UNREACHABLE: "it has to be approved, and no connected client can ask",
    By.CANCELLED: "the question was withdrawn",
}


async def _settled(servers: Sequence[_Server]) -> None:
    with anyio.move_on_after(PATIENCE):
        for server in servers:
            if server.connection is not None:
                await server.connection.start_finished.wait()


def _listed(servers: Sequence[_Server]) -> str:
    names = ", ".join(server.entry.name for server in servers)
    return f"the MCP server{'' if len(servers) == 1 else 's'} {names}" if servers else ""


def _status(server: _Server) -> ServerStatus:
    catalog = server.connection.catalog if server.connection else McpCatalog()
    return ServerStatus(server.entry, server.state, server.problem, catalog)


def _faults(server: _Server) -> Iterator[str]:
    if server.state in (_FAILED, McpServerState.REFUSED) and not server.known:
        yield _outcome(_status(server))
    elif server.connection is not None:
        yield from (f"MCP server {server.entry.name}: {reason}." for reason in server.connection.catalog.left_out)


_PLACES = {SETTINGS: "your settings", EDITOR: "your editor"}


def _outcome(status: ServerStatus) -> str:
    if status.state is McpServerState.READY:
        count = len(status.catalog.tools)
        return f"The MCP server {status.entry.name} runs; it has {count} tool{'' if count == 1 else 's'}."
    return f"The MCP server {status.entry.name} does not run: {status.problem.rstrip('.')}."


def _question(entry: ServerEntry, primary: Agent, folder: Path, reason: str) -> PermissionRequest:
    return PermissionRequest(
        request_id=new_id(),
        agent=primary.ref,
        batch=Batch(new_id(), 0, 1),
        tool_call_id=f"mcp-{new_id()}",
        title=primary.title(f"{TOOL}({cut(visible(entry.name), _MAX_TITLE)})"),
        tool=TOOL,
        kind=ToolKind.FETCH if entry.url else ToolKind.EXECUTE,
        input={"server": entry.name, "starts": entry.line, "named_in": entry.source.place},
        locations=(),
        options=tuple(Option(kind.value, name, kind) for kind, name in _OPTIONS.items()),
        preview=_preview(entry, folder),
        reason=_why(entry, folder, reason),
    )


def _preview(entry: ServerEntry, folder: Path) -> Preview:
    """All that is started or sent, as written: nobody can say yes to what is not shown."""
    values = entry.headers if entry.url else entry.env
    given = "".join(f"\n{name}={value}" for name, value in values.items())
    text = "\n".join(map(visible, f"{entry.line}{given}".split("\n")))
    return TextPreview(text) if entry.url else CommandPreview(text, str(folder))


def _why(entry: ServerEntry, folder: Path, reason: str) -> str:
    where = _PLACES.get(entry.source.place) or visible(short_path(entry.source.place, folder))
    whom = f"agents of the kind {entry.source.definition}" if entry.source.definition else "agents"
    sees = f" It gets to see {', '.join(entry.variables)} of your environment." if entry.variables else ""
    return " ".join(filter(None, (f"The MCP server {entry.name}, named in {where}, gives {whom} tools.{sees}", reason)))
