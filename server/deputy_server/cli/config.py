"""``deputy config``: the settings files of the user and of this folder."""

import json
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

if TYPE_CHECKING:
    from deputy_server.settings_files import Scope

T = TypeVar("T")

config = typer.Typer(name="config", help="Show and change settings.", no_args_is_help=True)


def _complete_name(incomplete: str) -> list[str]:
    from deputy_server.setting_names import all_settings

    return [one.name for one in all_settings() if one.name.startswith(incomplete)]


Name = Annotated[
    str, typer.Argument(help="Name of the setting, such as agents.maxParallel.", autocompletion=_complete_name)
]
User = Annotated[bool, typer.Option("--user", help="Your own file, for all folders: ~/.deputy/settings.json.")]
Project = Annotated[bool, typer.Option("--project", help="The file of this folder: .deputy/settings.json.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@config.command()
def get(name: Name, user: User = False, project: Project = False) -> None:
    """Print the value of a setting as JSON.

    Without an option, this is the value that applies in this folder without an editor.

    Examples: `deputy config get model` · `deputy config get permissions.rules --project`
    """
    from deputy_server.setting_names import setting
    from deputy_server.settings_files import read_file, sources, value_at

    def read() -> object:
        setting(name)
        if (scope := _scope(user=user, project=project)) is not None:
            return value_at(read_file(scope), name)
        found = [one.value for one in sources(os.environ) if one.setting.name == name]
        return found[0] if len(found) == 1 else [item for value in found if isinstance(value, list) for item in value]  # pyright: ignore[reportUnknownVariableType]

    typer.echo(json.dumps(_checked(read), ensure_ascii=False, indent=2))


@config.command("set")
def set_value(
    name: Name,
    value: Annotated[str, typer.Argument(help="The value, as JSON or as plain text; null removes it.")],
    user: User = False,
    project: Project = False,
) -> None:
    """Set a value in a settings file, by default in your own.

    The value is validated first. Comments in the file stay. A running Deputy reads your own file when it is restarted,
    and the file of a folder before each prompt.

    Examples: `deputy config set model offline` · `deputy config set agents.maxParallel 4` ·
    `deputy config set hooks '[{"on": "turn_end", "run": "make"}]' --project`
    """
    from deputy_server.setting_names import setting
    from deputy_server.settings_files import Scope, file_of, write_value

    def write() -> str:
        setting(name)
        scope = _scope(user=user, project=project) or Scope.USER
        write_value(scope, name, _parsed(name, value))
        return str(file_of(scope))

    typer.echo(f"Set {name} in {_checked(write)}.", err=True)


@config.command("list")
def list_values(
    changed: Annotated[bool, typer.Option("--changed", help="Only settings that differ from their default.")] = False,
    as_json: AsJson = False,
) -> None:
    """List the settings that apply in this folder without an editor, and where each comes from.

    Settings that an editor sends take precedence over your own file. Rules, hooks and MCP servers of all files apply
    together. Values that may contain secrets are not shown.

    Examples: `deputy config list --changed` · `deputy config list --json | jq '.[] | select(.source == "project")'`
    """
    from deputy_agents.text import visible
    from deputy_server.settings_files import Scope, file_problems, sources

    found = [one for one in _checked(lambda: list(sources(os.environ))) if not changed or one.source != "default"]
    hidden = "(not shown)"
    rows = [(one.setting.name, hidden if one.setting.secret and one.value else one.value, one.source) for one in found]
    if as_json:
        names = ("name", "value", "source")
        typer.echo(json.dumps([dict(zip(names, row, strict=True)) for row in rows], ensure_ascii=False, indent=2))
    else:
        for name, value, source in rows:
            shown = value if value == hidden else json.dumps(value, ensure_ascii=False)
            typer.echo(visible(f"{name} = {shown}  ({source})"))
    for problem in (problem for scope in Scope for problem in file_problems(scope)):
        typer.echo(problem, err=True)


@config.command()
def path(user: User = False, project: Project = False) -> None:
    """Print the paths of the settings files, whether or not they exist: first yours, then that of this folder.

    Examples: `deputy config path` · `$EDITOR "$(deputy config path --user)"`
    """
    from deputy_server.settings_files import Scope, file_of

    scope = _scope(user=user, project=project)
    for one in [scope] if scope else Scope:
        typer.echo(str(_checked(lambda one=one: file_of(one))))


def _scope(*, user: bool, project: bool) -> "Scope | None":
    from deputy_server.settings_files import Scope

    if user and project:
        raise typer.BadParameter("--user and --project cannot be combined.")
    return Scope.USER if user else Scope.PROJECT if project else None


def _parsed(name: str, text: str) -> object:
    """``text`` as JSON; a setting that takes text also takes it without quotes."""
    from deputy_server.settings_files import takes

    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return text if value is not None and not isinstance(value, str) and takes(name, text) else value


def _checked(use: Callable[[], T]) -> T:
    from deputy_agents.domain.errors import InvalidRequest

    try:
        return use()
    except InvalidRequest as error:
        raise typer.BadParameter(str(error)) from None
