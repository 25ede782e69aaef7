"""A stored session that a command of the user opens, changes and closes again: no agent works in it."""

from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager
from difflib import unified_diff
from pathlib import Path

from anyio import to_thread

from deputy_agents.domain.errors import StoreError
from deputy_agents.ports.store import SessionQuery
from deputy_agents.review.reviewed_file import ReviewedFile
from deputy_agents.session.clients import ClientSettings
from deputy_agents.session.review import Reviewed
from deputy_agents.session.rewind import Rewound
from deputy_agents.session.runtime import Runtime
from deputy_agents.session.session import Session
from deputy_agents.text import lines_without_ends, visible
from deputy_server.app import App
from deputy_server.storage import resolve_id


@asynccontextmanager
async def opened(prefix: str) -> AsyncGenerator[tuple[Session, Runtime, ClientSettings]]:
    """The session whose id begins with ``prefix``.

    Raises:
        UnknownSession: there is none, or more than one.
        WrongState: it is open in another process.
        StoreError: the store cannot be used.
    """
    async with await to_thread.run_sync(App) as app:
        if app.store_notice:
            raise StoreError(app.store_notice)
        client = app.connect()
        page = await app.runtime.sessions(SessionQuery())
        session_id = resolve_id(page.records, prefix)
        roots = [Path((await app.runtime.record(session_id)).cwd)]
        session = await app.runtime.load(client.settings, session_id, roots=roots)
        session.turns.holds_queue = True
        yield session, app.runtime, client.settings


def diff_text(files: Sequence[ReviewedFile], cwd: Path) -> str:
    """The unreviewed changes of files as a unified diff."""
    return "".join(f"{line}\n" for file in files for line in _diff(file, _name(file.path, cwd)))


def _diff(file: ReviewedFile, name: str) -> Iterator[str]:
    state = file.state
    if state.binary:
        yield f"Binary file {name} was {file.status}."
        return
    before, after = lines_without_ends(state.base or ""), lines_without_ends(state.text or "")
    old = "/dev/null" if state.base is None else f"a/{name}"
    new = "/dev/null" if state.text is None else f"b/{name}"
    found = list(unified_diff(before, after, old, new, lineterm=""))
    yield from map(visible, found)
    if not found:
        yield f"{name}: {', '.join(hunk.note for hunk in file.hunks if hunk.note) or file.status}"


def reviewed_text(reviewed: Reviewed, verb: str, cwd: Path) -> str:
    """What keeping or undoing has done."""
    count = len(reviewed.done)
    changes = "1 change" if count == 1 else f"{count} changes"
    conflicts = (f"Left: {_name(one.path, cwd)}: {one.reason}" for one in reviewed.conflicts)
    return "\n".join([f"{verb} {changes}.", *dict.fromkeys(conflicts)])


def rewound_text(rewound: Rewound, cwd: Path) -> str:
    """What a rewind has done."""
    lines = [f"Restored {_name(path, cwd)}" for path in rewound.files]
    lines += [f"Left unchanged: {_name(path, cwd)}: {reason}" for path, reason in rewound.conflicts]
    if rewound.prompt is not None:
        text = "\n".join(getattr(block, "text", "[image]") for block in rewound.prompt)
        lines += ["The prompt was:", *(visible(line) for line in text.split("\n"))]
    return "\n".join(lines or ["No file was changed."])


def _name(path: str, cwd: Path) -> str:
    return visible(str(Path(path).relative_to(cwd) if Path(path).is_relative_to(cwd) else path))
