"""One MCP server of a session: its state, and the permission request for starting it."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import anyio

from deputy_agents.domain.event import Batch, Option, OptionKind, PermissionRequest, ToolKind
from deputy_agents.domain.ids import new_id
from deputy_agents.domain.preview import CommandPreview, Preview, TextPreview
from deputy_agents.domain.rule import AccessRequest, Action, RuleScope
from deputy_agents.files.paths import short_path
from deputy_agents.guidance.mcp_entry import EDITOR, SETTINGS, McpServerEntry
from deputy_agents.mcp.catalog import McpCatalog, McpServerState
from deputy_agents.mcp.connection import McpConnection
from deputy_agents.run.agent import Agent
from deputy_agents.text import cut, visible

TOOL = "mcp"
"""The tool name in rules about starting servers: ``mcp(npx -y server *)``."""

STOPPED = (McpServerState.FAILED, McpServerState.NEEDS_SIGN_IN)
"""States of a server that was started and does not run."""
_MAX_TITLE = 200
_OPTIONS = {
    OptionKind.ALLOW_ALWAYS: "Always start it in this folder",
    OptionKind.ALLOW_ONCE: "Start it this time",
    OptionKind.REJECT_ONCE: "Not this time",
    OptionKind.REJECT_ALWAYS: "Never start it in this folder",
}
_SCOPES = {
    OptionKind.ALLOW_ALWAYS: RuleScope.PROJECT,
    OptionKind.ALLOW_ONCE: RuleScope.ONCE,
    OptionKind.REJECT_ONCE: RuleScope.ONCE,
    OptionKind.REJECT_ALWAYS: RuleScope.PROJECT,
}
_PLACES = {SETTINGS: "your settings", EDITOR: "your editor"}


@dataclass(frozen=True, slots=True)
class McpServerStatus:
    """A server as lists show it. ``problem`` is why it does not run."""

    entry: McpServerEntry
    state: McpServerState
    problem: str
    catalog: McpCatalog

    def summary(self) -> str:
        if self.state is McpServerState.READY:
            count = len(self.catalog.tools)
            return f"MCP server {self.entry.name} is running with {count} tool{'' if count == 1 else 's'}."
        return f"MCP server {self.entry.name} is not running: {self.problem.rstrip('.')}."


@dataclass(slots=True)
class McpServer:
    """``entry`` is its configuration. ``decided`` is set when it may run or must not."""

    entry: McpServerEntry
    state: McpServerState = McpServerState.NEW
    problem: str = ""
    rejected_by_user: bool = False
    """The user knows why it does not run: it is not reported as a problem."""
    decided: anyio.Event = field(default_factory=anyio.Event)
    connection: McpConnection | None = None
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)

    @property
    def status(self) -> McpServerStatus:
        catalog = self.connection.catalog if self.connection else McpCatalog()
        return McpServerStatus(self.entry, self.state, self.problem, catalog)

    def reject(self, why: str, *, by_user: bool) -> None:
        """It must not run."""
        self.state, self.problem, self.rejected_by_user = McpServerState.DENIED, why, by_user
        self.decided.set()

    def problems(self) -> Iterator[str]:
        """Why it does not run, unless the user rejected it, and which tools it has that agents do not get."""
        if self.state in (*STOPPED, McpServerState.DENIED) and not self.rejected_by_user:
            yield self.status.summary()
        elif self.connection is not None:
            yield from (f"MCP server {self.entry.name}: {reason}." for reason in self.connection.catalog.ignored)


def access_request(entry: McpServerEntry, folder: Path) -> AccessRequest:
    """What rules decide about: the environment variables or headers, which a rule must spell out, and the command line
    or URL. Files of ``folder`` are named by their paths, because a rule may apply to many folders. Blocks."""
    spelled = "".join(f"{one} " for one in entry.assignments)
    line = entry.line
    if not entry.url:
        command = _in_folder(entry.command, folder) if "/" in entry.command else entry.command
        line = entry.line_of(command, [_in_folder(one, folder) for one in entry.args])
    subject = f"{spelled}{line}"
    at = line.find("${") if entry.variables else -1
    return AccessRequest(
        TOOL,
        Action.CONNECT,
        subject,
        known=None if at < 0 else subject[: len(spelled) + at],
        computed=at >= 0,
        also=((entry.line, None), (line, None)),
        spelled=spelled,
    )


def _in_folder(word: str, folder: Path) -> str:
    """The path of a file of ``folder`` that ``word`` names, or else ``word``."""
    if not word or word.startswith(("-", "${")) or Path(word).is_absolute():
        return word
    path = os.path.normpath(folder / word)
    try:
        return path if os.path.lexists(path) else word
    except ValueError:  # it contains a zero byte
        return word


def permission_request(entry: McpServerEntry, primary: Agent, folder: Path, reason: str) -> PermissionRequest:
    """Asks the user to let a server start in ``folder``. ``reason`` is that of the rule that asks, if one does."""
    return PermissionRequest(
        request_id=new_id(),
        agent=primary.ref,
        batch=Batch(new_id(), 0, 1),
        tool_call_id=f"mcp-{new_id()}",
        title=primary.title(f"{TOOL}({cut(visible(entry.name), _MAX_TITLE)})"),
        tool=TOOL,
        kind=ToolKind.FETCH if entry.url else ToolKind.EXECUTE,
        input={"server": entry.name, "starts": entry.full_line, "named_in": entry.source.place},
        locations=(),
        options=tuple(Option(kind.value, name, kind, scope=_SCOPES[kind]) for kind, name in _OPTIONS.items()),
        preview=_preview(entry, folder),
        reason=_reason(entry, folder, reason),
    )


def _preview(entry: McpServerEntry, folder: Path) -> Preview:
    """All that is started or sent, as written: nobody can approve what is not shown."""
    text = "\n".join(map(visible, (entry.shown_line, *entry.assignments)))
    return TextPreview(text) if entry.url else CommandPreview(text, str(folder))


def _reason(entry: McpServerEntry, folder: Path, reason: str) -> str:
    where = _PLACES.get(entry.source.place) or visible(short_path(entry.source.place, folder))
    users = f"agents of the definition {entry.source.definition}" if entry.source.definition else "agents"
    reads = f" It can read {', '.join(entry.variables)} from your environment." if entry.variables else ""
    about = f"MCP server {entry.name}, configured in {where}, provides tools to {users}.{reads}"
    return f"{about} {reason}".strip()
