"""``deputy init`` and ``deputy completion``."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


def init(
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Write the files without asking.")] = False,
) -> None:
    """Write a starter for this folder.

    It consists of settings, an agent definition, and instructions. Shows the files first, and asks before it writes
    them. Without a terminal, it writes only with --yes. Files that exist are never changed.

    Examples: `deputy init` · `deputy init --yes`
    """
    from deputy_server.starter import FILES, git_hint, missing_files, write_files

    folder = Path.cwd().resolve()
    files = missing_files(folder)
    for name in FILES.keys() - files.keys():
        typer.echo(f"Kept: {name} is here, or a file in its role.", err=True)
    if not files:
        typer.echo("Nothing to write.", err=True)
        return
    for name, text in files.items():
        typer.echo(f"── {name} ──\n{text}")
    if not yes:
        if not sys.stdin.isatty():
            typer.echo("Nothing was written. Use --yes to write these files.", err=True)
            raise typer.Exit(1)
        typer.confirm(f"Write {len(files)} file{'' if len(files) == 1 else 's'} to {folder}?", abort=True, err=True)
    try:
        write_files(folder, files)
    except OSError as error:
        typer.echo(f"Error: {error.filename} cannot be written: {error.strerror}.", err=True)
        raise typer.Exit(1) from None
    typer.echo(f"Wrote {', '.join(files)}.", err=True)
    if hint := git_hint(folder):
        typer.echo(hint, err=True)


class Shell(StrEnum):
    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


_ADDED = {Shell.ZSH: '\n[ "$funcstack[1]" != _deputy ] || _deputy_completion "$@"\n'}
"""zsh reads the file at the first Tab, which must also complete."""


def completion(
    shell: Annotated[Shell, typer.Argument(help="The shell.")],
    install: Annotated[bool, typer.Option("--install", help="Install the script for new shells.")] = False,
) -> None:
    """Print or install the completion script of a shell.

    It completes commands, options, and names of agents, sessions and settings. With --install, it is written where the
    shell finds it, and read by every new shell.

    Examples: `deputy completion --install zsh` · `deputy completion fish > ~/.config/fish/completions/deputy.fish`
    """
    from typer import completion as scripts

    program, variable = "deputy", "_DEPUTY_COMPLETE"
    script = scripts.get_completion_script(prog_name=program, complete_var=variable, shell=shell.value)  # pyright: ignore[reportPrivateImportUsage]
    script += _ADDED.get(shell, "")
    if not install:
        typer.echo(script)
        return
    try:
        _, path = scripts.install(shell.value, program, variable)  # pyright: ignore[reportPrivateImportUsage]
        path.write_text(script, "utf-8")
    except OSError as error:
        typer.echo(f"Error: {error.filename} cannot be written: {error.strerror}.", err=True)
        raise typer.Exit(1) from None
    typer.echo(f"Installed in {path}. Start a new shell to use it.", err=True)
