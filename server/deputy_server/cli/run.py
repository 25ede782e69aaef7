"""``deputy run``."""

import sys
from math import inf
from pathlib import Path
from typing import Annotated

import typer

from deputy_agents.domain.model_card import Effort
from deputy_agents.domain.permission_mode import PermissionMode
from deputy_server.cli.agents import complete_primary

Prompt = Annotated[
    str,
    typer.Argument(help="The prompt. '-' or nothing reads it from standard input, or asks for it.", show_default=False),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print each event as one line of JSON, as editors receive it.")]
Latest = Annotated[bool, typer.Option("--continue", "-c", help="Continue the latest session of this folder.")]
SessionId = Annotated[
    str | None, typer.Option(metavar="ID", help="Continue the session with this id, or the beginning or end of its id.")
]
AgentName = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="Agent definition to use; see `deputy agents list`.", autocompletion=complete_primary
    ),
]
ModelName = Annotated[
    str | None, typer.Option("--model", "-m", metavar="NAME", help="Model to use. 'offline' needs no key.")
]
Mode = Annotated[
    PermissionMode | None,
    typer.Option(
        "--permission-mode",
        help="What agents may do without approval. `default` asks first; with `accept_edits`, you review edits after.",
    ),
]
Allow = Annotated[
    list[str] | None,
    typer.Option(
        metavar="RULE", help="Allow without approval: a tool, or tool(pattern) such as 'edit_file(src/**)'. Repeatable."
    ),
]
Deny = Annotated[
    list[str] | None, typer.Option(metavar="RULE", help="Deny always: a tool, or tool(pattern). Repeatable.")
]
EffortLevel = Annotated[Effort | None, typer.Option("--effort", help="How much work the model puts into its replies.")]
MaxTurns = Annotated[
    int | None, typer.Option(min=1, metavar="NUMBER", help="Maximum number of model requests of the agent.")
]


def _above_zero(value: float | None) -> float | None:
    if value is not None and not 0 < value < inf:
        raise typer.BadParameter("must be an amount above 0. Omit it for no limit.")
    return value


Budget = Annotated[
    float | None,
    typer.Option(
        callback=_above_zero, metavar="DOLLARS", help="Maximum cost of all agents together, in US dollars; above 0."
    ),
]
Trust = Annotated[bool, typer.Option("--trust", help="Apply what this folder's settings allow, and its hooks.")]
SettingsFile = Annotated[Path | None, typer.Option(metavar="FILE", help="JSON file with further settings.")]


def run_prompt(
    prompt: Prompt = "-",
    as_json: AsJson = False,
    latest: Latest = False,
    session: SessionId = None,
    agent: AgentName = None,
    model: ModelName = None,
    effort: EffortLevel = None,
    mode: Mode = None,
    allow: Allow = None,
    deny: Deny = None,
    max_turns: MaxTurns = None,
    budget: Budget = None,
    trust: Trust = False,
    settings: SettingsFile = None,
) -> None:
    """Run one prompt in this folder, without an editor.

    At a terminal, you see the agents work and approve or deny each change. Without a terminal, anything that needs
    approval is denied unless --allow or --permission-mode permits it. The answer is written to standard output,
    everything else to standard error.

    Exit codes: 0 finished, 1 failed, 2 wrong usage, 3 something was not approved, 4 an edit failed, 130 cancelled.

    Examples: `deputy run "where are retries handled?"` · `git diff | deputy run --json -` ·
    `deputy run --allow 'edit_file(docs/**)' "fix the typos in docs"` · `deputy run -c "and the tests?"`
    """
    from deputy_agents.domain.errors import DeputyError, StoreError  # imported here to keep `deputy --help` fast
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
            effort=effort,
            mode=mode,
            allow=tuple(allow or ()),
            deny=tuple(deny or ()),
            max_turns=max_turns,
            budget=budget,
            trust=trust,
        )
        raise typer.Exit(run(options, options.settings(read_settings(settings)), Path.cwd().resolve()))
    except StoreError as error:
        typer.echo(f"Error: {error}", err=True)
        raise typer.Exit(1) from None
    except DeputyError as error:
        raise typer.BadParameter(str(error)) from None
