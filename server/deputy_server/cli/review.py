"""The commands of ``deputy sessions`` that review and rewind what agents changed. They are added to ``sessions``."""

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import anyio
import typer

from deputy_server.cli.sessions import AsJson, SessionId, sessions

if TYPE_CHECKING:
    from deputy_agents.session.clients import ClientSettings
    from deputy_agents.session.review import Selection
    from deputy_agents.session.runtime import Runtime
    from deputy_agents.session.session import Session

__all__ = ["sessions"]

T = TypeVar("T")

Files = Annotated[list[Path] | None, typer.Argument(help="Files to select. Default: all changes.", show_default=False)]
CheckpointId = Annotated[
    str,
    typer.Argument(help="Number of a checkpoint, 1 for the newest, or the beginning of its id.", show_default=False),
]


@sessions.command()
def diff(session_id: SessionId, as_json: AsJson = False) -> None:
    """Print what agents changed in files and you have not reviewed.

    Examples: `deputy sessions diff 0192f1c2` · `deputy sessions diff 0192f1c2 | less`
    """

    async def read(session: "Session", _: "Runtime", __: "ClientSettings") -> str:
        from deputy_protocol.base import to_wire
        from deputy_server.convert.review import files_to_wire
        from deputy_server.headless.stored_session import diff_text

        files, notes = await session.review.unreviewed_files()
        for note in notes:
            typer.echo(note, err=True)
        if as_json:
            found = to_wire(files_to_wire(files, notes, session.review.changes.label))
            return f"{json.dumps(found, ensure_ascii=False, indent=2)}\n"
        return diff_text(files, Path(session.record.cwd))

    text = _with_session(session_id, read)
    typer.echo(text, nl=False)
    if not text:
        typer.echo("No unreviewed changes.", err=True)


@sessions.command()
def keep(session_id: SessionId, files: Files = None) -> None:
    """Keep what agents changed, in some files or in all.

    Examples: `deputy sessions keep 0192f1c2` · `deputy sessions keep 0192f1c2 src/main.py`
    """
    _review(session_id, files, undo=False)


@sessions.command()
def undo(session_id: SessionId, files: Files = None) -> None:
    """Undo what agents changed and you have not kept, in some files or in all. Your own lines stay.

    Examples: `deputy sessions undo 0192f1c2` · `deputy sessions undo 0192f1c2 src/main.py`
    """
    _review(session_id, files, undo=True)


@sessions.command()
def checkpoints(session_id: SessionId, as_json: AsJson = False) -> None:
    """List the checkpoints of a session, newest first: one before each turn, and each state that a rewind left.

    Examples: `deputy sessions checkpoints 0192f1c2` · `deputy sessions checkpoints 0192f1c2 --json`
    """

    async def read(session: "Session", _: "Runtime", __: "ClientSettings") -> str:
        from deputy_protocol.base import to_wire
        from deputy_server.convert.checkpoint import checkpoints_to_wire
        from deputy_server.terminal.draw import one_line

        listed = await session.rewind.checkpoints.list()
        notes = session.rewind.checkpoints.coverage.notes
        if as_json:
            return json.dumps(to_wire(checkpoints_to_wire(listed, notes)), ensure_ascii=False, indent=2)
        found = checkpoints_to_wire(listed, notes).checkpoints
        return "\n".join(
            f"{one.checkpoint_id}  {one.time[:16].replace('T', ' ')}  {one.files} files +{one.added} −{one.removed}  "
            f"{one_line(one.title)}"
            for one in found
        )

    typer.echo(_with_session(session_id, read) or "No checkpoints.")


@sessions.command()
def rewind(
    session_id: SessionId,
    checkpoint_id: CheckpointId,
    only_files: Annotated[bool, typer.Option("--files", help="Rewind the files only.")] = False,
    only_conversation: Annotated[bool, typer.Option("--conversation", help="Rewind the conversation only.")] = False,
    skip: Annotated[bool, typer.Option("--skip-conflicts", help="Leave out files that cannot be rewound.")] = False,
    preview: Annotated[bool, typer.Option("--preview", help="Print what would change in files.")] = False,
) -> None:
    """Go back to a checkpoint, with files and conversation. Your own lines stay. A rewind can itself be undone: the
    state that it leaves is listed as a checkpoint.

    Examples: `deputy sessions rewind 0192f1c2 0193ab --preview` · `deputy sessions rewind 0192f1c2 0193ab --files`
    """
    both = only_files == only_conversation

    async def go(session: "Session", _: "Runtime", __: "ClientSettings") -> tuple[str, bool]:
        from deputy_server.headless.stored_session import rewound_text

        full_id = (await session.rewind.checkpoints.find(checkpoint_id)).checkpoint_id
        cwd = Path(session.record.cwd)
        if preview:
            planned = await session.rewind.plan(full_id)
            lines = (f"{one.status}: {_short(one.path, cwd)}{one.conflict and f' ({one.conflict})'}" for one in planned)
            return "\n".join(lines) or "No file would change.", True
        rewound = await session.rewind.rewind(
            full_id, files=both or only_files, conversation=both or only_conversation, skip_conflicts=skip
        )
        return rewound_text(rewound, cwd), skip or not rewound.conflicts

    text, done = _with_session(session_id, go)
    typer.echo(text)
    if not done:
        typer.echo("Nothing was rewound. Use --skip-conflicts to leave out these files.", err=True)
        raise typer.Exit(1)


@sessions.command()
def fork(
    session_id: SessionId,
    checkpoint_id: Annotated[
        str, typer.Argument(help="Checkpoint to begin from. Default: the session as it is.", show_default=False)
    ] = "",
) -> None:
    """Print the id of a new session that begins as this one, now or at a checkpoint. No file changes.

    Examples: `deputy sessions fork 0192f1c2` · `deputy run --session "$(deputy sessions fork 0192f1c2 0193ab)" "Try…"`
    """

    async def copy(session: "Session", runtime: "Runtime", client: "ClientSettings") -> str:
        record = await session.rewind.checkpoints.find(checkpoint_id) if checkpoint_id else None
        full_id = record and record.checkpoint_id
        forked = await runtime.fork(client, session.id, full_id, roots=[Path(session.record.cwd)])
        return forked.id

    typer.echo(_with_session(session_id, copy))


def _review(session_id: str, files: "list[Path] | None", *, undo: bool) -> None:
    selections = _selections(files)

    async def act(session: "Session", _: "Runtime", __: "ClientSettings") -> tuple[str, bool]:
        from deputy_agents.session.review import Reviewed
        from deputy_server.headless.stored_session import reviewed_text

        result = Reviewed()
        for selection in selections:
            one = await (session.review.undo(selection) if undo else session.review.keep(selection))
            result.done += one.done
            result.conflicts += one.conflicts
        text = reviewed_text(result, "Undone:" if undo else "Kept:", Path(session.record.cwd))
        return text, not result.conflicts

    text, done = _with_session(session_id, act)
    typer.echo(text)
    if not done:
        raise typer.Exit(1)


def _selections(files: "list[Path] | None") -> "list[Selection]":
    from deputy_agents.session.review import Selection

    return [Selection(path=str(file.resolve())) for file in files] if files else [Selection(all=True)]


def _short(path: str, cwd: Path) -> str:
    return str(Path(path).relative_to(cwd) if Path(path).is_relative_to(cwd) else path)


def _with_session(prefix: str, use: "Callable[[Session, Runtime, ClientSettings], Awaitable[T]]") -> T:
    from deputy_agents.domain.errors import DeputyError, InvalidRequest, UnknownSession
    from deputy_server.headless.stored_session import opened

    async def main() -> T:
        async with opened(prefix) as (session, runtime, client):
            return await use(session, runtime, client)

    try:
        return anyio.run(main)
    except (UnknownSession, InvalidRequest) as error:
        raise typer.BadParameter(str(error)) from None
    except DeputyError as error:
        typer.echo(f"Error: {error}", err=True)
        raise typer.Exit(1) from None
