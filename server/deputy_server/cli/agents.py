"""``deputy agents``: the kinds of agents that there are here, without an editor."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

if TYPE_CHECKING:
    from deputy_agents.definition.catalogue import Catalogue
    from deputy_agents.definition.definition import Definition
    from deputy_agents.domain.problem import Problem

agents = typer.Typer(
    name="agents", help="List, show and check the agent definitions that count in this folder.", no_args_is_help=True
)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def _begun(incomplete: str) -> list[tuple[str, str]]:
    """Completes a name, with what the agent is for."""
    return _completed(incomplete, _loaded().definitions.values())


def primary_begun(incomplete: str) -> list[tuple[str, str]]:
    """Completes the name of an agent that a session can have as its own."""
    from deputy_agents.definition.definition import Mode

    return _completed(incomplete, (one for one in _loaded().definitions.values() if one.mode is not Mode.SUBAGENT))


def _completed(incomplete: str, known: "Iterable[Definition]") -> list[tuple[str, str]]:
    from deputy_agents.definition.describe import summary
    from deputy_agents.text import cut

    return [(one.name, cut(summary(one), 80)) for one in known if one.name.startswith(incomplete)]


AgentName = Annotated[str, typer.Argument(help="Name of the definition.", autocompletion=_begun)]


@agents.command("list")
def list_agents(as_json: AsJson = False) -> None:
    """List the definitions: built in, of your home folder, and of this folder.

    Examples: `deputy agents list` · `deputy agents list --json | jq -r '.[].name'`
    """
    from deputy_agents.definition.describe import summary
    from deputy_agents.text import cut

    catalogue = _loaded()
    found = list(catalogue.definitions.values())
    if as_json:
        typer.echo(json.dumps([_told(one) for one in found], ensure_ascii=False, indent=2))
    else:
        width = max(len(one.name) for one in found)
        for one in found:
            source = "" if one.source == "built-in" else f"  ({_short(one.source)})"
            typer.echo(f"{one.name:<{width}}  {one.mode.value:<8}  {cut(summary(one), 90)}{source}")
    _warn(catalogue.problems)


@agents.command()
def show(name: AgentName, as_json: AsJson = False) -> None:
    """Show one definition: its tools, its limits and its prompt.

    Examples: `deputy agents show code_review` · `deputy agents show planner --json`
    """
    known = _loaded().definitions
    if (one := known.get(name)) is None:
        raise typer.BadParameter(f"there is no agent {name!r}; there are {', '.join(known)}.", param_hint="name")
    if as_json:
        typer.echo(json.dumps(_told(one) | {"prompt": one.prompt}, ensure_ascii=False, indent=2))
        return
    from deputy_agents.text import clean

    told = _told(one)
    told["tools"] = ", ".join(cast("list[str]", told["tools"]))
    typer.echo(clean("\n".join([*(f"{key}: {value}" for key, value in told.items()), "", one.prompt.strip()])))


@agents.command()
def check(as_json: AsJson = False) -> None:
    """Check the definition files of this folder and of your home folder.

    The exit code is 1 when one of them cannot be used.

    Examples: `deputy agents check` · `deputy agents check --json`
    """
    catalogue = _loaded()
    problems = [*catalogue.problems, *_of_servers(catalogue)]
    if as_json:
        told = [{"file": p.file, "line": p.line, "reason": p.reason, "fatal": p.fatal} for p in problems]
        typer.echo(json.dumps(told, ensure_ascii=False, indent=2))
    else:
        for problem in problems:
            typer.echo(f"{'✗' if problem.fatal else '!'} {_line(problem)}")
        own = sum(one.source != "built-in" for one in catalogue.definitions.values())
        typer.echo(
            f"{own} of your own can be used, {len(problems)} problem{'' if len(problems) == 1 else 's'}.", err=True
        )
    raise typer.Exit(1 if any(problem.fatal for problem in problems) else 0)


def _loaded() -> "Catalogue":
    """The definitions that count here. Reads files."""
    from deputy_agents.definition.catalogue import Catalogue
    from deputy_agents.session.builder import TOOL_NAMES

    catalogue = Catalogue([Path.cwd().resolve()], trusted=True, known_tools=TOOL_NAMES)
    catalogue.load()
    return catalogue


def _of_servers(catalogue: "Catalogue") -> "Sequence[Problem]":
    """What is wrong with the MCP servers that definitions bring along. Those that they only name may be in the settings
    of an editor."""
    from deputy_agents.guidance.mcp_config import read_servers
    from deputy_agents.guidance.workspace_settings import Written
    from deputy_agents.session.mcp_servers import sources

    return read_servers(sources({}, Written(), Written(), catalogue.definitions.values()), [])[1]


def _told(one: "Definition") -> dict[str, object]:
    """As `deputy/definition/list` tells it to an editor."""
    from deputy_agents.session.builder import TOOL_NAMES
    from deputy_protocol.base import to_wire
    from deputy_server.convert.definition import definition_to_wire

    return to_wire(definition_to_wire(one, sorted(TOOL_NAMES)))


def _short(source: str) -> str:
    from deputy_agents.files.paths import short_path

    return short_path(source, Path.cwd().resolve())


def _line(problem: "Problem") -> str:
    from deputy_agents.text import visible

    return visible(f"{_short(problem.file)}:{problem.line}: {problem.reason}")


def _warn(problems: "Sequence[Problem]") -> None:
    for problem in problems:
        typer.echo(_line(problem), err=True)
