"""``deputy agents``: the agent definitions of a folder."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from deputy_server.icons import FAILED

if TYPE_CHECKING:
    from deputy_agents.definition.catalogue import Catalogue
    from deputy_agents.definition.definition import Definition
    from deputy_agents.domain.problem import Problem

agents = typer.Typer(
    name="agents", help="List, show and check the agent definitions for this folder.", no_args_is_help=True
)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def _complete_name(incomplete: str) -> list[tuple[str, str]]:
    """Completions of the name of a definition, with their descriptions."""
    return _completions(incomplete, _load().definitions.values())


def complete_primary(incomplete: str) -> list[tuple[str, str]]:
    """Completions of the name of a definition that a primary agent can have."""
    from deputy_agents.definition.definition import Mode

    return _completions(incomplete, (one for one in _load().definitions.values() if one.mode is not Mode.SUBAGENT))


def _completions(incomplete: str, known: "Iterable[Definition]") -> list[tuple[str, str]]:
    from deputy_agents.definition.describe import summary
    from deputy_agents.text import cut

    return [(one.name, cut(summary(one), 80)) for one in known if one.name.startswith(incomplete)]


AgentName = Annotated[str, typer.Argument(help="Name of the agent definition.", autocompletion=_complete_name)]


@agents.command("list")
def list_agents(as_json: AsJson = False) -> None:
    """List the available agent definitions.

    These are built in, or files in your home folder and in this folder.

    Examples: `deputy agents list` · `deputy agents list --json | jq -r '.[].name'`
    """
    from deputy_agents.definition.describe import summary
    from deputy_agents.text import cut

    catalogue = _load()
    definitions = list(catalogue.definitions.values())
    if as_json:
        typer.echo(json.dumps([_to_json(one) for one in definitions], ensure_ascii=False, indent=2))
    else:
        width = max(len(one.name) for one in definitions)
        for one in definitions:
            source = "" if one.source == "built-in" else f"  ({_short(one.source)})"
            typer.echo(f"{one.name:<{width}}  {one.mode.value:<8}  {cut(summary(one), 90)}{source}")
    _print_problems(catalogue.problems)


@agents.command()
def show(name: AgentName, as_json: AsJson = False) -> None:
    """Show the tools, limits and prompt of an agent definition.

    Examples: `deputy agents show code_review` · `deputy agents show planner --json`
    """
    known = _load().definitions
    if (one := known.get(name)) is None:
        raise typer.BadParameter(
            f"there is no agent definition {name!r}. Available: {', '.join(known)}.", param_hint="name"
        )
    if as_json:
        typer.echo(json.dumps(_to_json(one) | {"prompt": one.prompt}, ensure_ascii=False, indent=2))
        return
    from deputy_agents.text import clean

    fields = _to_json(one)
    fields["tools"] = ", ".join(cast("list[str]", fields["tools"]))
    typer.echo(clean("\n".join([*(f"{key}: {value}" for key, value in fields.items()), "", one.prompt.strip()])))


@agents.command()
def check(as_json: AsJson = False) -> None:
    """Check your agent definition files.

    Checks the files in this folder and in your home folder. Exits with 1 if a file cannot be used.

    Examples: `deputy agents check` · `deputy agents check --json`
    """
    catalogue = _load()
    problems = [*catalogue.problems, *_mcp_server_problems(catalogue)]
    if as_json:
        rows = [{"file": p.file, "line": p.line, "reason": p.reason, "fatal": p.fatal} for p in problems]
        typer.echo(json.dumps(rows, ensure_ascii=False, indent=2))
    else:
        for problem in problems:
            typer.echo(f"{FAILED if problem.fatal else '!'} {_line(problem)}")
        own = sum(one.source != "built-in" for one in catalogue.definitions.values())
        usable = f"{own} usable definition{'' if own == 1 else 's'} of your own"
        typer.echo(f"{usable}, {len(problems)} problem{'' if len(problems) == 1 else 's'}.", err=True)
    raise typer.Exit(1 if any(problem.fatal for problem in problems) else 0)


def _load() -> "Catalogue":
    """The agent definitions for this folder. Reads files."""
    from deputy_agents.definition.catalogue import Catalogue
    from deputy_agents.session.builder import TOOL_NAMES

    catalogue = Catalogue([Path.cwd().resolve()], trusted=True, known_tools=TOOL_NAMES)
    catalogue.load()
    return catalogue


def _mcp_server_problems(catalogue: "Catalogue") -> "Sequence[Problem]":
    """Problems of the MCP servers that definitions contain. Those that a definition only names are not checked, because
    an editor's settings may contain them."""
    from deputy_agents.guidance.mcp_config import read_mcp_servers
    from deputy_agents.guidance.workspace_settings import WorkspaceSettings
    from deputy_agents.session.mcp_servers import sources

    return read_mcp_servers(sources({}, WorkspaceSettings(), WorkspaceSettings(), catalogue.definitions.values()), [])[
        1
    ]


def _to_json(one: "Definition") -> dict[str, object]:
    """The definition as in the result of `deputy/definition/list`."""
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


def _print_problems(problems: "Sequence[Problem]") -> None:
    for problem in problems:
        typer.echo(_line(problem), err=True)
