"""Transcripts as files that are kept as things are: how an editor without a plugin shows what agents do.

A document follows its session for as long as its client does. It is written anew, whole and at once, at most a few
times a second; editors that look after files on disk show each state, and none of them has to be told.
"""

import logging
import os
import re
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from deputy_agents.domain.errors import StoreError
from deputy_agents.domain.event import AgentFinished, Event, MessageAdded, MessageDelta, TurnFinished
from deputy_agents.events.subscription import Subscription
from deputy_agents.events.view import AgentNode
from deputy_agents.session.session import Session
from deputy_agents.session.snapshot import Reading
from deputy_server.transcript import Redact, Transcript

log = logging.getLogger(__name__)

KEPT = 30 * 86400
"""Seconds after its last change that a document stays."""

INTERVAL = 0.2
"""Seconds between two writings; more, when writing takes long."""

END_GRACE = 10
"""Seconds that the sessions of a server that ends may take, until documents tell how they ended."""

_SHARE = 10
"""Writing takes at most one part in so many of the time."""


def document_name(about: str, agent_id: str) -> str:
    """The name of an agent's document: what it is about, and which agent's it is."""
    return f"{re.sub(r'[^a-z0-9]+', '-', about.lower()).strip('-')[:40] or 'agent'}-{agent_id[-12:]}.md"


class Transcripts:
    """The documents that one client has opened, in a folder for each session below ``folder``.
    ``told`` is called when some have changed."""

    def __init__(self, folder: Path, redact: Redact, tasks: TaskGroup, told: Callable[[], None]) -> None:
        self._folder = folder
        self._redact = redact
        self._tasks = tasks
        self._told = told
        self._keepers: dict[str, _Keeper] = {}

    async def open(self, reading: Reading, agent_id: str) -> Path:
        """The document of an agent, as things are and from now on kept so, while its session is open here.

        Raises:
            StoreError: it cannot be written.
        """
        if self._keeper_of(reading) is None:
            folder = await anyio.to_thread.run_sync(_prepared, self._folder, reading.id)
            if self._keeper_of(reading) is None:  # nobody was faster
                self.forget(reading.id)
                keeper = self._keepers[reading.id] = _Keeper(reading, folder, self._redact, self._told)
                if isinstance(reading, Session):
                    self._tasks.start_soon(keeper.follow, reading)
        return await self._keepers[reading.id].add(agent_id)

    def _keeper_of(self, reading: Reading) -> "_Keeper | None":
        keeper = self._keepers.get(reading.id)
        return keeper if keeper is not None and keeper.reading is reading else None

    async def flush(self, reading: Reading) -> None:
        """Returns when the documents of a session tell all that has happened, or cannot be written."""
        if (keeper := self._keepers.get(reading.id)) is not None:
            await keeper.write_all()

    def shown_at(self, path: Path) -> "Shown | None":
        """Whose document is at ``path`` (absolute, symlinks resolved)."""
        for keeper in self._keepers.values():
            if path.parent == keeper.folder:
                names = keeper.names()
                if path.name in names:
                    return Shown(keeper.reading, names[path.name], names)
        return None

    def forget(self, session_id: str) -> None:
        """Keeps a session's documents no longer; they stay as they are."""
        if (keeper := self._keepers.pop(session_id, None)) is not None:
            keeper.close()

    def close(self) -> None:
        for session_id in tuple(self._keepers):
            self.forget(session_id)


@dataclass(frozen=True, slots=True)
class Shown:
    """Whose document it is; ``names`` tells of all agents of the session which document is theirs."""

    reading: Reading
    agent_id: str
    names: Mapping[str, str]


@dataclass(slots=True)
class _Document:
    path: Path
    transcript: Transcript
    written: str = ""


class _Keeper:
    """Keeps the open documents of one session."""

    def __init__(self, reading: Reading, folder: Path, redact: Redact, told: Callable[[], None]) -> None:
        self.reading = reading
        self.folder = folder
        self._redact = redact
        self._told = told
        self._documents: dict[str, _Document] = {}
        self._names: dict[str, str] = {}
        """The names of documents by agent: what an agent's is called does not change."""
        self._drafts: dict[str, tuple[str, str]] = {}
        """What agents say now: the message and its text."""
        self._news = anyio.Event()
        self._closed = anyio.Event()
        self._writing = anyio.Lock()

    def names(self) -> Mapping[str, str]:
        """The agents of all documents that there can be, by file name."""
        return {self._name_of(node): node.info.agent_id for node in self.reading.agents()}

    async def add(self, agent_id: str) -> Path:
        """Raises StoreError: it cannot be written."""
        document = self._documents.get(agent_id)
        if document is None:
            node = next(node for node in self.reading.agents() if node.info.agent_id == agent_id)
            transcript = Transcript(self.reading, agent_id, self._name_of, self._redact)
            document = self._documents[agent_id] = _Document(self.folder / self._name_of(node), transcript)
        try:
            await self._write(agent_id, document)
        except OSError as error:
            raise StoreError(f"The transcript cannot be written: {error.strerror}.") from None
        return document.path

    async def follow(self, session: Session) -> None:
        """Keeps the documents until :meth:`close`, or the end of the session, which the last state then tells."""
        subscription = session.subscribe()
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._keep)
                tasks.start_soon(self._end, tasks)
                await self._hear(subscription)
                self.close()
        finally:
            with anyio.move_on_after(END_GRACE, shield=True):
                if not self._closed.is_set():  # the server ends, and soon the session
                    await self._hear(subscription)
                subscription.close()
                await self.write_all()

    async def _hear(self, subscription: Subscription) -> None:
        async for event in subscription:
            self._take(event)
            self._news.set()

    def close(self) -> None:
        self._closed.set()

    async def _end(self, tasks: TaskGroup) -> None:
        await self._closed.wait()
        tasks.cancel_scope.cancel()

    def _take(self, event: Event) -> None:
        agent_id = event.agent_id or ""
        match event.body:
            case MessageDelta(of, text):
                before, said = self._drafts.get(agent_id, (of, ""))
                self._drafts[agent_id] = of, said + text if before == of else text
            case MessageAdded(role="assistant") | TurnFinished() | AgentFinished():
                self._drafts.pop(agent_id, None)
            case _:
                pass

    async def _keep(self) -> None:
        while True:
            await self._news.wait()
            self._news = anyio.Event()
            begun = anyio.current_time()
            await self.write_all()
            await anyio.sleep(max(INTERVAL, _SHARE * (anyio.current_time() - begun)))

    async def write_all(self) -> None:
        """Writes what is not as things are."""
        changed = False
        for agent_id, document in tuple(self._documents.items()):
            try:
                changed |= await self._write(agent_id, document)
            except OSError as error:
                log.warning("a transcript is not kept up to date: %s", error.strerror)
        if changed:
            self._told()

    async def _write(self, agent_id: str, document: _Document) -> bool:
        """Whether there was anything new to write."""
        async with self._writing:
            text = document.transcript.text(self._drafts.get(agent_id, ("", ""))[1])
            if text == document.written:
                return False
            await anyio.to_thread.run_sync(_replace, document.path, text)
            document.written = text
            return True

    def _name_of(self, node: AgentNode) -> str:
        about = node.info.label if node.info.parent_id else self.reading.record.title
        return self._names.setdefault(node.info.agent_id, document_name(about, node.info.agent_id))


def _prepared(folder: Path, session_id: str) -> Path:
    """The folder of a session's documents, symlinks resolved, and what is too old gone from all such folders.

    Raises:
        StoreError: it cannot be made.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        oldest = time.time() - KEPT
        for file in folder.glob("*/*.md"):
            with suppress(FileNotFoundError):  # another server looks after the same folder
                if file.stat().st_mtime < oldest:
                    file.unlink()
        for other in folder.iterdir():
            with suppress(OSError):  # there are documents in it
                if other.stat().st_mtime < oldest:
                    other.rmdir()
        own = folder / session_id
        own.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise StoreError(f"There can be no transcripts in the folder of sessions: {error.strerror}.") from None
    return own.resolve()


def _replace(path: Path, text: str) -> None:
    """Writes a file at once: nobody reads half of it, and nobody but the user reads it."""
    number, name = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".tmp")
    spare = Path(name)
    try:
        with os.fdopen(number, "wb") as file:
            file.write(text.encode("utf-8", "replace"))
        spare.replace(path)
    except BaseException:
        spare.unlink(missing_ok=True)
        raise
