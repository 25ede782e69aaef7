"""Live-updating transcript files: how an editor without a plugin shows what agents do.

A file follows its session as long as the client is connected. It is replaced as a whole, at most a few times a second;
editors that watch files on disk show each state without a notification.
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

MAX_AGE = 30 * 86400
"""Seconds after its last change until a file is deleted."""

INTERVAL = 0.2
"""Seconds between two writes; more when writing takes long."""

END_GRACE = 10
"""Seconds that a server that shuts down waits for the end of its sessions, to write it to their files."""

_PAUSE_FACTOR = 10
"""The pause after a write is at least this many times as long as the write."""


def file_name(topic: str, agent_id: str) -> str:
    """The name of an agent's transcript file, from its topic and the agent's id."""
    return f"{re.sub(r'[^a-z0-9]+', '-', topic.lower()).strip('-')[:40] or 'agent'}-{agent_id[-12:]}.md"


class TranscriptFiles:
    """The transcripts that one client has opened, in a folder for each session below ``folder``. ``on_change`` is
    called after files have changed."""

    def __init__(self, folder: Path, redact: Redact, tasks: TaskGroup, on_change: Callable[[], None]) -> None:
        self._folder = folder
        self._redact = redact
        self._tasks = tasks
        self._on_change = on_change
        self._by_session: dict[str, _SessionFiles] = {}

    async def open(self, reading: Reading, agent_id: str) -> Path:
        """Write the transcript of an agent, and keep it up to date as long as its session is open here.

        Raises:
            StoreError: the file cannot be written.
        """
        if self._files_of(reading) is None:
            folder = await anyio.to_thread.run_sync(_prepare, self._folder, reading.id)
            if self._files_of(reading) is None:  # no concurrent call has created them
                self.forget(reading.id)
                files = self._by_session[reading.id] = _SessionFiles(reading, folder, self._redact, self._on_change)
                if isinstance(reading, Session):
                    self._tasks.start_soon(files.follow, reading)
        return await self._by_session[reading.id].add(agent_id)

    def _files_of(self, reading: Reading) -> "_SessionFiles | None":
        files = self._by_session.get(reading.id)
        return files if files is not None and files.reading is reading else None

    async def flush(self, reading: Reading) -> None:
        """Return when the files of a session are up to date, or cannot be written."""
        if (files := self._by_session.get(reading.id)) is not None:
            await files.write_all()

    def file_at(self, path: Path) -> "TranscriptFile | None":
        """The transcript at ``path`` (absolute, symlinks resolved)."""
        for files in self._by_session.values():
            if path.parent == files.folder:
                agents = files.agents_by_name()
                if path.name in agents:
                    return TranscriptFile(files.reading, agents[path.name], agents)
        return None

    def forget(self, session_id: str) -> None:
        """Stop updating a session's files; they stay as they are."""
        if (files := self._by_session.pop(session_id, None)) is not None:
            files.close()

    def close(self) -> None:
        for session_id in tuple(self._by_session):
            self.forget(session_id)


@dataclass(frozen=True, slots=True)
class TranscriptFile:
    """The transcript of one agent; ``agents_by_name`` maps all file names of the session to agent ids."""

    reading: Reading
    agent_id: str
    agents_by_name: Mapping[str, str]


@dataclass(slots=True)
class _OpenFile:
    path: Path
    transcript: Transcript
    written: str = ""


class _SessionFiles:
    """Updates the open transcripts of one session."""

    def __init__(self, reading: Reading, folder: Path, redact: Redact, on_change: Callable[[], None]) -> None:
        self.reading = reading
        self.folder = folder
        self._redact = redact
        self._on_change = on_change
        self._open: dict[str, _OpenFile] = {}
        self._names: dict[str, str] = {}
        """File names by agent id: a name does not change with the agent's topic."""
        self._drafts: dict[str, tuple[str, str]] = {}
        """By agent id, the id and text of the message that is being streamed."""
        self._stale = anyio.Event()
        self._closed = anyio.Event()
        self._writing = anyio.Lock()

    def agents_by_name(self) -> Mapping[str, str]:
        """The agent ids of all transcripts that can be opened, by file name."""
        return {self._name_of(node): node.info.agent_id for node in self.reading.agents()}

    async def add(self, agent_id: str) -> Path:
        """Write an agent's transcript and keep it up to date. Raises StoreError: it cannot be written."""
        file = self._open.get(agent_id)
        if file is None:
            node = next(node for node in self.reading.agents() if node.info.agent_id == agent_id)
            transcript = Transcript(self.reading, agent_id, self._name_of, self._redact)
            file = self._open[agent_id] = _OpenFile(self.folder / self._name_of(node), transcript)
        try:
            await self._write(agent_id, file)
        except OSError as error:
            raise StoreError(f"The transcript cannot be written: {error.strerror}.") from None
        return file.path

    async def follow(self, session: Session) -> None:
        """Update the files until :meth:`close` or the end of the session, the last state included."""
        subscription = session.log.subscribe()
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._update)
                tasks.start_soon(self._cancel_when_closed, tasks)
                await self._read(subscription)
                self.close()
        finally:
            with anyio.move_on_after(END_GRACE, shield=True):
                if not self._closed.is_set():  # the server shuts down, and the session will end soon
                    await self._read(subscription)
                subscription.close()
                await self.write_all()

    async def _read(self, subscription: Subscription) -> None:
        async for event in subscription:
            self._update_draft(event)
            self._stale.set()

    def close(self) -> None:
        self._closed.set()

    async def _cancel_when_closed(self, tasks: TaskGroup) -> None:
        await self._closed.wait()
        tasks.cancel_scope.cancel()

    def _update_draft(self, event: Event) -> None:
        agent_id = event.agent_id or ""
        match event.body:
            case MessageDelta(message_id, text):
                draft_id, draft = self._drafts.get(agent_id, (message_id, ""))
                self._drafts[agent_id] = message_id, draft + text if draft_id == message_id else text
            case MessageAdded(role="assistant") | TurnFinished() | AgentFinished():
                self._drafts.pop(agent_id, None)
            case _:
                pass

    async def _update(self) -> None:
        while True:
            await self._stale.wait()
            self._stale = anyio.Event()
            begun = anyio.current_time()
            await self.write_all()
            await anyio.sleep(max(INTERVAL, _PAUSE_FACTOR * (anyio.current_time() - begun)))

    async def write_all(self) -> None:
        """Write the files that are not up to date."""
        changed = False
        for agent_id, file in tuple(self._open.items()):
            try:
                changed |= await self._write(agent_id, file)
            except (OSError, StoreError) as error:
                log.warning("a transcript is not up to date: %s", error)
        if changed:
            self._on_change()

    async def _write(self, agent_id: str, file: _OpenFile) -> bool:
        """Write a file unless it is up to date; whether it was written."""
        async with self._writing:
            text = await file.transcript.text(self._drafts.get(agent_id, ("", ""))[1])
            if text == file.written:
                return False
            await anyio.to_thread.run_sync(_replace, file.path, text)
            file.written = text
            return True

    def _name_of(self, node: AgentNode) -> str:
        topic = node.info.label if node.info.parent_id else self.reading.record.title
        return self._names.setdefault(node.info.agent_id, file_name(topic, node.info.agent_id))


def _prepare(folder: Path, session_id: str) -> Path:
    """Create the folder for a session's transcripts, symlinks resolved, and delete old files of all sessions.

    Raises:
        StoreError: the folder cannot be created.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        oldest = time.time() - MAX_AGE
        for file in folder.glob("*/*.md"):
            with suppress(FileNotFoundError):  # another server uses the same folder
                if file.stat().st_mtime < oldest:
                    file.unlink()
        for other in folder.iterdir():
            with suppress(OSError):  # not empty
                if other.stat().st_mtime < oldest:
                    other.rmdir()
        own = folder / session_id
        own.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise StoreError(f"The folder for transcripts cannot be created: {error.strerror}.") from None
    return own.resolve()


def _replace(path: Path, text: str) -> None:
    """Replace a file atomically. Only the user can read it."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".tmp")
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(text.encode("utf-8", "replace"))
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
