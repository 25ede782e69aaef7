"""``deputy mcp``: the MCP servers of a folder, and which of them are approved."""

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

if TYPE_CHECKING:
    from deputy_agents.guidance.mcp_entry import McpServerEntry
    from deputy_agents.mcp.approvals import Approvals
    from deputy_agents.mcp.sign_ins import SignIns

mcp = typer.Typer(name="mcp", help="List, test and approve MCP servers, and sign in there.", no_args_is_help=True)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Name = Annotated[str, typer.Argument(help="Name of the MCP server.")]
SettingsFile = Annotated[Path | None, typer.Option("--settings", help="JSON file with the settings of your editor.")]

Row: TypeAlias = dict[str, object]
_LABELS = {
    "source": "defined in",
    "variables": "reads variables",
    "agents": "for agents",
    **{kind: kind for kind in ("environment", "headers", "problem", "tools", "resources", "prompts")},
}
_ANSWERS = {True: "approved", False: "refused", None: "will ask"}
_APPROVAL_LABELS = {"refused": "denied", "will ask": "needs approval", "switched off": "disabled"}
"""The text for values of ``approval``, where it differs from the JSON."""


@mcp.command("list")
def list_servers(
    start: Annotated[
        bool, typer.Option("--start", help="Start each approved MCP server briefly and list its tools.")
    ] = False,
    settings: SettingsFile = None,
    as_json: AsJson = False,
) -> None:
    """List the MCP servers of this folder.

    Shows which of them are approved. Reads `.mcp.json` and `.deputy/settings.json` in this folder,
    `~/.deputy/settings.json`, the setting `mcpServers`, and agent definitions. With --start, shows the tools, resources
    and prompts of each approved MCP server, and exits with 1 if one of them does not work.

    Examples: `deputy mcp list` · `deputy mcp list --start --json`
    """
    servers, approvals = _entries(settings), _approvals()
    rows = [_row(entry, approvals.get(_folder(), entry), start=start) for entry in servers]
    if start:
        _probe(servers, rows, None if as_json else _show)
    elif not as_json:
        for row in rows:
            _show(row)
    if as_json:
        typer.echo(json.dumps(rows, ensure_ascii=False, indent=2))
    elif not rows:
        typer.echo("No MCP servers configured.", err=True)
    if any(row.get("state") in ("failed", "needs_sign_in") for row in rows):
        raise typer.Exit(1)


def _row(entry: "McpServerEntry", answer: bool | None, *, start: bool) -> Row:
    """What is known of an MCP server before it starts. ``start`` also sets the state of those that must not start."""
    own = answer is None and entry.source.trusted
    approval = "switched off" if entry.disabled else "your own" if own else _ANSWERS[answer]
    row: Row = {"name": entry.name, "starts": entry.line, "source": entry.source.place}
    if entry.assignments:
        row["headers" if entry.url else "environment"] = list(entry.assignments)
    if entry.variables:
        row["variables"] = list(entry.variables)
    if entry.source.definition:
        row["agents"] = entry.source.definition
    row["approval"] = approval
    if start and not (own or answer) and not entry.disabled:
        row |= {"state": "not started", "problem": f"not approved; run: deputy mcp approve {entry.name}"}
    elif start and entry.disabled:
        row["state"] = "not started"
    return row


def _probe(servers: "Sequence[McpServerEntry]", rows: list[Row], show: Callable[[Row], None] | None) -> None:
    """Start the approved MCP servers. Show each as soon as its result is known."""
    from deputy_server.mcp_probe import probe

    def report(entry: "McpServerEntry", result: Row) -> None:
        row = next(row for row, one in zip(rows, servers, strict=True) if one is entry)
        row |= result
        if show:
            show(row)

    if show:
        for row in rows:
            if "state" in row:
                show(row)
    probe([one for one, row in zip(servers, rows, strict=True) if "state" not in row], _folder(), _sign_ins(), report)


@mcp.command()
def approve(name: Name, settings: SettingsFile = None, as_json: AsJson = False) -> None:
    """Approve an MCP server for this folder. The approval ends when its command line changes.

    Examples: `deputy mcp approve git` · `deputy mcp approve git --json`
    """
    entries = _set_approval(name, settings, True, as_json=as_json)
    if not as_json:
        from deputy_agents.text import visible

        for entry in entries:
            typer.echo(f"Approved {name} for this folder: {visible(entry.full_line)}")


@mcp.command()
def revoke(name: Name, settings: SettingsFile = None, as_json: AsJson = False) -> None:
    """Withdraw an approval, or a denial. The MCP server needs approval again.

    Examples: `deputy mcp revoke git` · `deputy mcp revoke git --json`
    """
    _set_approval(name, settings, None, as_json=as_json)
    if not as_json:
        typer.echo(f"{name} needs approval again.")


@mcp.command()
def login(
    name: Name,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Only print the address of the page where you sign in.")
    ] = False,
    settings: SettingsFile = None,
) -> None:
    """Sign in at an MCP server that needs it. Opens a page of the server in your browser.

    What the server issues is stored in the keyring of your system, or else in a file that only you can read. Sessions
    that wait for it go on within a second.

    Examples: `deputy mcp login tracker` · `deputy mcp login tracker --no-browser`
    """
    import webbrowser

    from deputy_server.mcp_sign_in import log_in

    def show(page: str) -> None:
        opened = not no_browser and webbrowser.open(page)
        typer.echo(f"{'Sign in in your browser' if opened else 'Open this page to sign in'}: {page}", err=True)

    url, store = _address(name, settings), _sign_ins()
    signed_in = _succeeded(lambda: log_in(url, store, show), f"You are not signed in at {name}")
    typer.echo(f"You are signed in at {name}." if signed_in else f"{name} needs no sign-in.")


@mcp.command()
def logout(name: Name, settings: SettingsFile = None) -> None:
    """Sign out from an MCP server: delete what it has issued, and revoke it there if the server can.

    Examples: `deputy mcp logout tracker` · `deputy mcp logout tracker --settings editor.json`
    """
    from deputy_server.mcp_sign_in import log_out

    url, store = _address(name, settings), _sign_ins()
    was_signed_in = _succeeded(lambda: log_out(url, store), "You are not signed out")
    typer.echo(f"You are signed out from {name}." if was_signed_in else f"You were not signed in at {name}.")


def _succeeded(run: Callable[[], bool], failure: str) -> bool:
    from deputy_agents.domain.errors import DeputyError

    try:
        return run()
    except (DeputyError, OSError) as error:
        typer.echo(f"{failure}: {error}.", err=True)
        raise typer.Exit(1) from None


def _address(name: str, settings: Path | None) -> str:
    """The address of the MCP server with this name."""
    entry = _entries_named(name, settings)[0]
    if not entry.url:
        raise typer.BadParameter(f"the MCP server {name!r} is a program on this machine, which needs no sign-in")
    from deputy_agents.domain.errors import ToolError
    from deputy_agents.web.address import parse_url

    try:
        return parse_url(entry.expand(entry.url, os.environ)).url
    except (ToolError, ValueError) as error:
        raise typer.BadParameter(f"the MCP server {name!r}: {error}") from None


def _sign_ins() -> "SignIns":
    from deputy_agents.domain.errors import StoreError
    from deputy_server.storage import open_sign_ins

    try:
        return open_sign_ins(os.environ)
    except StoreError as error:
        typer.echo(f"Error: {error}", err=True)
        raise typer.Exit(1) from None


def _set_approval(name: str, settings: Path | None, allowed: bool | None, *, as_json: bool) -> "list[McpServerEntry]":
    """Store the answer for all MCP servers with this name and return them. Print them if JSON is requested."""
    entries = _entries_named(name, settings)
    for entry in entries:
        _store(entry, allowed)
    if as_json:
        typer.echo(json.dumps([{"name": name, "approval": _ANSWERS[allowed], "starts": one.line} for one in entries]))
    return entries


def _show(row: Row) -> None:
    typer.echo("\n".join(_lines(row)))


def _lines(row: Row) -> list[str]:
    from deputy_agents.text import visible

    approval = str(row["approval"])
    state = f", {str(row['state']).replace('_', ' ')}" if "state" in row else ""
    lines = [
        f"{row['name']}  ({_APPROVAL_LABELS.get(approval, approval)}{state})",
        f"    {visible(str(row['starts']))}",
    ]
    for kind, label in _LABELS.items():
        value = row.get(kind)
        if value:
            text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
            lines.append(f"    {label}: {visible(text)}")
    return lines


def _entries(settings: Path | None) -> "list[McpServerEntry]":
    """All MCP servers of this folder. Prints problems to standard error."""
    from deputy_agents.definition.catalogue import Catalogue
    from deputy_agents.domain.errors import InvalidRequest
    from deputy_agents.files.paths import home_folder
    from deputy_agents.guidance.mcp_config import read_mcp_servers
    from deputy_agents.guidance.workspace_settings import WorkspaceSettings, read_workspace_settings
    from deputy_agents.session.mcp_servers import sources
    from deputy_server.doctor import read_settings

    try:
        given = read_settings(settings).mcp_servers
    except InvalidRequest as error:
        raise typer.BadParameter(str(error), param_hint="--settings") from None
    folder, home = _folder(), home_folder()
    own = WorkspaceSettings() if home is None else read_workspace_settings(home, from_home=True)
    workspace = read_workspace_settings(folder)
    catalogue = Catalogue([folder], trusted=True)
    catalogue.load()
    servers, problems = read_mcp_servers(sources(given, own, workspace, catalogue.definitions.values()), [folder])
    for problem in dict.fromkeys((*own.problems, *workspace.problems, *problems)):
        typer.echo(str(problem), err=True)
    return list(servers.values())


def _entries_named(name: str, settings: Path | None) -> "list[McpServerEntry]":
    """The MCP servers with this name. Several agent definitions may have one each."""
    entries = _entries(settings)
    if not (found := [entry for entry in entries if entry.name == name]):
        known = ", ".join(dict.fromkeys(entry.name for entry in entries))
        raise typer.BadParameter(f"there is no MCP server {name!r}. Configured: {known or 'none'}")
    return found


def _store(entry: "McpServerEntry", allowed: bool | None) -> None:
    try:
        _approvals().save(_folder(), entry, allowed)
    except OSError as error:
        typer.echo(f"Cannot store the approval: {error}", err=True)
        raise typer.Exit(1) from None


def _folder() -> Path:
    return Path.cwd().resolve()


def _approvals() -> "Approvals":
    from deputy_agents.domain.errors import StoreError
    from deputy_server.storage import open_approvals

    try:
        return open_approvals(os.environ)
    except StoreError as error:
        typer.echo(f"Error: {error}", err=True)
        raise typer.Exit(1) from None
