"""The editor's files, with unsaved changes, as :class:`~deputy_agents.ports.buffers.Buffers` for agents.

The protocol does not say which files are open: each file is requested when an agent reads or changes it. Searches,
which read many files, use the saved text.
"""

import stat
from collections.abc import Sequence
from pathlib import Path

from anyio import to_thread

from deputy_agents.domain.errors import ToolError
from deputy_agents.ports.buffers import Buffer
from deputy_server.acp.client import Client
from deputy_server.rpc.endpoint import Endpoint
from deputy_server.rpc.errors import ClientError, ConnectionLost
from deputy_server.rpc.json import JsonObject, dig

TIMEOUT = 20
"""Seconds that an editor may take to send or write a file."""

MAX_BYTES = 4 * 2**20
"""Size of a file that is requested from the editor; larger ones are read from disk."""


class EditorFiles:
    """The files of one session. ``session_id`` must be set before the first read."""

    def __init__(self, endpoint: Endpoint, client: Client) -> None:
        self.session_id = ""
        self._endpoint = endpoint
        self._client = client

    async def get(self, path: Path) -> Buffer | None:
        """The file as the editor has it; ``None`` if the file on disk is to be used.

        Raises:
            ToolError: the editor does not respond.
        """
        if not self._client.reads_files:
            return None
        saved = await to_thread.run_sync(_saved, path)
        if saved is None:
            return None
        try:
            response = await self._request("fs/read_text_file", path)
        except ClientError:
            return None  # the editor cannot read this file
        text = dig(response, "content")
        if not isinstance(text, str) or "\ufffd" in text:
            return None
        # Without unsaved changes, the editor is only needed to write. It may normalize line ends: files with CR are
        # written to disk.
        writes = self._client.writes_files and saved != "" and "\r" not in saved
        return None if _plain(text) == _plain(saved) and not writes else Buffer(path, text, None)

    def reload(self, path: Path) -> None:
        """Nothing: the protocol has no such request, and editors load changed files by themselves."""

    def all(self) -> Sequence[Buffer]:
        """Nothing: the protocol does not list open files."""
        return ()

    async def check(self, path: Path, new_text: str) -> None:
        """Raises ToolError: the editor cannot write files."""
        if not self._client.writes_files:
            raise ToolError(
                f"{path.name} has unsaved changes, and the editor cannot write files. Save it, then try again."
            )

    async def apply(self, path: Path, new_text: str, *, version: int | None, label: str) -> None:
        """Raises ToolError: the editor does not write the file."""
        await self.check(path, new_text)
        try:
            await self._request("fs/write_text_file", path, content=new_text)
        except ClientError as error:
            raise ToolError(f"The editor did not write {path.name}: {error}") from None

    async def delete(self, path: Path, *, version: int | None, label: str) -> None:
        """Delete the file on disk: the protocol cannot. Raises ToolError: it has unsaved changes, or cannot be
        deleted."""
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
            return await self._endpoint.request(method, params, timeout=TIMEOUT)
        except TimeoutError:
            raise ToolError(f"The editor did not respond within {TIMEOUT} s for {path.name}. Try again.") from None
        except ConnectionLost:
            raise ToolError("The editor has disconnected.") from None


def _saved(path: Path) -> str | None:
    """The text on disk, empty if there is no file; ``None`` for files that are not requested from the editor: too
    large, or not plain UTF-8."""
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
