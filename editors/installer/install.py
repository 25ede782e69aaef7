"""Installs Deputy's server into a folder of its own. Editors start this program with the first Python that they find.

    install.py --into FOLDER --requirements FILE --package PATH [--uv COMMAND]

The packages of ``--requirements`` are pinned by hash, so what is installed is what was tested. ``--package`` is Deputy
itself: a wheel, or its sources, which are then used in place. With ``--uv`` that command makes the environment and
installs, otherwise ``venv`` and ``pip`` of this Python do.

Writes one JSON object per line to standard output:

    {"step": 1, "of": 4, "text": "…"}       a step begins
    {"line": "…"}                           output of a step, for a log
    {"failed": "offline", "message": "…"}   the end: the cause, and what to do; nothing of the installation is left
    {"ready": "0.1.0"}                      the end: the version of the server

The end of standard input cancels: everything that was started ends, and the folder is removed. ``install.json`` in the
folder states what is installed there; it is ``ready`` only after the last step.

It uses the standard library alone, because nothing is installed yet.
"""

import argparse
import fcntl
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

STEP_TIMEOUT = 15 * 60
"""Seconds that a step may take."""
STATE = "install.json"
KEPT_LINES = 60
"""Lines of a failed step in which its cause is searched."""

FOREIGN = ("VIRTUAL_ENV", "PYTHONHOME", "PYTHONPATH", "PIP_PREFIX", "PIP_REQUIRE_VIRTUALENV", "PIP_TARGET", "PIP_USER")
"""Variables that lead Python, pip or uv out of the environment that is made."""


class Cause(NamedTuple):
    name: str
    pattern: str
    message: str


CAUSES = (
    Cause(
        "certificate",
        r"CERTIFICATE_VERIFY_FAILED|invalid peer certificate|self[- ]signed certificate",
        "The certificate of the package index is not trusted. Set SSL_CERT_FILE to your certificates, then try again.",
    ),
    Cause(
        "hash",
        r"DO NOT MATCH THE HASHES|Hash mismatch",
        "A package differs from the one that Deputy was tested with. Nothing was installed. Check your package index.",
    ),
    Cause("disk", r"No space left on device|os error 28", "The disk is full. Free some space, then try again."),
    Cause(
        "venv",
        r"ensurepip is not available|No module named '?(venv|ensurepip)",
        "This Python cannot make environments. On Debian and Ubuntu, install the package python3-venv. Or use uv.",
    ),
    Cause("denied", r"Permission denied|os error 13", "A file cannot be written, because permission is denied."),
    Cause(
        "offline",
        r"name resolution|Name or service not known|nodename nor servname|dns error|unreachable|No route to host|"
        r"[Cc]onnection refused|NewConnectionError|error sending request|Failed to fetch|[Tt]imed out|[Tt]unnel|"
        r"ProxyError",
        "The package index cannot be reached. Check your network connection and proxy, then try again.",
    ),
    Cause(
        "missing",
        r"No matching distribution|not found in the package registry|no version of|has no wheels",
        "The package index does not have every package that Deputy needs, for this Python and system.",
    ),
)
"""What the output of a failed step means. The first match counts."""


class Failed(Exception):
    """The installation cannot continue."""

    def __init__(self, cause: str, message: str) -> None:
        super().__init__(message)
        self.cause = cause


class Cancelled(Exception):
    """Standard input has ended."""


class Step(NamedTuple):
    text: str
    command: list[str]


def steps(into: Path, requirements: Path, package: Path, uv: str | None) -> list[Step]:
    """The commands that make the server, in order. The last one prints its version."""
    python = str(into / "bin" / "python")
    if uv:
        make = [uv, "venv", "--quiet", "--allow-existing", "--python", sys.executable, str(into)]
        # Compiled now, so that the first start does not have to.
        install = [uv, "pip", "install", "--no-progress", "--compile-bytecode", "--python", python]
    else:
        make = [sys.executable, "-I", "-m", "venv", str(into)]
        install = [python, "-I", "-m", "pip", "install", "--no-input", "--progress-bar", "off"]
        install += ["--disable-pip-version-check"]
    itself = ["--editable", str(package)] if package.is_dir() else [str(package)]
    return [
        Step("Create a Python environment", make),
        Step("Download and install the packages", [*install, "--require-hashes", "-r", str(requirements)]),
        # What builds the sources is among the packages: nothing else is downloaded.
        Step("Install Deputy", [*install, "--no-deps", "--no-build-isolation", *itself]),
        Step("Check the server", [str(into / "bin" / "deputy"), "--version"]),
    ]


def identity(requirements: Path, package: Path) -> dict[str, str]:
    """What is installed: an editor compares it with what belongs to its version."""
    itself = str(package) if package.is_dir() else _digest(package)
    return {"requirements": _digest(requirements), "package": itself}


class Installation:
    def __init__(self, into: Path) -> None:
        self._into = into
        self._guard = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._cancelled = False

    def run(self, todo: list[Step], what: dict[str, str]) -> str:
        """The version of the server, once all steps are done.

        Raises:
            Failed: a step failed.
            Cancelled: `cancel` was called.
        """
        self._clear()
        version = ""
        for number, step in enumerate(todo, start=1):
            emit(step=number, of=len(todo), text=step.text)
            version = self._perform(step)
        version = version.split()[-1] if version else ""
        self._state(state="ready", version=version, **what)
        return version

    def cancel(self) -> None:
        """Ends the running step; no other one begins."""
        with self._guard:
            self._cancelled = True
            _end(self._process)

    def remove(self) -> None:
        shutil.rmtree(self._into, ignore_errors=True)

    def _clear(self) -> None:
        """Removes an earlier installation, and nothing else."""
        if self._into.exists() and any(self._into.iterdir()) and not (self._into / STATE).exists():
            raise Failed("occupied", f"{self._into} has other files. Move them away, then try again.")
        self.remove()
        self._into.mkdir(parents=True)
        self._state(state="installing")

    def _state(self, **state: str) -> None:
        (self._into / STATE).write_text(json.dumps(state), "utf-8")

    def _perform(self, step: Step) -> str:
        """The last line of the step's output."""
        environment = {name: value for name, value in os.environ.items() if name not in FOREIGN}
        lines: deque[str] = deque(maxlen=KEPT_LINES)
        with self._guard:
            if self._cancelled:
                raise Cancelled
            self._process = process = subprocess.Popen(
                step.command,
                cwd=self._into,  # not the user's project, which could configure pip and uv
                env=environment | {"PYTHONUNBUFFERED": "1"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                start_new_session=True,
            )
        timer = threading.Timer(STEP_TIMEOUT, _end, [process])
        timer.daemon = True
        timer.start()
        assert process.stdout is not None
        with process.stdout:
            for line in process.stdout:
                lines.append(line.rstrip())
                emit(line=lines[-1])
        code = process.wait()
        is_late = not timer.is_alive()
        timer.cancel()
        if self._cancelled:
            raise Cancelled
        if is_late:
            raise Failed("slow", f"{step.text}: this takes longer than {STEP_TIMEOUT // 60} minutes. Try again later.")
        if code:
            raise cause_of(step, list(lines))
        return next((line for line in reversed(lines) if line), "")


def cause_of(step: Step, lines: list[str]) -> Failed:
    """What the output of a failed step means for the user."""
    text = "\n".join(lines)
    for name, pattern, message in CAUSES:
        if re.search(pattern, text):
            return Failed(name, message)
    last = next((line for line in reversed(lines) if line.strip()), "no output")
    return Failed("other", f"{step.text}: this failed. {last.strip()}")


def emit(**message: object) -> None:
    with suppress(BrokenPipeError):  # the editor has ended, which also ends standard input
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()


def _end(process: subprocess.Popen[str] | None) -> None:
    if process and process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _cancel_at_end_of_input(installation: Installation) -> None:
    while os.read(0, 4096):  # not through sys.stdin, whose lock would be held when this process exits
        pass
    installation.cancel()


def install(into: Path, requirements: Path, package: Path, uv: str | None) -> int:
    """Exit status: 0 if the server is ready."""
    into.parent.mkdir(parents=True, exist_ok=True)
    installation = Installation(into)
    with into.with_name(f"{into.name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # released when this process ends, however it ends
        except OSError:
            emit(failed="busy", message="Another window installs the server. Wait until it has finished.")
            return 1
        threading.Thread(target=_cancel_at_end_of_input, args=[installation], daemon=True).start()
        try:
            version = installation.run(steps(into, requirements, package, uv), identity(requirements, package))
        except Failed as failure:
            if failure.cause != "occupied":
                installation.remove()
            emit(failed=failure.cause, message=str(failure))
            return 1
        except OSError as error:
            installation.remove()
            emit(failed="other", message=f"{error.filename or into}: {error.strerror}")
            return 1
        except Cancelled:
            installation.remove()
            emit(failed="cancelled", message="The installation was cancelled.")
            return 1
        emit(ready=version)
        return 0


def main() -> int:
    parser = argparse.ArgumentParser(description="Install Deputy's server into a folder.")
    parser.add_argument("--into", type=Path, required=True)
    parser.add_argument("--requirements", type=Path, required=True)
    parser.add_argument("--package", type=Path, required=True)
    parser.add_argument("--uv")
    given = parser.parse_args()
    return install(given.into.absolute(), given.requirements.resolve(), given.package.resolve(), given.uv)


if __name__ == "__main__":
    sys.exit(main())
