"""The folders in which the sessions of one client work.

A client without workspace folders, such as one with a single file, gives agents no files unasked: not those in the
working directory of the server, which the user has not chosen, and those beside an open file only if the user agrees.
"""

from pathlib import Path

import anyio
import anyio.to_thread
from lsprotocol import types

from deputy_agents.files.paths import home_folder
from deputy_agents.text import visible
from deputy_server.convert.uris import local_path
from deputy_server.lsp.client import local_paths
from deputy_server.lsp.documents import Documents
from deputy_server.lsp.protocol import RpcProtocol
from deputy_server.rpc.errors import ClientError, ConnectionLost
from deputy_server.rpc.json import dig

NOTICE = (
    "No workspace folder is open, so agents have no files and run no commands. "
    "To work on files, open a folder and start a new session."
)
USE, CONTINUE = "Use this folder", "Continue without files"

_EMPTY = "no-workspace"
"""Name of the working folder of sessions without a workspace, below the state folder."""


class SessionFolders:
    """Chooses the folders of sessions. ``state`` is the state folder."""

    def __init__(self, protocol: RpcProtocol, documents: Documents, state: Path) -> None:
        self.moving = anyio.Lock()
        """Held while changed workspace folders are applied to sessions; later prompts wait for it."""
        self.latest: dict[Path, str] = {}
        """The id of the client's latest session in each folder."""
        self._protocol = protocol
        self._documents = documents
        self._empty = state / _EMPTY
        self._answers: dict[Path, bool] = {}
        """Whether agents may work in a folder about which the user was asked."""
        self._asking = anyio.Lock()

    async def roots(self) -> tuple[Path, ...]:
        """The existing workspace folders, symlinks resolved."""
        return await anyio.to_thread.run_sync(local_paths, [folder.uri for folder in self._documents.folders.values()])

    async def roots_of(self, cwd: Path) -> tuple[Path, ...]:
        """The roots of a session in ``cwd``. A folder outside the workspace is its only root. A session without a
        workspace has none."""
        roots = await self.roots()
        if any(cwd.is_relative_to(root) for root in roots):
            return roots
        return () if cwd == self._empty else (cwd,)

    async def near(self, uri: str | None) -> Path:
        """The folder for a new session: the workspace folder with the file ``uri``, else the first one.

        Without workspace folders, the user is asked about the folder of that file, or of the file that was opened last.
        Unless the user agrees, it is an empty folder, in which agents have no files.
        """
        path = await anyio.to_thread.run_sync(local_path, uri) if uri else None
        if roots := await self.roots():
            return next((root for root in roots if path is not None and path.is_relative_to(root)), roots[0])
        path = path or next((opened for opened, _ in reversed([*self._documents.files()])), None)
        if path is not None and await self._is_accepted(path.parent):
            return path.parent
        await anyio.Path(self._empty).mkdir(mode=0o700, parents=True, exist_ok=True)
        return self._empty

    async def _is_accepted(self, folder: Path) -> bool:
        """Whether the user lets agents work in ``folder``: asked once. No answer and an error are not consent."""
        async with self._asking:
            if folder not in self._answers:
                self._answers[folder] = await self._ask(folder)
            return self._answers[folder]

    async def _ask(self, folder: Path) -> bool:
        home = " This is your home folder." if folder == home_folder() else ""
        message = f"No workspace folder is open. Let agents work on the files in {visible(str(folder))}?{home}"
        # Declining comes first: some editors choose the first action on Enter.
        actions = [{"title": CONTINUE}, {"title": USE}]
        params = {"type": types.MessageType.Warning.value, "message": message, "actions": actions}
        try:
            answer = await self._protocol.request(types.WINDOW_SHOW_MESSAGE_REQUEST, params, timeout=None)
        except (ClientError, ConnectionLost):
            return False
        return dig(answer, "title") == USE
