"""One MCP server of a session: its state, and the permission request for starting it."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import anyio

from deputy_agents.domain.event import (
    Batch,
    CommandPreview,
    Option,
    OptionKind,
    PermissionRequest,
    Preview,
    TextPreview,
    ToolKind,
)
from deputy_agents.domain.ids import new_id
from deputy_agents.files.paths import short_path
from deputy_agents.guidance.mcp_entry import EDITOR, SETTINGS, McpServerEntry
from deputy_agents.mcp.catalog import McpCatalog, McpServerState
from deputy_agents.mcp.connection import McpConnection
from deputy_agents.run.agent import Agent
from deputy_agents.text import cut, visible

TOOL = "mcp"
"""The tool name in rules about starting servers: ``mcp(npx -y server *)``."""

_MAX_TITLE = 200
_OPTIONS = {
    OptionKind.ALLOW_ALWAYS: "Always start it in this folder",
    OptionKind.ALLOW_ONCE: "Start it this time",
    OptionKind.REJECT_ONCE: "Not this time",
    OptionKind.REJECT_ALWAYS: "Never start it in this folder",
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
        if self.state in (McpServerState.FAILED, McpServerState.DENIED) and not self.rejected_by_user:
            yield self.status.summary()
        elif self.connection is not None:
            yield from (f"MCP server {self.entry.name}: {reason}." for reason in self.connection.catalog.ignored)


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
        input={"server": entry.name, "starts": entry.line, "named_in": entry.source.place},
        locations=(),
        options=tuple(Option(kind.value, name, kind) for kind, name in _OPTIONS.items()),
        preview=_preview(entry, folder),
        reason=_reason(entry, folder, reason),
    )


def _preview(entry: McpServerEntry, folder: Path) -> Preview:
    """All that is started or sent, as written: nobody can approve what is not shown."""
    values = entry.headers if entry.url else entry.env
    given = "".join(f"\n{name}={value}" for name, value in values.items())
    text = "\n".join(map(visible, f"{entry.line}{given}".split("\n")))
    return TextPreview(text) if entry.url else CommandPreview(text, str(folder))


def _reason(entry: McpServerEntry, folder: Path, reason: str) -> str:
    where = _PLACES.get(entry.source.place) or visible(short_path(entry.source.place, folder))
    users = f"agents of the definition {entry.source.definition}" if entry.source.definition else "agents"
    reads = f" It can read {', '.join(entry.variables)} from your environment." if entry.variables else ""
    about = f"MCP server {entry.name}, configured in {where}, provides tools to {users}.{reads}"
    return f"{about} {reason}".strip()
