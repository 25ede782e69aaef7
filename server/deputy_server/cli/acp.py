"""``deputy acp``."""

from pathlib import Path
from typing import Annotated

import typer

from deputy_agents.definition import PermissionMode


def acp(
    agent: Annotated[
        str | None, typer.Option("--agent", "-a", help="The agent definition that new sessions work by.")
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="Model to use; 'offline' needs no key.", envvar=None)
    ] = None,
    mode: Annotated[
        PermissionMode | None, typer.Option("--permission-mode", help="What new sessions may do without asking.")
    ] = None,
    settings: Annotated[
        Path | None, typer.Option(help="A JSON file with further settings, as other editors send them.")
    ] = None,
    record: Annotated[
        Path | None, typer.Option(help="Write what is said to models and by them to a new file, without secrets.")
    ] = None,
    replay: Annotated[Path | None, typer.Option(help="Answer from such a file, in place of a model.")] = None,
) -> None:
    """Speak the Agent Client Protocol over standard input and output. Editors such as Zed call this.

    Examples: `deputy acp` · `deputy acp --model offline` · `deputy acp --permission-mode plan`
    """
    import anyio

    from deputy_agents.errors import DeputyError
    from deputy_protocol import session
    from deputy_protocol.base import overlaid
    from deputy_server.acp.serve import AcpOptions, serve
    from deputy_server.doctor import read_settings
    from deputy_server.options import Options

    traffic = Options(record, replay)
    if problem := traffic.problem():
        raise typer.BadParameter(problem)
    try:
        own = read_settings(settings)
    except DeputyError as error:
        raise typer.BadParameter(str(error), param_hint="--settings") from None
    own = overlaid(own, model=model, permission_mode=mode and session.PermissionMode(mode.value))
    raise typer.Exit(anyio.run(serve, AcpOptions(own, agent, traffic)))
