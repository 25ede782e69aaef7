"""``deputy run``."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from deputy_agents.domain.permission_mode import PermissionMode
from deputy_server.cli.agents import primary_begun


def run_prompt(
    prompt: Annotated[
        str, typer.Argument(help="What to do; '-' or nothing reads it from standard input.", show_default=False)
    ] = "-",
    as_json: Annotated[
        bool, typer.Option("--json", help="Print every event as a line of JSON, as an editor would get it.")
    ] = False,
    latest: Annotated[
        bool, typer.Option("--continue", "-c", help="Go on with the latest session of this folder.")
    ] = False,
    session: Annotated[
        str | None, typer.Option(help="Go on with the session of this id, or whose id begins so.")
    ] = None,
    agent: Annotated[
        str | None,
        typer.Option(help="Agent definition to work as; see `deputy agents`.", autocompletion=primary_begun),
    ] = None,
    model: Annotated[str | None, typer.Option("--model", "-m", help="Model to use; 'offline' needs no key.")] = None,
    mode: Annotated[
        PermissionMode | None, typer.Option("--permission-mode", help="How much is allowed without asking.")
    ] = None,
    allow: Annotated[
        list[str] | None,
        typer.Option(help="Allow without asking: a tool, or tool(pattern), as in 'edit_file(src/**)'."),
    ] = None,
    deny: Annotated[list[str] | None, typer.Option(help="Never allow: a tool, or tool(pattern).")] = None,
    max_turns: Annotated[int | None, typer.Option(min=1, help="Model requests of the agent at most.")] = None,
    budget: Annotated[float | None, typer.Option(min=0.0, help="US dollars for all agents together.")] = None,
    settings: Annotated[
        Path | None, typer.Option(help="A JSON file with further settings, as editors send them.")
    ] = None,
) -> None:
    """Run one prompt here, without an editor.

    At a terminal you see the agents and are asked; elsewhere what needs your approval is refused, unless --allow or
    --permission-mode permits it. The answer goes to standard output, all else to standard error.

    Exit codes: 0 done, 1 failed, 2 wrong usage, 3 something was not permitted, 130 cancelled.

    Examples: `deputy run "where are retries handled?"` · `git diff | deputy run --json -` ·
    `deputy run --allow 'edit_file(docs/**)' "fix the typos in docs"` · `deputy run -c "and the tests?"`
    """
    from deputy_agents.domain.errors import DeputyError  # the agents only where they run
    from deputy_server.doctor import read_settings
    from deputy_server.headless.options import RunOptions, prompt_of
    from deputy_server.headless.run import run

    if latest and session is not None:
        raise typer.BadParameter("--continue and --session exclude each other.")
    if (latest or session) and agent is not None:
        raise typer.BadParameter("a session keeps the agent that it was begun with.", param_hint="--agent")
    try:
        options = RunOptions(
            prompt=prompt_of(prompt, sys.stdin.buffer),
            json=as_json,
            latest=latest,
            session=session,
            agent=agent,
            model=model,
            mode=mode,
            allow=tuple(allow or ()),
            deny=tuple(deny or ()),
            max_turns=max_turns,
            budget=budget,
        )
        raise typer.Exit(run(options, options.settings(read_settings(settings)), Path.cwd().resolve()))
    except DeputyError as error:
        raise typer.BadParameter(str(error)) from None
