"""``deputy sessions``: the stored sessions."""

import json
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import anyio
import anyio.to_thread
import typer

if TYPE_CHECKING:
    from deputy_agents.ports.store import Store

T = TypeVar("T")


class Format(StrEnum):
    """Output formats. The same as in the protocol, which takes longer to import."""

    MARKDOWN = "markdown"
    JSON = "json"


sessions = typer.Typer(name="sessions", help="List, show, review, rewind and delete sessions.", no_args_is_help=True)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def _complete_id(incomplete: str) -> list[tuple[str, str]]:
    """Completions of an id, with the titles of the sessions."""
    from deputy_agents.ports.store import SessionQuery, SessionRecord, Store

    async def read(store: Store) -> tuple[SessionRecord, ...]:
        return (await store.sessions(SessionQuery())).records

    from deputy_server.storage import short_id

    ids = (
        (shown, record.title)
        for record in _with_store(read)
        for shown in (short_id(record.session_id), record.session_id)
    )
    return [(shown, title) for shown, title in ids if shown.startswith(incomplete)]


SessionId = Annotated[
    str,
    typer.Argument(
        help="Id of the session, or the beginning or end of it.", autocompletion=_complete_id, show_default=False
    ),
]


@sessions.command("list")
def list_sessions(
    everywhere: Annotated[bool, typer.Option("--all", "-a", help="List the sessions of all folders.")] = False,
    archived: Annotated[bool, typer.Option("--archived", help="Include archived sessions.")] = False,
    children: Annotated[bool, typer.Option("--children", help="Include sub-agents.")] = False,
    as_json: AsJson = False,
) -> None:
    """List the sessions of this folder, newest first.

    Each line starts with the end of an id, which other commands accept. --json has complete ids.

    Examples: `deputy sessions list` · `deputy sessions list --all --json`
    """
    from deputy_agents.ports.store import SessionQuery, SessionRecord, Store
    from deputy_protocol.base import to_wire
    from deputy_server.convert.session import session_to_wire
    from deputy_server.storage import short_id
    from deputy_server.terminal.draw import one_line

    cwd = None if everywhere else str(Path.cwd().resolve())

    async def read(store: Store) -> tuple[SessionRecord, ...]:
        return (await store.sessions(SessionQuery(cwd=cwd, children=children, archived=archived))).records

    found = _with_store(read)
    if as_json:
        typer.echo(json.dumps([to_wire(session_to_wire(record)) for record in found], ensure_ascii=False, indent=2))
        return
    for record in found:
        when = session_to_wire(record).updated_at[:16].replace("T", " ")
        parts = ["  " if record.parent_session_id else "", short_id(record.session_id), when, one_line(record.title)]
        parts += ["(archived)"] if record.archived else []
        parts += [record.cwd] if everywhere else []
        typer.echo("  ".join(filter(None, parts)))
    if not found:
        typer.echo("No sessions." if everywhere else "No sessions in this folder. Use --all for all folders.", err=True)


@sessions.command()
def show(session_id: SessionId, as_json: AsJson = False) -> None:
    """Print a session as Markdown.

    Examples: `deputy sessions show 7d2f91ab04e3` · `deputy sessions show 7d2f91ab04e3 --json | jq .session.title`
    """
    typer.echo(_exported(session_id, Format.JSON if as_json else Format.MARKDOWN), nl=False)


@sessions.command()
def export(
    session_id: SessionId,
    kind: Annotated[Format, typer.Option("--format", help="Markdown for reading, or JSON with all data.")] = (
        Format.MARKDOWN
    ),
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="New file to write to. Default: standard output.")
    ] = None,
) -> None:
    """Export a session with the transcripts of all its agents.

    Examples: `deputy sessions export 7d2f91ab04e3 -o session.md` · `deputy sessions export 7d2f91ab04e3 --format json`
    """
    text = _exported(session_id, kind)
    if output is None:
        typer.echo(text, nl=False)
        return
    try:
        with output.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise typer.BadParameter(f"cannot write {output}: {error.strerror}.", param_hint="--output") from None


@sessions.command()
def delete(
    session_id: SessionId,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    as_json: AsJson = False,
) -> None:
    """Delete a session and all its data. This cannot be undone.

    Examples: `deputy sessions delete 7d2f91ab04e3` · `deputy sessions delete 7d2f91ab04e3 --yes --json`
    """
    from deputy_agents.ports.store import Claim, Store
    from deputy_server.terminal.draw import one_line

    async def find(store: Store) -> tuple[str, str]:
        record = await store.get(await _full_id(store, session_id))
        return record.session_id, record.title

    async def remove(store: Store) -> bool:
        if await store.claim(full_id) is Claim.FOREIGN:
            return False
        await store.delete(full_id)
        return True

    full_id, title = _with_store(find)
    if not yes:
        typer.confirm(f"Delete the session {one_line(title) or full_id}?", abort=True, err=True)
    if not _with_store(remove):
        raise typer.BadParameter("the session is open in a running Deputy. Close it there first.")
    typer.echo(json.dumps({"deleted": full_id}) if as_json else f"Deleted {full_id}.", err=not as_json)


def _exported(session_id: str, kind: Format) -> str:
    from deputy_agents.ports.store import Store
    from deputy_agents.session.snapshot import Snapshot
    from deputy_agents.session.stored_sessions import past_of
    from deputy_protocol.session import ExportFormat
    from deputy_server.export import export_text

    async def read(store: Store) -> str:
        full_id = await _full_id(store, session_id)
        view = (await past_of(store, full_id)).view
        return await export_text(Snapshot(await store.get(full_id), view, store), ExportFormat(kind.value))

    return _with_store(read)


async def _full_id(store: "Store", part: str) -> str:
    """The id of the one session whose id begins or ends with ``part``.

    Raises:
        UnknownSession: no session or several sessions match.
    """
    from deputy_agents.ports.store import SessionQuery
    from deputy_server.storage import resolve_id

    return resolve_id((await store.sessions(SessionQuery())).records, part)


def _with_store(use: "Callable[[Store], Awaitable[T]]") -> T:
    """Open the user's store and return what ``use`` returns for it."""
    from deputy_agents.domain.errors import DeputyError, UnknownSession

    async def main() -> T:
        async with _open_store() as store:
            return await use(store)

    try:
        return anyio.run(main)
    except UnknownSession as error:
        raise typer.BadParameter(str(error)) from None
    except DeputyError as error:
        typer.echo(f"Error: {error}", err=True)
        raise typer.Exit(1) from None


@asynccontextmanager
async def _open_store() -> "AsyncGenerator[Store]":
    """
    Raises:
        StoreError: the store cannot be used.
    """
    from deputy_server.storage import open_store

    store = await anyio.to_thread.run_sync(open_store, os.environ)
    try:
        yield store
    finally:
        await store.close()
