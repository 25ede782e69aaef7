"""``deputy acp``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from deputy_agents.domain.permission_mode import PermissionMode

if TYPE_CHECKING:
    from deputy_protocol.settings import Settings


def acp(
    agent: Annotated[str | None, typer.Option("--agent", "-a", help="Agent definition for new sessions.")] = None,
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="Model to use. 'offline' needs no key.", envvar=None)
    ] = None,
    mode: Annotated[
        PermissionMode | None,
        typer.Option(
            "--permission-mode",
            help="What agents of new sessions may do without approval. `default` asks first; with `accept_edits`, you "
            "review edits after.",
        ),
    ] = None,
    settings: Annotated[Path | None, typer.Option(help="JSON file with further settings.")] = None,
    record: Annotated[
        Path | None, typer.Option(help="Record model requests and responses to a new file, without secrets.")
    ] = None,
    replay: Annotated[Path | None, typer.Option(help="Replay a recorded file instead of calling a model.")] = None,
) -> None:
    """Run an agent for editors with the Agent Client Protocol.

    Editors such as Zed call this.

    Examples: `deputy acp` · `deputy acp --model offline` · `deputy acp --permission-mode plan`
    """
    from deputy_server.acp.serve import AcpOptions, main
    from deputy_server.serve_options import ServeOptions

    traffic = ServeOptions(record, replay)
    if problem := traffic.problem():
        raise typer.BadParameter(problem)
    chosen = None if settings is model is mode is None else _settings(settings, model, mode)
    raise typer.Exit(main(AcpOptions(chosen, agent, traffic)))


def _settings(file: Path | None, model: str | None, mode: PermissionMode | None) -> "Settings":
    from deputy_agents.domain.errors import DeputyError  # imported here, because most calls have no settings
    from deputy_protocol import session
    from deputy_protocol.base import overlaid
    from deputy_server.doctor import read_settings

    try:
        base = read_settings(file)
    except DeputyError as error:
        raise typer.BadParameter(str(error), param_hint="--settings") from None
    return overlaid(base, model=model, permission_mode=mode and session.PermissionMode(mode.value))
