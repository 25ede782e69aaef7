"""The editor's files, unsaved text included, as the agents' :class:`~deputy_agents.ports.buffers.Buffers`.

The protocol tells nothing of what is open: each file is asked for when an agent reads or changes it. Searching, which
looks at many, sees what is saved.
"""

import stat
from collections.abc import Sequence
from pathlib import Path

from anyio import to_thread

from deputy_agents.domain.errors import ToolError
from deputy_agents.ports.buffers import Buffer
from deputy_server.acp.client import Client
from deputy_server.acp.peer import Peer
from deputy_server.rpc.errors import ClientError, ConnectionLost
from deputy_server.rpc.json import JsonObject, dig

TIMEOUT = 20
"""Seconds that an editor may take to give or to write a file."""

MAX_BYTES = 4 * 2**20
"""Of a file that is asked for; larger ones are read from disk."""


class EditorFiles:
    """``session_id`` is set as soon as the session has one: nothing is read before."""

    def __init__(self, peer: Peer, client: Client) -> None:
        self.session_id = ""
        self._peer = peer
        self._client = client

    async def get(self, path: Path) -> Buffer | None:
        """The file as the editor has it; ``None`` where the disk has the same, or all that is known of it.

        Raises:
            ToolError: the editor does not say.
        """
        if not self._client.reads_files:
            return None
        saved = await to_thread.run_sync(_saved, path)
        if saved is None:
            return None
        try:
            answer = await self._request("fs/read_text_file", path)
        except ClientError:
            return None  # it is none of the editor's
        text = dig(answer, "content")
        if not isinstance(text, str) or "\ufffd" in text:
            return None
        # Where nothing is unsaved, the editor is needed only to write; line ends, which it may have changed, it loses.
        writes = self._client.writes_files and saved != "" and "\r" not in saved
        return None if _plain(text) == _plain(saved) and not writes else Buffer(path, text, None)

    def all(self) -> Sequence[Buffer]:
        """None: nobody tells which there are."""
        return ()

    async def check(self, path: Path, new_text: str) -> None:
        """Raises ToolError when the editor writes no files."""
        if not self._client.writes_files:
            raise ToolError(
                f"{path.name} has unsaved changes, and the editor writes no files. Save it, then try again."
            )

    async def apply(self, path: Path, new_text: str, *, version: int | None, label: str) -> None:
        """Raises ToolError when the editor does not write the file."""
        await self.check(path, new_text)
        try:
            await self._request("fs/write_text_file", path, content=new_text)
        except ClientError as error:
            raise ToolError(f"The editor did not write {path.name}: {error}") from None

    async def delete(self, path: Path, *, version: int | None, label: str) -> None:
        """Raises ToolError when it has unsaved changes, or cannot be deleted. The protocol itself deletes no files."""
        buffer = await self.get(path)
        if buffer is not None and buffer.text != await to_thread.run_sync(_saved, path):
            raise ToolError(f"{path.name} has unsaved changes in the editor. Save or close it, then try again.")
        try:
            await to_thread.run_sync(path.unlink)
        except OSError as error:
            raise ToolError(f"{path.name} cannot be deleted: {error.strerror}.") from None

    async def _request(self, method: str, path: Path, **fields: object) -> object:
        params: JsonObject = {"sessionId": self.session_id, "path": str(path), **fields}
        try:
            return await self._peer.request(method, params, timeout=TIMEOUT)
        except TimeoutError:
            raise ToolError(f"The editor did not answer about {path.name} within {TIMEOUT} s; try again.") from None
        except ConnectionLost:
            raise ToolError("The editor is gone.") from None


def _saved(path: Path) -> str | None:
    """The text on disk, empty where there is no file; ``None`` for what an editor is not asked for: no plain UTF-8, or
    too much of it."""
    try:
        if not stat.S_ISREG((found := path.stat()).st_mode) or found.st_size > MAX_BYTES:
            return None
        text = path.read_bytes().decode()
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError):
        return None
    return None if "\0" in text or text.startswith("\ufeff") else text


def _plain(text: str) -> str:
    return text.replace("\r\n", "\n")
