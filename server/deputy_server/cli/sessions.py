"""``deputy sessions``: what is kept, without an editor."""

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
    """What is written. The protocol has the same, and is loaded late."""

    MARKDOWN = "markdown"
    JSON = "json"


sessions = typer.Typer(
    name="sessions", help="List, show, export and delete the sessions that are kept.", no_args_is_help=True
)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def _begun(incomplete: str) -> list[tuple[str, str]]:
    """Completes an id, with the session's title."""
    from deputy_agents.ports.store import SessionQuery, SessionRecord, Store

    async def read(store: Store) -> tuple[SessionRecord, ...]:
        return (await store.sessions(SessionQuery())).records

    return [(r.session_id, r.title) for r in _with_store(read) if r.session_id.startswith(incomplete)]


SessionId = Annotated[
    str, typer.Argument(help="Id of the session, or its beginning.", autocompletion=_begun, show_default=False)
]


@sessions.command("list")
def list_sessions(
    everywhere: Annotated[bool, typer.Option("--all", "-a", help="Those of all folders.")] = False,
    archived: Annotated[bool, typer.Option("--archived", help="Those that were put away, too.")] = False,
    children: Annotated[bool, typer.Option("--children", help="The sub-agents of each, too.")] = False,
    as_json: AsJson = False,
) -> None:
    """List the sessions of this folder, the newest first.

    Examples: `deputy sessions list` · `deputy sessions list --all --json`
    """
    from deputy_agents.ports.store import SessionQuery, SessionRecord, Store
    from deputy_protocol.base import to_wire
    from deputy_server.convert.session import session_to_wire
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
        parts = ["  " if record.parent_session_id else "", record.session_id, when, one_line(record.title)]
        parts += ["(put away)"] if record.archived else []
        parts += [record.cwd] if everywhere else []
        typer.echo("  ".join(filter(None, parts)))
    if not found:
        typer.echo("No sessions." if everywhere else "No sessions of this folder; try --all.", err=True)


@sessions.command()
def show(session_id: SessionId, as_json: AsJson = False) -> None:
    """Print a session for reading, in Markdown.

    Examples: `deputy sessions show 0192f1c2` · `deputy sessions show 0192f1c2 --json | jq .session.title`
    """
    typer.echo(_exported(session_id, Format.JSON if as_json else Format.MARKDOWN), nl=False)


@sessions.command()
def export(
    session_id: SessionId,
    kind: Annotated[Format, typer.Option("--format", help="For people, or with everything for programs.")] = (
        Format.MARKDOWN
    ),
    output: Annotated[Path | None, typer.Option("--output", "-o", help="A new file; else standard output.")] = None,
) -> None:
    """Write a session to a file, transcripts of all its agents included.

    Examples: `deputy sessions export 0192f1c2 -o talk.md` · `deputy sessions export 0192f1c2 --format json`
    """
    text = _exported(session_id, kind)
    if output is None:
        typer.echo(text, nl=False)
        return
    try:
        with output.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise typer.BadParameter(f"{output} cannot be written: {error.strerror}.", param_hint="--output") from None


@sessions.command()
def delete(
    session_id: SessionId,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """Delete a session with all that belongs to it. It cannot be brought back.

    Examples: `deputy sessions delete 0192f1c2` · `deputy sessions delete 0192f1c2 --yes --json`
    """
    from deputy_agents.ports.store import Claim, Store
    from deputy_server.terminal.draw import one_line

    async def find(store: Store) -> tuple[str, str]:
        record = await store.get(await _whole(store, session_id))
        return record.session_id, record.title

    async def remove(store: Store) -> bool:
        if await store.claim(whole) is Claim.FOREIGN:
            return False
        await store.delete(whole)
        return True

    whole, title = _with_store(find)
    if not yes:
        typer.confirm(f"Delete the session {one_line(title) or whole}?", abort=True, err=True)
    if not _with_store(remove):
        raise typer.BadParameter("It is open in a running Deputy; close it there first.")
    typer.echo(json.dumps({"deleted": whole}) if as_json else f"Deleted {whole}.", err=not as_json)


def _exported(session_id: str, kind: Format) -> str:
    from deputy_agents.ports.store import Store
    from deputy_agents.session import restore
    from deputy_agents.session.snapshot import Snapshot
    from deputy_protocol.session import ExportFormat
    from deputy_server.export import exported

    async def read(store: Store) -> str:
        whole = await _whole(store, session_id)
        past = restore.fold(whole, await store.events(whole), await store.histories(whole))
        return await anyio.to_thread.run_sync(
            exported, Snapshot(await store.get(whole), past.view), ExportFormat(kind.value)
        )

    return _with_store(read)


async def _whole(store: "Store", begun: str) -> str:
    """The one session whose id begins so. Raises UnknownSession: there is none, or there are several."""
    from deputy_agents.ports.store import SessionQuery
    from deputy_server.storage import whole_id

    return whole_id((await store.sessions(SessionQuery())).records, begun)


def _with_store(use: "Callable[[Store], Awaitable[T]]") -> T:
    """What ``use`` makes of the user's store."""
    from deputy_agents.domain.errors import DeputyError, UnknownSession

    async def main() -> T:
        async with _opened() as store:
            return await use(store)

    try:
        return anyio.run(main)
    except UnknownSession as error:
        raise typer.BadParameter(str(error)) from None
    except DeputyError as error:
        typer.echo(f"Error: {error}", err=True)
        raise typer.Exit(1) from None


@asynccontextmanager
async def _opened() -> "AsyncGenerator[Store]":
    """
    Raises:
        StoreError: it cannot be used.
    """
    from deputy_agents.store.sqlite import SqliteStore
    from deputy_server.storage import state_folder

    store = await anyio.to_thread.run_sync(SqliteStore.open, state_folder(os.environ))
    try:
        yield store
    finally:
        await store.close()
