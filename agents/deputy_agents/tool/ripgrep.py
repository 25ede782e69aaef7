"""Runs ripgrep with bounded input and output; the process is always killed and reaped."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from functools import cache
from importlib import metadata
from io import BytesIO
from pathlib import Path

import anyio
from anyio import to_thread
from anyio.abc import ByteReceiveStream, Process
from anyio.lowlevel import checkpoint

from deputy_agents.concurrency.owned_process import owned_process
from deputy_agents.domain.errors import ToolError
from deputy_agents.text import cut, visible

TIMEOUT = 30.0
"""Limit of one search in seconds; the results found until then are returned."""

MAX_LISTING = 64 * 2**20

NAMES = re.compile(rb"([^\0]+)\0")
"""Records of ``--files``: a path."""

LINES = re.compile(rb'(?:[^\0]*\(found "\\0" byte around offset \d+\)\n)?([^\0]+)\0(\d+):([^\n]*)\n')
"""Records of a search: path, line number, text. A note about a binary file may precede a record."""

_MAX_RECORD = 64 * 1024
_RECORDS_AT_ONCE = 100
"""Records that are passed on before other tasks run."""
_COMMON = (
    "--no-config",
    "--no-messages",
    "--no-ignore-messages",
    "--no-require-git",
    "--hidden",
    "--null",
    "--color=never",
    "--sort=path",
    "--glob=!.git",
)


async def search(
    options: Sequence[str],
    operands: Sequence[str],
    record: re.Pattern[bytes],
    take: Callable[[re.Match[bytes]], bool],
    *,
    cwd: str,
    source: bytes | int | None,
) -> bool:
    """Run ripgrep in ``cwd`` with ``source`` (bytes or an open file) as input, and pass each ``record`` of its output
    to ``take`` until ``take`` returns false.

    Returns:
        True if ripgrep finished; false if ``take`` or the timeout stopped it.

    Raises:
        ToolError: ripgrep is missing or rejects the pattern or glob.
    """
    command = [await to_thread.run_sync(binary), *_COMMON, *options, "--", *operands]
    with anyio.move_on_after(TIMEOUT):
        async with _running(command, cwd, source) as process:
            complete = True
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_feed, process, source)
                if process.stdout is not None and not await _read_records(process.stdout, record, take):
                    complete = False
                    tasks.cancel_scope.cancel()
            if complete and await process.wait() not in (0, 1):
                raise ToolError(await _error_text(process))
            return complete
    return False


async def list_files(cwd: str) -> bytes:
    """The paths of the files below ``cwd`` in no particular order, each followed by a null byte: those that are found
    within the timeout, and at most :data:`MAX_LISTING` bytes.

    Raises:
        ToolError: ripgrep is missing.
    """
    command = [await to_thread.run_sync(binary), *_COMMON, "--sort=none", "--files"]
    listing = BytesIO()
    with anyio.move_on_after(TIMEOUT):
        async with _running(command, cwd, None) as process:
            assert process.stdout is not None
            async for chunk in process.stdout:
                listing.write(chunk)
                if listing.tell() > MAX_LISTING:
                    break
    return listing.getvalue()


def listed_paths(listing: bytes) -> Iterator[str]:
    """The paths in a listing, relative and with slashes, one after the other: other threads run in between."""
    at = 0
    while (end := listing.find(b"\0", at)) >= 0:
        yield os.fsdecode(listing[at:end]).removeprefix("./").replace(os.sep, "/")
        at = end + 1


@cache
def binary() -> str:
    """The path of ripgrep: that of the Python environment, else the one on the PATH.

    Raises:
        ToolError: ripgrep is missing.
    """
    name = "rg.exe" if os.name == "nt" else "rg"
    candidates = [Path(sysconfig.get_path("scripts"), name), Path(sys.executable).with_name(name)]
    with suppress(metadata.PackageNotFoundError):
        files = metadata.files("ripgrep") or []
        candidates += [Path(str(file.locate())) for file in files if file.name == name]
    for path in candidates:
        if os.access(path, os.X_OK):
            return str(path)
    if found := shutil.which(name):
        return found
    raise ToolError("ripgrep (rg) is missing. Install the package ripgrep next to Deputy.")


def _running(command: Sequence[str], cwd: str, source: bytes | int | None) -> AbstractAsyncContextManager[Process]:
    return owned_process(
        command,
        stdin=subprocess.PIPE if isinstance(source, bytes) else subprocess.DEVNULL if source is None else source,
        cwd=cwd,
        # Only the variables that locate the user's global ignore file.
        env={name: os.environ[name] for name in ("HOME", "XDG_CONFIG_HOME") if name in os.environ},
    )


async def _feed(process: Process, source: bytes | int | None) -> None:
    if process.stdin is not None and isinstance(source, bytes):
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            await process.stdin.send(source)
        await process.stdin.aclose()


async def _read_records(
    stream: ByteReceiveStream, record: re.Pattern[bytes], take: Callable[[re.Match[bytes]], bool]
) -> bool:
    rest = b""
    async for chunk in stream:
        rest += chunk
        end = 0
        count = 0
        while (found := record.match(rest, end)) is not None:
            end = found.end()
            if not take(found):
                return False
            count += 1
            if count % _RECORDS_AT_ONCE == 0:
                await checkpoint()
        rest = rest[end:]
        if len(rest) > _MAX_RECORD:
            return False
    return True


async def _error_text(process: Process) -> str:
    output = b""
    if process.stderr is not None:
        async for chunk in process.stderr:
            output += chunk
    text = output.decode(errors="replace").removeprefix("rg: ").strip()
    return cut("The search failed. " + "\n".join(map(visible, text.splitlines())), 1000)
