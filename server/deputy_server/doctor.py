"""``deputy doctor``: looks at each thing that Deputy needs, and says what is wrong and what to do about it."""

import asyncio
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import asdict, dataclass
from pathlib import Path

import anyio
import anyio.to_thread

from deputy_agents.domain.errors import DeputyError, InvalidRequest, ModelError
from deputy_agents.domain.message import Message, Text
from deputy_agents.domain.problem import Problem
from deputy_agents.files.paths import home_folder
from deputy_agents.guidance.workspace_settings import Written, written_in
from deputy_agents.model import card_file
from deputy_agents.model.credential import resolve_credential
from deputy_agents.model.endpoint import endpoint_of
from deputy_agents.model.factory import Models, choose_model
from deputy_agents.model.offline.model import OFFLINE
from deputy_agents.ports.model import ModelRequest
from deputy_agents.tool import ripgrep
from deputy_agents.validation_errors import Malformed, parsed, unreadable
from deputy_protocol.errors import InvalidParams
from deputy_protocol.settings import Settings
from deputy_protocol.validate import parse
from deputy_server.convert.settings import api_settings_from_wire
from deputy_server.storage import state_folder

_START = 30.0
_ONLINE = 60.0
_MIN_PYTHON = (3, 11)


@dataclass(frozen=True, slots=True)
class Check:
    """What was found of one thing: a sentence, and what to do if it is not ``ok``."""

    name: str
    ok: bool
    message: str
    action: str = ""


@dataclass(frozen=True, slots=True)
class Patient:
    """What is looked at. ``online`` allows one small request to the model, which may cost something."""

    environ: Mapping[str, str]
    settings: Settings
    online: bool = False


def read_settings(path: Path | None) -> Settings:
    """The settings in a JSON file, as an editor would send them.

    Raises:
        InvalidRequest: they cannot be used.
    """
    if path is None:
        return Settings()
    try:
        return parse(Settings, parsed(path.read_text("utf-8")))
    except (InvalidParams, Malformed) as error:
        raise InvalidRequest(f"{path}: {error}") from None
    except UnicodeDecodeError:
        raise InvalidRequest(f"{path}: it is no UTF-8 text") from None
    except OSError as error:
        raise InvalidRequest(f"{path}: {unreadable(error)}") from None


async def examine(patient: Patient) -> list[Check]:
    """All checks, in the order in which they are worth reading."""
    return [await check(patient) for check in _CHECKS]


def report(settings: Path | None, *, online: bool, as_json: bool) -> tuple[bool, str]:
    """Whether all is well, and what was found as text or JSON.

    Raises:
        InvalidRequest: the file of settings cannot be used.
    """
    found = asyncio.run(examine(Patient(os.environ, read_settings(settings), online)))
    ok = all(check.ok for check in found)
    if as_json:
        return ok, json.dumps({"ok": ok, "checks": [asdict(check) for check in found]}, indent=2)
    return ok, _told(found)


def _told(found: list[Check]) -> str:
    width = max(len(check.name) for check in found)
    lines: list[str] = []
    for check in found:
        lines.append(f"{'✓' if check.ok else '✗'} {check.name:<{width}}  {check.message}")
        if check.action:
            lines.append(f"  {'':<{width}}  → {check.action}")
    return "\n".join(lines)


# -- the checks ----------------------------------------------------------------------------------------------------


async def _python(_: Patient) -> Check:
    version = platform.python_version()
    if sys.version_info < _MIN_PYTHON:
        return Check("python", False, f"Python {version} is too old.", "Install Python 3.11 or newer.")
    return Check("python", True, f"Python {version} at {sys.executable}.")


async def _server(_: Patient) -> Check:
    params: dict[str, object] = {"capabilities": {}, "processId": None}
    sent = _framed("initialize", id=1, params=params) + _framed("shutdown", id=2) + _framed("exit")
    command = [sys.executable, "-P", "-m", "deputy_server", "serve", "--stdio"]
    action = "Run `deputy serve --stdio` in a terminal and read what it says, or install Deputy anew."
    try:
        with anyio.fail_after(_START), tempfile.TemporaryDirectory() as folder:
            ran = await anyio.run_process(command, input=sent, check=False, stderr=subprocess.DEVNULL, cwd=folder)
    except TimeoutError:
        return Check("server", False, f"The server did not answer within {_START:g} s.", action)
    except OSError as error:
        return Check("server", False, f"The server cannot be started: {error}.", action)
    if ran.returncode or b'"serverInfo"' not in ran.stdout:
        return Check("server", False, f"The server ended with exit code {ran.returncode} and no answer.", action)
    return Check("server", True, "The server starts, answers and ends.")


def _framed(method: str, **fields: object) -> bytes:
    body = json.dumps({"jsonrpc": "2.0", "method": method, **fields}).encode()
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


async def _search(_: Patient) -> Check:
    action = "Install the package `ripgrep` beside Deputy, or `rg` on your PATH."
    try:
        program = await anyio.to_thread.run_sync(ripgrep.binary)
        ran = await anyio.run_process([program, "--version"], check=True)
    except (DeputyError, OSError, subprocess.CalledProcessError) as error:
        return Check("search", False, f"ripgrep does not run: {error}", action)
    return Check("search", True, f"{ran.stdout.decode().splitlines()[0]} at {program}.")


async def _model(patient: Patient) -> Check:
    api = api_settings_from_wire(patient.settings)
    choice = choose_model(patient.settings.model, patient.environ, api)
    if choice.name == OFFLINE:
        hint = (
            "" if choice.notice is None else "Set ANTHROPIC_API_KEY, or the setting `model`, to use a language model."
        )
        return Check("model", True, "The built-in offline model is used, which works by fixed rules.", hint)
    try:
        endpoint = await resolve_credential(endpoint_of(patient.environ, api))
    except ModelError as error:
        return Check("model", False, str(error), error.action)
    if patient.online:
        return await _answer(patient, choice.name)
    return Check("model", True, f"{choice.name} at {endpoint.shown_url}, with a key; `--online` asks it for a word.")


async def _answer(patient: Patient, name: str) -> Check:
    models = Models(patient.environ, api_settings_from_wire(patient.settings))
    request = ModelRequest(name, "", (Message("user", (Text("Say hello."),)),), max_tokens=16)
    try:
        with anyio.fail_after(_ONLINE):
            async with aclosing(models(name).stream(request)) as events:
                async for _ in events:
                    pass
    except ModelError as error:
        return Check("model", False, str(error), error.action)
    except TimeoutError:
        return Check("model", False, f"{name} did not answer within {_ONLINE:g} s.", "Check the network and `baseUrl`.")
    finally:
        await models.aclose()
    return Check("model", True, f"{name} answers.")


async def _prices(patient: Patient) -> Check:
    path = patient.environ.get("DEPUTY_MODELS", "").strip()
    if not path:
        return Check("prices", True, "Prices and windows of models are those that come with Deputy.")
    if not await anyio.Path(path).is_file():
        return Check("prices", False, f"There is no file {path}.", "Correct DEPUTY_MODELS, or take it away.")
    try:
        own = await anyio.to_thread.run_sync(card_file.read, Path(path))
    except InvalidRequest as error:
        return Check("prices", False, str(error), "Correct the file that DEPUTY_MODELS names.")
    return Check("prices", True, f"{path} has cards of {len(own.cards)} models.")


async def _written(_: Patient) -> Check:
    """The settings files of the user and of this folder: while one cannot be read, everything asks."""
    problems = await anyio.to_thread.run_sync(_problems)
    if problems:
        return Check("files", False, "; ".join(map(str, problems)), "Correct the file.")
    return Check("files", True, "What is written in .deputy/settings.json, here and at home, can be read.")


def _problems() -> list[Problem]:
    home = home_folder()
    own = Written() if home is None else written_in(home, own=True)
    return list(dict.fromkeys((own + written_in(Path.cwd().resolve())).problems))


async def _store(patient: Patient) -> Check:
    folder = state_folder(patient.environ)
    try:
        await anyio.to_thread.run_sync(_write_in, folder)
    except OSError as error:
        action = "Make it a folder that you can write to, or name another one by DEPUTY_STATE."
        return Check("store", False, f"Nothing can be kept in {folder}: {error.strerror or error}.", action)
    return Check("store", True, f"The state folder can be written: {folder}.")


def _write_in(folder: Path) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder) as file:
        file.write(b"deputy")


_CHECKS: tuple[Callable[[Patient], Awaitable[Check]], ...] = (
    _python,
    _server,
    _search,
    _model,
    _prices,
    _written,
    _store,
)
