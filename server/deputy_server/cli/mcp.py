"""``deputy mcp``: which MCP servers there are in a folder, and which of them may run."""

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from deputy_agents.mcp import ServerEntry
    from deputy_agents.mcp.approvals import Approvals

mcp = typer.Typer(name="mcp", help="List, try, approve and revoke MCP servers.", no_args_is_help=True)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Name = Annotated[str, typer.Argument(help="Name of the server.")]
SettingsFile = Annotated[
    Path | None, typer.Option("--settings", help="A JSON file with the settings that your editor sends.")
]

_ANSWERS = {True: "approved", False: "refused", None: "will ask"}


@mcp.command("list")
def list_servers(
    start: Annotated[bool, typer.Option("--start", help="Start each for a moment, and list what it has.")] = False,
    settings: SettingsFile = None,
    as_json: AsJson = False,
) -> None:
    """List the MCP servers of this folder, and whether they may run.

    They are those of `.mcp.json` and `.deputy/settings.json` here, of `~/.deputy/settings.json`, of the setting
    `mcpServers`, and of definitions of agents. With `--start` the exit code is 1 when one does not work.

    Examples: `deputy mcp list` · `deputy mcp list --start --json`
    """
    from deputy_server.servers import looked_at

    servers = _servers(settings)
    folder, approvals = _folder(), _approvals()
    rows: list[dict[str, object]] = looked_at(servers, folder) if start else [{} for _ in servers]
    for row, entry in zip(rows, servers, strict=True):
        answer = approvals.of(folder, entry)
        approval = "your own" if answer is None and entry.source.own else _ANSWERS[answer]
        kept = {"name": entry.name, "starts": entry.line, "source": entry.source.place}
        of_agents = {"agents": entry.source.definition} if entry.source.definition else {}
        row.update(kept | of_agents | {"approval": approval})
    if as_json:
        typer.echo(json.dumps(rows, ensure_ascii=False, indent=2))
    else:
        for row in rows:
            typer.echo("\n".join(_told(row)))
        if not rows:
            typer.echo("No MCP servers: neither a file here nor one of yours names one.", err=True)
    if any(row.get("state", "ready") != "ready" for row in rows):
        raise typer.Exit(1)


@mcp.command()
def approve(name: Name, settings: SettingsFile = None) -> None:
    """Let a server run in this folder, as it is written now, without being asked.

    Example: `deputy mcp approve git`
    """
    for entry in _named(name, settings):
        _keep(entry, True)
        typer.echo(f"{name} may run here: {entry.line}")


@mcp.command()
def revoke(name: Name, settings: SettingsFile = None) -> None:
    """Forget what was said about a server: it is asked about again.

    Example: `deputy mcp revoke git`
    """
    for entry in _named(name, settings):
        _keep(entry, None)
    typer.echo(f"{name} will be asked about.")


def _told(row: dict[str, object]) -> list[str]:
    from deputy_agents.text import visible

    state = f", {row['state']}" if "state" in row else ""
    lines = [f"{row['name']}  ({row['approval']}{state})", f"    {visible(str(row['starts']))}"]
    for kind in ("agents", "problem", "tools", "resources", "prompts"):
        found = row.get(kind)
        if found:
            lines.append(f"    {kind}: {', '.join(map(str, found)) if isinstance(found, list) else found}")  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    return lines


def _servers(settings: Path | None) -> "list[ServerEntry]":
    from deputy_agents.definition import home_folder
    from deputy_agents.definition.catalogue import Catalogue
    from deputy_agents.errors import InvalidRequest
    from deputy_agents.guidance.written import Written, written_in
    from deputy_agents.mcp.config import read_servers
    from deputy_agents.servers import sources
    from deputy_server.doctor import read_settings

    try:
        given = read_settings(settings).mcp_servers
    except InvalidRequest as error:
        raise typer.BadParameter(str(error), param_hint="--settings") from None
    folder, home = _folder(), home_folder()
    own = Written() if home is None else written_in(home, own=True)
    workspace = written_in(folder)
    catalogue = Catalogue([folder], trusted=True)
    catalogue.load()
    servers, problems = read_servers(sources(given, own, workspace, catalogue.definitions.values()), [folder])
    for problem in dict.fromkeys((*own.problems, *workspace.problems, *problems)):
        typer.echo(str(problem), err=True)
    return list(servers.values())


def _named(name: str, settings: Path | None) -> "list[ServerEntry]":
    """Those of one name: of the session, or of several definitions."""
    servers = _servers(settings)
    if not (found := [entry for entry in servers if entry.name == name]):
        known = ", ".join(dict.fromkeys(entry.name for entry in servers))
        raise typer.BadParameter(f"there is no server {name!r} here; there are: {known or 'none'}")
    return found


def _keep(entry: "ServerEntry", allowed: bool | None) -> None:
    try:
        _approvals().keep(_folder(), entry, allowed)
    except OSError as error:
        typer.echo(f"The answer cannot be kept: {error}", err=True)
        raise typer.Exit(1) from None


def _folder() -> Path:
    return Path.cwd().resolve()


def _approvals() -> "Approvals":
    from deputy_agents.mcp.approvals import Approvals
    from deputy_server.state import APPROVALS, state_folder

    return Approvals(state_folder(os.environ) / APPROVALS)
