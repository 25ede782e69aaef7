"""The open documents of all clients of a server, for the agents of one session."""

from collections.abc import Sequence
from pathlib import Path

import anyio.to_thread

from deputy_agents.domain.errors import ToolError
from deputy_agents.files.encoding import fingerprint
from deputy_agents.ports.buffers import Buffer, Buffers
from deputy_agents.text import visible


class SharedBuffers:
    """The buffers of the client that sent the prompt are ``first``, then those of the others in order of connection. An
    edit goes to the client whose text was read, unless another client has other unsaved changes in the same file."""

    def __init__(self, clients: Sequence[Buffers], first: Buffers) -> None:
        self._clients = clients
        self.first = first

    async def get(self, path: Path) -> Buffer | None:
        return next((buffer for _, buffer in await self._at(path)), None)

    def reload(self, path: Path) -> None:
        for buffers in self._clients:
            buffers.reload(path)

    def all(self) -> list[Buffer]:
        found: dict[Path, Buffer] = {}
        for buffers in self._in_order():
            for buffer in buffers.all():
                found.setdefault(buffer.path, buffer)
        return list(found.values())

    async def check(self, path: Path, new_text: str) -> None:
        """Raises ToolError if the editor cannot write the file, or another editor has unsaved changes in it."""
        await (await self._owner(path)).check(path, new_text)

    async def apply(self, path: Path, new_text: str, *, version: int | None, label: str) -> None:
        """Raises ToolError if the document has changed, its editor rejects the edit, or another editor has unsaved
        changes in it."""
        buffers = await self._owner(path)
        await buffers.apply(path, new_text, version=version, label=label)

    async def delete(self, path: Path, *, version: int | None, label: str) -> None:
        """Raises ToolError, as :meth:`apply`."""
        buffers = await self._owner(path)
        await buffers.delete(path, version=version, label=label)

    async def _owner(self, path: Path) -> Buffers:
        """Return the buffers that edits of the file go to."""
        found = await self._at(path)
        if not found:
            return self.first
        (owner, mine), *others = found
        if any(other.text != mine.text for _, other in others):
            saved = await anyio.to_thread.run_sync(_saved, path)
            changed = (other for _, other in others if not _is_behind(other, saved))
            if any(other.text not in (mine.text, saved) for other in changed):
                name = visible(path.name)
                raise ToolError(
                    f"{name} has unsaved changes in another editor. Ask the user to save or undo them there."
                )
        return owner

    async def _at(self, path: Path) -> list[tuple[Buffers, Buffer]]:
        """Return the clients' buffers that have the file open, with its text. Those that have not loaded its changes on
        disk are the last."""
        found = [(buffers, await buffers.get(path)) for buffers in self._in_order()]
        opened = [(buffers, buffer) for buffers, buffer in found if buffer is not None]
        if any(buffer.text != opened[0][1].text for _, buffer in opened):
            saved = await anyio.to_thread.run_sync(_saved, path)
            opened.sort(key=lambda entry: _is_behind(entry[1], saved))
        return opened

    def _in_order(self) -> list[Buffers]:
        return sorted(self._clients, key=lambda buffers: buffers is not self.first)


def _is_behind(buffer: Buffer, saved: str | None) -> bool:
    return saved is not None and fingerprint(buffer.text) == buffer.saved != fingerprint(saved)


def _saved(path: Path) -> str | None:
    """Return the text on disk, decoded as an editor does when it opens the file."""
    try:
        return path.read_bytes().decode("utf-8", "replace")
    except OSError:
        return None
