"""Runs Git on a repository of Deputy's own. No configuration, attribute, hook or filter of the user takes part."""

import os
import shutil
from collections.abc import AsyncIterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final

import anyio

from deputy_agents.concurrency.owned_process import run_to_end
from deputy_agents.domain.errors import DeputyError

TIMEOUT: Final = 120.0
"""Seconds that one command may take."""
_MAX_OUTPUT: Final = 256 * 1024 * 1024
_MAX_ERROR: Final = 2000

_CONFIG: Final = """[core]
\trepositoryFormatVersion = 0
\tbare = false
\tautocrlf = false
\tcompression = 1
\tfileMode = true
\tsymlinks = true
\tignoreCase = false
\tprecomposeUnicode = false
\tprotectHFS = false
\tprotectNTFS = false
\tfsmonitor = false
\tuntrackedCache = false
\tpreloadIndex = true
\tsharedRepository = 0600
\thooksPath = /dev/null
\tattributesFile = /dev/null
\texcludesFile = /dev/null
[gc]
\tauto = 0
[feature]
\texperimental = false
"""
_ATTRIBUTES: Final = "* -text -eol -crlf -ident -filter -working-tree-encoding\n"
"""Outranks every ``.gitattributes`` of the workspace: content is never converted, and no filter runs."""


class SnapshotError(DeputyError):
    """A snapshot could not be taken or read. The message says why, for the user."""


@cache
def git_binary() -> str | None:
    """The path of Git; ``None`` where it is not installed. Blocks."""
    found = shutil.which("git")
    return found if found and Path(found).is_absolute() else None


def init(folder: Path) -> None:
    """Make ``folder`` a repository, unless it is one. Blocks.

    Raises:
        OSError: it cannot be written.
    """
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name in ("", "objects", "objects/info", "objects/pack", "refs", "refs/heads", "info"):
        (folder / name).mkdir(exist_ok=True, mode=0o700)
    for name, text in {"config": _CONFIG, "info/attributes": _ATTRIBUTES, "HEAD": "ref: refs/heads/none\n"}.items():
        path = folder / name
        if not path.exists() or path.read_text("utf-8") != text:
            spare = path.with_name(f"{path.name}.{os.getpid()}.tmp")
            spare.touch(0o600)
            spare.write_text(text, "utf-8")
            spare.replace(path)


class Git:
    """Commands on the repository ``folder``, with the index ``index``, about the files beneath ``work_tree``."""

    def __init__(self, binary: str, folder: Path, work_tree: Path, index: Path) -> None:
        self._binary = binary
        self._cwd = str(folder)
        self._environ: Mapping[str, str] = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(folder),
            "LC_ALL": "C",
            "GIT_DIR": str(folder),
            "GIT_WORK_TREE": str(work_tree),
            "GIT_INDEX_FILE": str(index),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_SYSTEM": os.devnull,
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_LITERAL_PATHSPECS": "1",
            "GIT_TERMINAL_PROMPT": "0",
        }

    async def run(
        self, *arguments: str, send: bytes | AsyncIterable[bytes] = b"", allow: Sequence[int] = (0,)
    ) -> bytes:
        """The output of a command, with ``send`` as its input. ``allow`` are its exit codes that are no failure.

        Raises:
            SnapshotError: it failed, or did not end in time.
        """
        command = [self._binary, *arguments]
        limits = {"limit": _MAX_OUTPUT, "error_limit": _MAX_ERROR}
        try:
            with anyio.fail_after(TIMEOUT):
                ran = await run_to_end(command, send=send, cwd=self._cwd, env=self._environ, **limits)
        except TimeoutError:
            raise SnapshotError(f"git {arguments[0]} did not end within {TIMEOUT:g} s.") from None
        except OSError as error:
            raise SnapshotError(f"git cannot be started: {error.strerror}.") from error
        except ExceptionGroup as errors_of_streams:
            raise single(errors_of_streams) from None
        if ran.code not in allow:
            raise SnapshotError(_explained(arguments[0], ran.errors.decode(errors="replace")))
        if len(ran.output) >= _MAX_OUTPUT:
            raise SnapshotError(f"git {arguments[0]} returned too much.")
        return ran.output


def single(group: ExceptionGroup) -> SnapshotError:
    """The first SnapshotError of tasks that failed together.

    Raises:
        ExceptionGroup: there is none.
    """
    found = group.subgroup(SnapshotError)
    if found is None:
        raise group
    first: BaseException = found
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    assert isinstance(first, SnapshotError)
    return first


def _explained(command: str, errors: str) -> str:
    if "No space left on device" in errors:
        return "The disk is full."
    lines = [line for line in errors.splitlines() if line.strip()]
    reason = next((line for line in lines if line.startswith("fatal: ")), lines[-1] if lines else "it gave no reason")
    return f"git {command} failed: {reason.removeprefix('fatal: ')}"
