"""The command ``deputy`` and its subcommands."""

from inspect import getdoc
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from deputy_protocol.version import VERSION
from deputy_server.cli.acp import acp
from deputy_server.cli.agents import agents
from deputy_server.cli.config import config
from deputy_server.cli.init import completion, init
from deputy_server.cli.mcp import mcp
from deputy_server.cli.models import models
from deputy_server.cli.permissions import permissions
from deputy_server.cli.review import sessions  # with the commands that are added there
from deputy_server.cli.run import run_prompt

_ORDER = (
    *("demo", "run", "init", "config", "permissions", "agents", "models", "mcp"),
    *("sessions", "doctor", "completion", "serve", "acp"),
)


class _Deputy(TyperGroup):
    """Rewrites the library's error messages in plain English, and rejects a current folder that no longer exists."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The commands in the order in which a new user needs them."""
        return sorted(super().list_commands(ctx), key=_ORDER.index)

    def get_params(self, ctx: Any) -> list[Any]:
        """The options, without those of the library for completion: ``deputy completion`` is the one way."""
        return [one for one in super().get_params(ctx) if one.name not in ("install_completion", "show_completion")]

    def invoke(self, ctx: Any) -> object:  # the library does not export the type of a context
        try:
            Path.cwd()
        except OSError:
            ctx.fail("The current folder no longer exists. Change to another folder.")
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            from deputy_agents.validation_errors import simplify

            error.message = simplify(error.message)
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


def _print_version(requested: bool) -> None:
    if requested:
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
    stdio: Annotated[bool, typer.Option("--stdio", help="Serve one client over standard input and output.")] = True,  # noqa: ARG001
    record: Annotated[
        Path | None, typer.Option(help="Record model requests and responses to a new file, without secrets.")
    ] = None,
    replay: Annotated[Path | None, typer.Option(help="Replay a recorded file instead of calling a model.")] = None,
) -> None:
    """Run the language server. Editors call this.

    Examples: `deputy serve --stdio` · `deputy serve --record bug.jsonl` · `deputy serve --replay bug.jsonl`
    """
    from deputy_server.serve import main as run_server  # `__main__` calls it directly

    files = {"--record": record, "--replay": replay}
    given = [word for option, file in files.items() if file is not None for word in (option, str(file))]
    raise typer.Exit(run_server(["--stdio", *given]))


@app.command()
def doctor(
    online: Annotated[
        bool, typer.Option("--online", help="Also send a short request to the model, which may cost something.")
    ] = False,
    settings: Annotated[
        Path | None, typer.Option(help="JSON file with the settings of your editor, to check them too.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Check the installation and suggest fixes.

    Checks Python, the server, search, the model and its key, prices, settings files and the session store. Exits with
    1 if a check fails.

    Examples: `deputy doctor` · `deputy doctor --online --json`
    """
    from deputy_agents.domain.errors import InvalidRequest
    from deputy_server.doctor import report

    try:
        ok, text = report(settings, online=online, as_json=as_json)
    except InvalidRequest as error:
        raise typer.BadParameter(str(error), param_hint="--settings") from None
    typer.echo(text)
    raise typer.Exit(0 if ok else 1)


@app.command()
def demo(
    prompt: Annotated[
        str | None, typer.Argument(help="A prompt for the current folder. Without it, a tour in three parts runs.")
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="Model to use. 'offline' needs no key.", envvar=None)
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Approve everything without asking.")] = False,
    no_input: Annotated[
        bool, typer.Option("--no-input", help="Never ask: approve edits in the sample project, nothing else.")
    ] = False,
) -> None:
    """Watch agents work in this terminal.

    Starts a real server and connects to it like an editor. The tour runs sub-agents in parallel, stops one of them,
    and makes an edit that needs approval. It needs no key. Nothing in your folder changes, unless you pass a prompt
    that asks for a change and approve it.

    Examples: `deputy demo` · `deputy demo "where are retries handled?"` ·
    `deputy demo --model offline 'replace "colour" with "color" in docs'`
    """
    if prompt is not None and not prompt.strip():
        raise typer.BadParameter("the prompt is empty. Omit it to run the tour.", param_hint="prompt")
    from deputy_server.demo.run import DemoOptions, run  # imports rich

    raise typer.Exit(run(DemoOptions(prompt=prompt, model=model, approve=yes, ask=not no_input), Path.cwd()))


def _with_lines_of_examples(group: typer.Typer) -> None:
    """Give each example of the help texts a line. In docstrings they are one paragraph: Examples: `a` · `b`."""
    for command in group.registered_commands:
        if command.callback is not None:
            text, _, examples = (getdoc(command.callback) or "").partition("\n\nExamples: ")
            shown = (" ".join(one.strip("` \n").split()) for one in examples.split(" ·"))
            command.help = "\n".join([text, "\n\b", "Examples:", *(f"  {one}" for one in shown)])
    for inner in group.registered_groups:
        if inner.typer_instance is not None:
            _with_lines_of_examples(inner.typer_instance)


app.command("run")(run_prompt)
app.command("models")(models)
app.command("acp")(acp)
app.command("init")(init)
app.add_typer(sessions)
app.add_typer(config)
app.add_typer(permissions)
app.add_typer(agents)
app.add_typer(mcp)
app.command("completion")(completion)
_with_lines_of_examples(app)
