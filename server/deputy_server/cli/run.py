"""``deputy run``."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from deputy_agents.domain.permission_mode import PermissionMode
from deputy_server.cli.agents import complete_primary

Prompt = Annotated[
    str, typer.Argument(help="The prompt. '-' or nothing reads it from standard input.", show_default=False)
]
AsJson = Annotated[bool, typer.Option("--json", help="Print each event as one line of JSON, as editors receive it.")]
Latest = Annotated[bool, typer.Option("--continue", "-c", help="Continue the latest session of this folder.")]
SessionId = Annotated[str | None, typer.Option(help="Continue the session with this id, or the beginning of its id.")]
AgentName = Annotated[
    str | None,
    typer.Option(help="Agent definition to use; see `deputy agents list`.", autocompletion=complete_primary),
]
ModelName = Annotated[str | None, typer.Option("--model", "-m", help="Model to use. 'offline' needs no key.")]
Mode = Annotated[PermissionMode | None, typer.Option("--permission-mode", help="What agents may do without approval.")]
Allow = Annotated[
    list[str] | None,
    typer.Option(help="Allow without approval: a tool, or tool(pattern) such as 'edit_file(src/**)'. Repeatable."),
]
Deny = Annotated[list[str] | None, typer.Option(help="Deny always: a tool, or tool(pattern). Repeatable.")]
MaxTurns = Annotated[int | None, typer.Option(min=1, help="Maximum number of model requests of the agent.")]
Budget = Annotated[float | None, typer.Option(min=0.0, help="Maximum cost of all agents together, in US dollars.")]
SettingsFile = Annotated[Path | None, typer.Option(help="JSON file with further settings.")]


def run_prompt(
    prompt: Prompt = "-",
    as_json: AsJson = False,
    latest: Latest = False,
    session: SessionId = None,
    agent: AgentName = None,
    model: ModelName = None,
    mode: Mode = None,
    allow: Allow = None,
    deny: Deny = None,
    max_turns: MaxTurns = None,
    budget: Budget = None,
    settings: SettingsFile = None,
) -> None:
    """Run one prompt in this folder, without an editor.

    At a terminal, you see the agents work and approve or deny each change. Without a terminal, anything that needs
    approval is denied unless --allow or --permission-mode permits it. The answer is written to standard output,
    everything else to standard error.

    Exit codes: 0 finished, 1 failed, 2 wrong usage, 3 something was not approved, 130 cancelled.

    Examples: `deputy run "where are retries handled?"` · `git diff | deputy run --json -` ·
    `deputy run --allow 'edit_file(docs/**)' "fix the typos in docs"` · `deputy run -c "and the tests?"`
    """
    from deputy_agents.domain.errors import DeputyError  # imported here to keep `deputy --help` fast
    from deputy_server.doctor import read_settings
    from deputy_server.headless.options import RunOptions, prompt_of
    from deputy_server.headless.run import run

    if latest and session is not None:
        raise typer.BadParameter("--continue and --session cannot be combined.")
    if (latest or session) and agent is not None:
        raise typer.BadParameter("the agent of an existing session cannot be changed.", param_hint="--agent")
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
