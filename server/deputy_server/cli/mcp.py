"""``deputy mcp``: which MCP servers there are in a folder, and which of them may run."""

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

if TYPE_CHECKING:
    from deputy_agents.guidance.mcp_entry import ServerEntry
    from deputy_agents.mcp.approvals import Approvals

mcp = typer.Typer(name="mcp", help="List, try, approve and revoke MCP servers.", no_args_is_help=True)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Name = Annotated[str, typer.Argument(help="Name of the server.")]
SettingsFile = Annotated[
    Path | None, typer.Option("--settings", help="A JSON file with the settings that your editor sends.")
]

Row: TypeAlias = dict[str, object]
_WORDS = {
    "source": "named in",
    "variables": "gets to see",
    "agents": "for agents",
    **{kind: kind for kind in ("problem", "tools", "resources", "prompts")},
}
_ANSWERS = {True: "approved", False: "refused", None: "will ask"}


@mcp.command("list")
def list_servers(
    start: Annotated[
        bool, typer.Option("--start", help="Start those that may run for a moment, and list what they have.")
    ] = False,
    settings: SettingsFile = None,
    as_json: AsJson = False,
) -> None:
    """List the MCP servers of this folder, and whether they may run.

    They are those of `.mcp.json` and `.deputy/settings.json` here, of `~/.deputy/settings.json`, of the setting
    `mcpServers`, and of definitions of agents. `--start` starts those that you have let run, and shows each as soon
    as it is known what it has; the exit code is 1 when one of them does not work.

    Examples: `deputy mcp list` · `deputy mcp list --start --json`
    """
    servers, approvals = _servers(settings), _approvals()
    rows = [_row(entry, approvals.get(_folder(), entry), start=start) for entry in servers]
    if start:
        _try(servers, rows, None if as_json else _show)
    elif not as_json:
        for row in rows:
            _show(row)
    if as_json:
        typer.echo(json.dumps(rows, ensure_ascii=False, indent=2))
    elif not rows:
        typer.echo("No MCP servers: neither a file here nor one of yours names one.", err=True)
    if any(row.get("state") == "failed" for row in rows):
        raise typer.Exit(1)


def _row(entry: "ServerEntry", answer: bool | None, *, start: bool) -> Row:
    """What is known of a server before it is started. One that the user has not let run is not, to be looked at."""
    own = answer is None and entry.source.own
    approval = "switched off" if entry.disabled else "your own" if own else _ANSWERS[answer]
    row: Row = {"name": entry.name, "starts": entry.line, "source": entry.source.place}
    if entry.variables:
        row["variables"] = list(entry.variables)
    if entry.source.definition:
        row["agents"] = entry.source.definition
    row["approval"] = approval
    if start and not (own or answer) and not entry.disabled:
        row |= {"state": "not started", "problem": f"you have not let it run here; see deputy mcp approve {entry.name}"}
    elif start and entry.disabled:
        row["state"] = "not started"
    return row


def _try(servers: "Sequence[ServerEntry]", rows: list[Row], show: Callable[[Row], None] | None) -> None:
    """Starts those that may run. Each is shown as soon as it is known what it has."""
    from deputy_server.mcp_probe import look_at

    def tell(entry: "ServerEntry", found: Row) -> None:
        row = next(row for row, one in zip(rows, servers, strict=True) if one is entry)
        row |= found
        if show:
            show(row)

    if show:
        for row in rows:
            if "state" in row:
                show(row)
    look_at([one for one, row in zip(servers, rows, strict=True) if "state" not in row], _folder(), tell)


@mcp.command()
def approve(name: Name, settings: SettingsFile = None, as_json: AsJson = False) -> None:
    """Let a server run in this folder, as it is written now, without being asked.

    Examples: `deputy mcp approve git` · `deputy mcp approve git --json`
    """
    found = _answered(name, settings, True, as_json=as_json)
    if not as_json:
        for entry in found:
            typer.echo(f"{name} may run here: {entry.line}")


@mcp.command()
def revoke(name: Name, settings: SettingsFile = None, as_json: AsJson = False) -> None:
    """Forget what was said about a server: it is asked about again.

    Examples: `deputy mcp revoke git` · `deputy mcp revoke git --json`
    """
    _answered(name, settings, None, as_json=as_json)
    if not as_json:
        typer.echo(f"{name} will be asked about.")


def _answered(name: str, settings: Path | None, allowed: bool | None, *, as_json: bool) -> "list[ServerEntry]":
    """The servers of that name, with the answer about each kept, and told where JSON is wanted."""
    found = _named(name, settings)
    for entry in found:
        _keep(entry, allowed)
    if as_json:
        typer.echo(json.dumps([{"name": name, "approval": _ANSWERS[allowed], "starts": one.line} for one in found]))
    return found


def _show(row: Row) -> None:
    typer.echo("\n".join(_told(row)))


def _told(row: Row) -> list[str]:
    from deputy_agents.text import visible

    state = f", {row['state']}" if "state" in row else ""
    lines = [f"{row['name']}  ({row['approval']}{state})", f"    {visible(str(row['starts']))}"]
    for kind, word in _WORDS.items():
        found = row.get(kind)
        if found:
            lines.append(f"    {word}: {', '.join(map(str, found)) if isinstance(found, list) else found}")  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    return lines


def _servers(settings: Path | None) -> "list[ServerEntry]":
    from deputy_agents.definition.catalogue import Catalogue
    from deputy_agents.domain.errors import InvalidRequest
    from deputy_agents.files.paths import home_folder
    from deputy_agents.guidance.mcp_config import read_servers
    from deputy_agents.guidance.workspace_settings import Written, written_in
    from deputy_agents.session.mcp_servers import sources
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
        _approvals().save(_folder(), entry, allowed)
    except OSError as error:
        typer.echo(f"The answer cannot be kept: {error}", err=True)
        raise typer.Exit(1) from None


def _folder() -> Path:
    return Path.cwd().resolve()


def _approvals() -> "Approvals":
    from deputy_agents.mcp.approvals import Approvals
    from deputy_server.storage import APPROVALS, state_folder

    return Approvals(state_folder(os.environ) / APPROVALS)
