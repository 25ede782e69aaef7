"""The command line, for people. An editor's ``deputy serve`` goes past it, from ``__main__`` straight to ``serve``."""

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from deputy_server.cli.acp import acp
from deputy_server.cli.agents import agents
from deputy_server.cli.mcp import mcp
from deputy_server.cli.run import run_prompt
from deputy_server.cli.sessions import sessions
from deputy_server.version import VERSION


class _Deputy(TyperGroup):
    """Says in plain words what is wrong with an option, or with where it is called."""

    def invoke(self, ctx: Any) -> object:  # the library does not export the type of contexts
        try:
            Path.cwd()
        except OSError:
            ctx.fail("The folder that this is called in is gone; change to another one.")
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            from deputy_agents.validation_errors import plain

            error.message = plain(error.message)
            raise


app = typer.Typer(
    name="deputy",
    cls=_Deputy,
    help="A coding agent and its sub-agents, run by a language server inside your editor.",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"deputy {VERSION}")
        raise typer.Exit


@app.callback()
def deputy(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """A coding agent and its sub-agents, run by a language server inside your editor."""


@app.command()
def serve(
    stdio: Annotated[bool, typer.Option("--stdio", help="Speak LSP over standard input and output.")] = True,  # noqa: ARG001
    record: Annotated[
        Path | None, typer.Option(help="Write what is said to models and by them to a new file, without secrets.")
    ] = None,
    replay: Annotated[Path | None, typer.Option(help="Answer from such a file, in place of a model.")] = None,
) -> None:
    """Run the language server. Editors call this.

    Examples: `deputy serve --stdio` · `deputy serve --record fault.jsonl` · `deputy serve --replay fault.jsonl`
    """
    from deputy_server.serve import main as run_server  # what `__main__` calls without coming here

    files = {"--record": record, "--replay": replay}
    given = [word for option, file in files.items() if file is not None for word in (option, str(file))]
    raise typer.Exit(run_server(["--stdio", *given]))


@app.command()
def doctor(
    online: Annotated[
        bool, typer.Option("--online", help="Ask the model for a word as well; this may cost something.")
    ] = False,
    settings: Annotated[
        Path | None, typer.Option(help="A JSON file with the settings that your editor sends, to check with them.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Check what Deputy needs: Python, the server, search, model and key, prices, the folder for sessions.

    Says of each in one sentence whether it works and what to do. The exit code is 1 when something does not.

    Examples: `deputy doctor` · `deputy doctor --online --json`
    """
    from deputy_agents.domain.errors import InvalidRequest
    from deputy_server.doctor import report

    try:
        ok, told = report(settings, online=online, as_json=as_json)
    except InvalidRequest as error:
        raise typer.BadParameter(str(error), param_hint="--settings") from None
    typer.echo(told)
    raise typer.Exit(0 if ok else 1)


@app.command()
def demo(
    prompt: Annotated[
        str | None, typer.Argument(help="Your own prompt, for the current folder. Without one, a story in three acts.")
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="Model to use; 'offline' needs no key.", envvar=None)
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Approve every question without asking you.")] = False,
    no_input: Annotated[
        bool, typer.Option("--no-input", help="Ask nothing: approve in the sample project, refuse all else.")
    ] = False,
) -> None:
    """Watch agents work, in this terminal.

    Starts the real server and speaks with it as an editor does: sub-agents in parallel, one of them stopped, an edit
    that asks first. It needs no key, and changes nothing in your folder unless you give a prompt that asks for a
    change and approve it.

    Examples: `deputy demo` · `deputy demo "where are retries handled?"` ·
    `deputy demo --model offline 'replace "colour" with "color" in docs'`
    """
    if prompt is not None and not prompt.strip():
        raise typer.BadParameter("it is empty; leave it out to see the story", param_hint="prompt")
    from deputy_server.demo.run import Options, run  # rich and the rest only where they are shown

    raise typer.Exit(run(Options(prompt=prompt, model=model, approve=yes, ask=not no_input), Path.cwd()))


app.command("run")(run_prompt)
app.command("acp")(acp)
app.add_typer(sessions)
app.add_typer(agents)
app.add_typer(mcp)
