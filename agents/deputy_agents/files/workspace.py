"""Confines agents to files beneath the roots. Open documents of the editor take precedence over the disk."""

import os
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from fnmatch import fnmatchcase
from functools import partial
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

from anyio import fail_after, to_thread

from deputy_agents.concurrency.keyed_lock import KeyedLock
from deputy_agents.domain.errors import OutsideRoots, ToolError
from deputy_agents.domain.settings import Root
from deputy_agents.files import disk
from deputy_agents.files.disk import Entry, FileText, Lines
from deputy_agents.files.encoding import REPLACED, as_displayed, is_exact
from deputy_agents.files.ignore import is_ignored, list_unignored
from deputy_agents.ports.buffers import Buffer, Buffers
from deputy_agents.text import visible

_T = TypeVar("_T")

_SECRET_NAMES = (
    *(".env", ".env.*", "*.env", ".envrc", "id_*"),
    *("*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.keystore", "*.kdbx", "*.tfvars", "*.tfstate", "*.tfstate.backup"),
    *(".netrc", "_netrc", ".npmrc", ".pypirc", ".pgpass", ".git-credentials", ".htpasswd"),
    *("credentials", "credentials.json", "credentials.toml", "credentials.y*ml"),
    *("secrets.json", "secrets.toml", "secrets.y*ml", "service-account*.json"),
    *("kubeconfig", "*.kubeconfig", ".vault-token", ".boto", ".s3cfg", ".terraformrc", "rclone.conf", ".dockercfg"),
    *(".my.cnf", ".gem_credentials", "application_default_credentials.json"),
)
_SECRET_FOLDERS = frozenset({".ssh", ".aws", ".azure", ".gnupg", ".kube", ".docker", "gcloud"})
_NO_SECRET = (".example", ".sample", ".template", ".dist", ".pub")

_PROTECTED_FOLDERS = frozenset(
    {
        ".git",
        ".hg",
        ".jj",
        ".svn",
        ".githooks",
        ".husky",
        ".deputy",
        ".claude",
        ".cursor",
        ".gemini",
        ".codex",
        ".agents",
    }
    | {".vscode", ".idea", ".zed", ".devcontainer", ".ssh", ".gitlab", ".circleci", ".buildkite"}
)
_PROTECTED_NAMES = frozenset(
    {".git", ".gitattributes", ".gitmodules", ".gitconfig", ".envrc", ".mcp.json", ".pre-commit-config.yaml"}
    | {"agents.md", "agents.override.md", "claude.md", "claude.local.md", "gemini.md", ".cursorrules", ".windsurfrules"}
    | {".exrc", ".vimrc", ".nvimrc", ".nvim.lua", ".lazy.lua", ".dir-locals.el", ".dir-locals-2.el"}
    | {".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".profile", ".inputrc", ".zshrc", ".zshenv"}
    | {".zprofile", ".zlogin", ".gitlab-ci.yml", ".travis.yml", "jenkinsfile", "azure-pipelines.yml"}
    | {".yarnrc", ".yarnrc.yml", ".pnpmfile.cjs", "pnpmfile.js", ".npmrc", ".pythonrc", "sitecustomize.py"}
    | {"usercustomize.py"}
)
_PROTECTED_ENDINGS = (".code-workspace",)
_PROTECTED_PATHS = ((".github", "workflows"), (".github", "actions"), (".github", "copilot-instructions.md"))
"""Parts of paths below a root, in lower case as the others."""

_KERNEL_FOLDERS = tuple(map(Path, ("/proc", "/sys", "/dev")))
"""Folders of the kernel. They contain no files of users, and some of their files contain the environment."""


class PathKind(Enum):
    """What a path was when it was resolved. Use it for messages and previews, not for safety checks."""

    FILE = "file"
    FOLDER = "folder"
    MISSING = "missing"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Place:
    """A resolved path: ``path`` is absolute, without links, and beneath ``root``.

    ``secret`` is true if the requested name or the resolved name is that of a file with secrets.
    """

    path: Path
    root: Path
    kind: PathKind
    secret: bool
    writable: bool = True
    main: bool = True
    """Whether ``root`` is the main root."""

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts of the path below the root."""
        return self.path.relative_to(self.root).parts

    @property
    def subject(self) -> str:
        """What permission rules match: the path below its root with forward slashes, or ``.`` for the root itself."""
        return "/".join(self.parts) or "."

    @property
    def whole(self) -> str:
        """What permission rules match besides the subject: the absolute path, or empty beneath the main root."""
        return "" if self.main else self.path.as_posix()

    @property
    def protected(self) -> bool:
        """Whether other programs run or obey the file, such as a Git hook."""
        *folders, name = parts = [part.lower() for part in self.parts] or [""]
        return (
            name in _PROTECTED_NAMES
            or name.endswith(_PROTECTED_ENDINGS)
            or not _PROTECTED_FOLDERS.isdisjoint(folders)
            or any(pair in _PROTECTED_PATHS for pair in pairwise(parts))
        )


def is_secret(path: Path | str) -> bool:
    """Whether a file may contain secrets, judged by its name only. Pass the path below a root."""
    *folders, name = [part.lower() for part in Path(path).parts] or [""]
    if not _SECRET_FOLDERS.isdisjoint(folders) or (folders[-1:] == [".git"] and name == "config"):
        return True  # the address of a Git remote may have a token
    return not name.endswith(_NO_SECRET) and any(fnmatchcase(name, pattern) for pattern in _SECRET_NAMES)


def digest(text: str) -> str:
    """A hash of ``text``."""
    return blake2b(text.encode(errors="surrogatepass"), digest_size=16).hexdigest()


CHANGE_TIMEOUT = 30.0
"""Seconds that a change of a file waits for another change of the same file."""

_change_locks = KeyedLock[Path]()
"""Held while a file is changed in this process, by any session."""


class Workspace:
    """Reads and writes files beneath ``roots``, of which the first is the main root, and beneath ``further`` folders.

    Create it with :meth:`open`. The constructor does not access the disk and requires roots without links: no file is
    found beneath any other root. Open documents of ``buffers`` take precedence over the disk for reads and writes.
    """

    def __init__(self, roots: Sequence[Path], buffers: Buffers | None = None, further: Sequence[Root] = ()) -> None:
        self.roots = tuple(roots)
        self.further = tuple(further)
        self.buffers = buffers

    @classmethod
    async def open(
        cls, roots: Sequence[Path], buffers: Buffers | None = None, further: Sequence[Root] = ()
    ) -> "Workspace":
        """Create a workspace whose folders are resolved once, now: no file is found in one that is replaced by a
        link."""
        return await to_thread.run_sync(
            lambda: cls(_resolve(roots), buffers, [_resolve_root(root) for root in further])
        )

    async def locate(self, path: str, cwd: Path) -> Place:
        """Resolve ``path``, relative to ``cwd``. The file need not exist.

        Raises:
            OutsideRoots: it leads out of every root, through links or otherwise.
            ToolError: it is not a valid path.
        """
        if not path or "\0" in path:
            raise ToolError("path: must not be empty or contain a null character.")
        try:
            os.fsencode(path)
        except UnicodeEncodeError:
            raise ToolError("path: contains characters that file names cannot have.") from None
        if path.startswith("~"):
            raise ToolError("path: ~ is not expanded; give a path relative to the root, or an absolute one.")
        return await to_thread.run_sync(self._resolved, path, cwd)

    async def read(self, place: Place) -> FileText | None:
        """Read the text at ``place`` as the user sees it; ``None`` if there is no file.

        Raises:
            ToolError: it is not a regular file, is binary or too large, or cannot be read.
        """
        if (buffer := await self._buffer(place)) is not None:
            return FileText(buffer.text)
        return await _run_read(partial(disk.read_text, place.root, _file_parts(place)))

    async def read_bytes(self, place: Place, limit: int) -> bytes:
        """Read the bytes of the file at ``place`` on disk.

        Raises:
            TooLarge: it has more than ``limit`` bytes.
            ToolError: it is not a regular file, or cannot be read.
        """
        return await _run_read(partial(disk.read_bytes, place.root, _file_parts(place), limit))

    async def read_lines(self, place: Place, first: int, count: int) -> Lines:
        """Read ``count`` lines of a file of any size on disk, starting at line ``first``, counted from 1.

        Raises:
            ToolError: it is not a regular file, is binary, or cannot be read.
        """
        return await _run_read(partial(disk.read_lines, place.root, _file_parts(place), first, count))

    @asynccontextmanager
    async def opened(self, place: Place) -> AsyncGenerator[int]:
        """Open the file at ``place`` on disk and provide its descriptor, for a process that reads it.

        Raises:
            ToolError: it is not a regular file, or cannot be read.
        """
        opening = disk.open_file(place.root, _file_parts(place))
        file = await to_thread.run_sync(opening.__enter__)
        try:
            yield file.fileno()
        finally:
            file.close()

    async def write(self, place: Place, text: str, *, expected: str | None, label: str) -> None:
        """Write ``text`` to the file at ``place``, whose text must be ``expected``; ``None`` means that it must not
        exist. An open document is changed through the editor, with ``label``. Other files are replaced atomically on
        disk.

        Raises:
            ToolError: the file does not have the expected text, is read-only, or cannot be written. Nothing has
                changed.
        """
        self.check_writable(place)
        async with _lock_for_change(place):
            await self._write(place, text, expected, label)

    async def check_write(self, place: Place, text: str) -> None:
        """Check, as far as possible in advance, that :meth:`write` can write ``text``.

        Raises:
            ToolError: it cannot.
        """
        self.check_writable(place)
        if self.buffers and (buffer := await self._buffer(place)):
            await self._check_open(self.buffers, place, buffer, text)
        else:
            await to_thread.run_sync(_exists_writable, place)

    async def delete(self, place: Place, *, expected: str, label: str) -> None:
        """Delete the file at ``place``, whose text must be ``expected``. An open document is deleted through the
        editor, with ``label``.

        Raises:
            ToolError: the file does not have the expected text, is read-only, or cannot be deleted.
        """
        self.check_writable(place)
        async with _lock_for_change(place):
            if self.buffers and (buffer := await self._buffer(place)):
                if buffer.text != expected:
                    raise ToolError(f"{visible(place.subject)} has changed in the editor.")
                await self.buffers.delete(place.path, version=buffer.version, label=label)
            else:
                delete = partial(disk.delete_file, place.root, _file_parts(place), expected=expected)
                await to_thread.run_sync(delete)

    def check_writable(self, place: Place) -> None:
        """Raise ToolError if ``place`` is beneath a root that agents may only read."""
        if not place.writable:
            raise ToolError(f"{visible(str(place.path))} is in a folder that agents may only read (setting `roots`).")

    async def entries(self, place: Place) -> list[Entry]:
        """List the folder at ``place`` without what ``.gitignore`` excludes, sorted by name.

        Raises:
            ToolError: the folder does not exist, or cannot be read.
        """
        return await _run_read(partial(list_unignored, place.root, place.parts))

    async def unsaved(self, folder: Place) -> dict[str, str]:
        """The open documents beneath ``folder`` whose text differs from the file on disk, by path below the folder and
        sorted by it, without what ``.gitignore`` excludes."""
        below = [b for b in self.buffers.all() if b.path.is_relative_to(folder.path)] if self.buffers else []
        return await to_thread.run_sync(_unsaved, folder, below, abandon_on_cancel=True) if below else {}

    @asynccontextmanager
    async def working_directory(self, place: Place) -> AsyncGenerator[str]:
        """Provide a working directory for a process: the folder at ``place``, even if it is renamed or replaced."""
        folder = await to_thread.run_sync(disk.open_folder, place.root, place.parts)
        with folder:
            yield folder.process_cwd

    async def has(self, place: Place) -> bool:
        """Whether ``place`` existed on disk when it was resolved, or is open in the editor."""
        return place.kind is not PathKind.MISSING or bool(self.buffers and await self.buffers.get(place.path))

    async def is_open(self, place: Place) -> bool:
        """Whether the file at ``place`` is open in the editor."""
        return self.buffers is not None and await self.buffers.get(place.path) is not None

    def shown(self, place: Place, cwd: Path) -> str:
        """The path of ``place`` as models see it: relative to ``cwd`` if it is below, else absolute."""
        return visible(str(place.path.relative_to(cwd) if place.path.is_relative_to(cwd) else place.path))

    async def _write(self, place: Place, text: str, expected: str | None, label: str) -> None:
        buffer = await self._buffer(place)
        if not self.buffers or not buffer:
            write = partial(disk.write_text, place.root, _file_parts(place), text, expected=expected)
            await to_thread.run_sync(write)
        elif buffer.text != expected:
            raise ToolError(f"{visible(place.subject)} has changed in the editor since it was read; read it again.")
        else:
            await self._check_open(self.buffers, place, buffer, text)
            await self.buffers.apply(place.path, text, version=buffer.version, label=label)

    async def _check_open(self, buffers: Buffers, place: Place, buffer: Buffer, text: str) -> None:
        if not await to_thread.run_sync(_exists_writable, place) and place.kind is PathKind.FILE:
            # If the file was moved, saving the document would create a second file.
            raise ToolError(
                f"{visible(place.subject)} is open in the editor, but was removed from disk since it was read."
            )
        if await _undecoded_text(place, buffer) is not None:
            raise ToolError(
                f"{visible(place.subject)} has unsaved changes in an editor that does not know its encoding: saving "
                f"it would lose what is shown as {REPLACED}. Reopen it with its encoding, then try again."
            )
        await buffers.check(place.path, text)

    async def _buffer(self, place: Place) -> Buffer | None:
        """The open document at ``place``, if it is the one to read and change. A document that the editor could not
        decode completely, and that has no unsaved changes, is not: then the file on disk is."""
        buffer = await self.buffers.get(place.path) if self.buffers else None
        if buffer is not None and (undecoded := await _undecoded_text(place, buffer)) is not None:
            return None if as_displayed(undecoded) == as_displayed(buffer.text) else buffer
        return buffer

    def _resolved(self, path: str, cwd: Path) -> Place:
        requested = Path(os.path.normpath(cwd / path))
        with disk.explain_os_errors(requested):
            real = Path(os.path.realpath(cwd / path))
            root = self._innermost_root(real)
            if root is None:
                raise OutsideRoots(
                    f"{visible(path)} is outside the workspace; only files beneath its roots can be used."
                )
            secret = is_secret(real.relative_to(root.path)) or is_secret(requested.name)
            return Place(real, root.path, _kind(real), secret, root.writable, root.path == self.roots[0])

    def _innermost_root(self, path: Path) -> Root | None:
        """The innermost root above ``path``. If a folder is given twice, the workspace root has precedence."""
        roots = (*(Root(root, writable=True) for root in self.roots), *self.further)
        above = [root for root in roots if path.is_relative_to(root.path) and not _is_kernel_path(path, root.path)]
        return max(above, key=lambda root: len(root.path.parts), default=None)


@asynccontextmanager
async def _lock_for_change(place: Place) -> AsyncGenerator[None]:
    """Exclude all other changes of the file at ``place`` in this process.

    Raises:
        ToolError: another change of the file did not finish in time.
    """
    async with AsyncExitStack() as lock:
        try:
            with fail_after(CHANGE_TIMEOUT):
                await lock.enter_async_context(_change_locks.hold(place.path))
        except TimeoutError:
            raise ToolError(f"{visible(place.subject)} is being changed by another agent; try again later.") from None
        yield


def _resolve_root(root: Root) -> Root:
    return Root(Path(os.path.realpath(root.path)), root.writable)


def _resolve(paths: Sequence[Path]) -> list[Path]:
    return [Path(os.path.realpath(path)) for path in paths]


def _is_kernel_path(path: Path, root: Path) -> bool:
    return any(path.is_relative_to(folder) and not root.is_relative_to(folder) for folder in _KERNEL_FOLDERS)


def _kind(path: Path) -> PathKind:
    if not os.path.lexists(path):
        return PathKind.MISSING
    if path.is_dir():
        return PathKind.FOLDER
    return PathKind.FILE if path.is_file() else PathKind.OTHER


def _exists_writable(place: Place) -> bool:
    """Whether the file exists now.

    Raises:
        ToolError: it is read-only.
    """
    try:
        found = place.path.stat()
    except OSError:
        return False
    disk.check_mode(found, place.path)
    return True


def _file_parts(place: Place) -> tuple[str, ...]:
    if not place.parts:
        raise ToolError(f"{visible(str(place.path))} is a folder; use list_dir.")
    return place.parts


async def _undecoded_text(place: Place, buffer: Buffer) -> str | None:
    """The text on disk if the editor could not decode all bytes of the file, and so could not save them again; else
    ``None``."""
    if REPLACED not in buffer.text:
        return None
    on_disk = await _run_read(partial(_text_on_disk, place.root, place.parts))
    return None if on_disk is None or is_exact(on_disk) else on_disk


def _unsaved(folder: Place, buffers: Sequence[Buffer]) -> dict[str, str]:
    depth = len(folder.parts)
    found: dict[str, str] = {}
    for buffer in sorted(buffers, key=lambda buffer: buffer.path):
        parts = buffer.path.relative_to(folder.root).parts
        if _text_on_disk(folder.root, parts) != buffer.text and not is_ignored(folder.root, parts, depth):
            found["/".join(parts[depth:])] = buffer.text
    return found


def _text_on_disk(root: Path, parts: Sequence[str]) -> str | None:
    with suppress(ToolError):
        if file := disk.read_text(root, parts):
            return file.text
    return None


async def _run_read(read: Callable[[], _T]) -> _T:
    # A read has no effect, so a cancelled read is abandoned: a dead network drive must not delay the cancellation.
    return await to_thread.run_sync(read, abandon_on_cancel=True)
