"""Processes of Deputy that start with most modules already imported.

Importing takes longer than most tests, and the tests start hundreds of servers. These are forked from a process that
has imported the modules, and then behave as if just started: with their own pid, pipes, environment, folder and
arguments. Tests of the startup itself start processes cold.
"""

import asyncio
import contextlib
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from multiprocessing.reduction import DupFd
from pathlib import Path
from typing import TypeAlias

PRELOADED = "tests.support.preloaded"

context = multiprocessing.get_context("forkserver")
context.set_forkserver_preload([PRELOADED])


class WarmProcess:
    """A process with the part of :class:`asyncio.subprocess.Process` that tests use."""

    def __init__(self, process: "multiprocessing.context.ForkServerProcess") -> None:
        self._process = process
        self._ended = asyncio.Event()
        self.stdin: asyncio.StreamWriter | None = None
        self.stdout: asyncio.StreamReader | None = None
        self.stderr: asyncio.StreamReader | None = None
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(process.sentinel, self._reap)

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode if self._ended.is_set() else None

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    async def wait(self) -> int:
        await self._ended.wait()
        assert self._process.exitcode is not None
        return self._process.exitcode

    def _reap(self) -> None:
        self._loop.remove_reader(self._process.sentinel)
        self._process.join()
        self._ended.set()


Process: TypeAlias = "asyncio.subprocess.Process | WarmProcess"


async def started(
    arguments: Sequence[str], env: Mapping[str, str] | None = None, cwd: Path | None = None, limit: int = 2**16
) -> Process:
    """Start ``python <arguments>`` with three pipes and lines of at most ``limit`` bytes. The process is warm if it
    runs a module and needs no interpreter options but ``-P``."""
    arguments = tuple(arguments)
    if arguments[:1] == ("-m",) or arguments[:2] == ("-P", "-m"):
        return await _start_warm(arguments, env, cwd, limit)
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(
        sys.executable, *arguments, stdin=pipe, stdout=pipe, stderr=pipe, env=env, cwd=cwd, limit=limit
    )


def completed(
    arguments: Sequence[str],
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    input: bytes | None = None,
    seconds: float = 60,
) -> "subprocess.CompletedProcess[str]":
    """What ``python <arguments>`` (which runs a module, see :func:`started`) returns and prints, with a short ``input``
    or none. Like :func:`subprocess.run`, but warm.

    Raises:
        TimeoutExpired: it took longer than ``seconds``, and was ended.
    """
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        if input is None:
            given = os.open(os.devnull, os.O_RDONLY)
        else:
            given, giving = os.pipe()
            os.write(giving, input)
            os.close(giving)
        process = _warm_process(arguments, env, cwd, (given, out.fileno(), errors.fileno()))
        os.close(given)
        process.join(seconds)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired(list(arguments), seconds)
        out.seek(0)
        errors.seek(0)
        return subprocess.CompletedProcess(
            list(arguments), process.exitcode, out.read().decode(), errors.read().decode()
        )


def _warm_process(
    arguments: Sequence[str], env: Mapping[str, str] | None, cwd: Path | None, fds: Sequence[int]
) -> "multiprocessing.context.ForkServerProcess":
    process = context.Process(
        target=run,
        args=(tuple(arguments), dict(env or os.environ), os.fspath(cwd or Path.cwd()), _Pipes(fds)),
        daemon=True,  # ends with the tests
    )
    process.start()
    return process


async def _start_warm(
    arguments: Sequence[str], env: Mapping[str, str] | None, cwd: Path | None, limit: int
) -> WarmProcess:
    child_in, our_in = os.pipe()
    our_out, child_out = os.pipe()
    our_err, child_err = os.pipe()
    child_fds = (child_in, child_out, child_err)
    process = _warm_process(arguments, env, cwd, child_fds)
    for fd in child_fds:
        os.close(fd)
    warm = WarmProcess(process)
    warm.stdout, warm.stderr = [await _reader(fd, limit) for fd in (our_out, our_err)]
    warm.stdin = await _writer(our_in)
    return warm


class _Pipes:
    """File descriptors that are passed to the process."""

    def __init__(self, fds: Sequence[int]) -> None:
        self._fds = fds

    def __reduce__(self) -> tuple[object, ...]:
        return _detached, tuple(DupFd(fd) for fd in self._fds)


def _detached(*pipes: "multiprocessing.reduction.DupFd") -> tuple[int, ...]:
    return tuple(pipe.detach() for pipe in pipes)


async def _reader(fd: int, limit: int) -> asyncio.StreamReader:
    reader = asyncio.StreamReader(limit=limit)
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(fd, "rb", 0)
    )
    return reader


async def _writer(fd: int) -> asyncio.StreamWriter:
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, os.fdopen(fd, "wb", 0))
    return asyncio.StreamWriter(transport, protocol, None, loop)


def run(arguments: Sequence[str], env: Mapping[str, str], cwd: str, pipes: Iterable[int]) -> None:
    """Run a module in the new process, with ``pipes`` as its first descriptors."""
    os.environ.clear()
    os.environ.update(env)
    tempfile.tempdir = None  # look at the variables again
    os.chdir(cwd)
    for fd, pipe in enumerate(pipes):
        os.dup2(pipe, fd)
        os.close(pipe)
    sys.stdin, sys.stdout, sys.stderr = (os.fdopen(fd, mode) for fd, mode in enumerate("rww"))
    at = arguments.index("-m") + 1
    module = arguments[at]
    sys.argv = list(arguments[at:])
    if "-P" not in arguments[:at]:
        sys.path.insert(0, cwd)
    runpy.run_module(module, run_name="__main__", alter_sys=True)
