"""``deputy doctor``: checks everything that Deputy needs, and suggests fixes."""

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
from deputy_agents.guidance.workspace_settings import WorkspaceSettings, read_workspace_settings
from deputy_agents.model import card_file
from deputy_agents.model.credential import resolve_credential
from deputy_agents.model.endpoint import endpoint_of
from deputy_agents.model.factory import Models, choose_model
from deputy_agents.model.offline.model import OFFLINE
from deputy_agents.ports.model import ModelRequest
from deputy_agents.tool import ripgrep
from deputy_agents.validation_errors import InvalidJson, describe_os_error, parse_json
from deputy_protocol.errors import InvalidParams
from deputy_protocol.settings import Settings
from deputy_protocol.validate import parse
from deputy_server.convert.settings import api_settings_from_wire
from deputy_server.icons import DONE, FAILED
from deputy_server.storage import state_folder

_START_TIMEOUT = 30.0
_MODEL_TIMEOUT = 60.0
_MIN_PYTHON = (3, 11)


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of a check. ``action`` is what to do if it is not ``ok``."""

    name: str
    ok: bool
    message: str
    action: str = ""


@dataclass(frozen=True, slots=True)
class CheckContext:
    """The environment and settings to check. ``online`` allows one short request to the model, which may cost
    something."""

    environ: Mapping[str, str]
    settings: Settings
    online: bool = False


def read_settings(path: Path | None) -> Settings:
    """Read settings from a JSON file in the format that editors send.

    Raises:
        InvalidRequest: the file cannot be read, or a setting is invalid.
    """
    if path is None:
        return Settings()
    try:
        return parse(Settings, parse_json(path.read_text("utf-8")))
    except (InvalidParams, InvalidJson) as error:
        raise InvalidRequest(f"{path}: {error}") from None
    except UnicodeDecodeError:
        raise InvalidRequest(f"{path}: not valid UTF-8") from None
    except OSError as error:
        raise InvalidRequest(f"{path}: {describe_os_error(error)}") from None


async def run_checks(context: CheckContext) -> list[CheckResult]:
    """Run all checks. Earlier results explain later ones."""
    return [await check(context) for check in CHECKS]


def report(settings: Path | None, *, online: bool, as_json: bool) -> tuple[bool, str]:
    """Run all checks. Return whether all passed, and the results as text or JSON.

    Raises:
        InvalidRequest: the settings file cannot be used.
    """
    results = asyncio.run(run_checks(CheckContext(os.environ, read_settings(settings), online)))
    ok = all(result.ok for result in results)
    if as_json:
        return ok, json.dumps({"ok": ok, "checks": [asdict(result) for result in results]}, indent=2)
    return ok, _as_text(results)


def _as_text(results: list[CheckResult]) -> str:
    width = max(len(result.name) for result in results)
    lines: list[str] = []
    for result in results:
        lines.append(f"{DONE if result.ok else FAILED} {result.name:<{width}}  {result.message}")
        if result.action:
            lines.append(f"  {'':<{width}}  → {result.action}")
    return "\n".join(lines)


# -- the checks ----------------------------------------------------------------------------------------------------


async def _check_python(_: CheckContext) -> CheckResult:
    version = platform.python_version()
    if sys.version_info < _MIN_PYTHON:
        return CheckResult("python", False, f"Python {version} is too old.", "Install Python 3.11 or newer.")
    return CheckResult("python", True, f"Python {version} at {sys.executable}.")


async def check_server(_: CheckContext) -> CheckResult:
    params: dict[str, object] = {"capabilities": {}, "processId": None}
    messages = _framed("initialize", id=1, params=params) + _framed("shutdown", id=2) + _framed("exit")
    command = [sys.executable, "-P", "-m", "deputy_server", "serve", "--stdio"]
    action = "Run `deputy serve --stdio` in a terminal to see the error, or reinstall Deputy."
    try:
        with anyio.fail_after(_START_TIMEOUT), tempfile.TemporaryDirectory() as folder:
            ran = await anyio.run_process(command, input=messages, check=False, stderr=subprocess.DEVNULL, cwd=folder)
    except TimeoutError:
        return CheckResult("server", False, f"The server did not respond within {_START_TIMEOUT:g} s.", action)
    except OSError as error:
        return CheckResult("server", False, f"The server cannot be started: {error}.", action)
    if ran.returncode or b'"serverInfo"' not in ran.stdout:
        message = f"The server exited with code {ran.returncode} and did not respond."
        return CheckResult("server", False, message, action)
    return CheckResult("server", True, "The server starts, responds and shuts down.")


def _framed(method: str, **fields: object) -> bytes:
    body = json.dumps({"jsonrpc": "2.0", "method": method, **fields}).encode()
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


async def _check_search(_: CheckContext) -> CheckResult:
    action = "Install the Python package `ripgrep` next to Deputy, or `rg` on your PATH."
    try:
        program = await anyio.to_thread.run_sync(ripgrep.binary)
        ran = await anyio.run_process([program, "--version"], check=True)
    except (DeputyError, OSError, subprocess.CalledProcessError) as error:
        return CheckResult("search", False, f"ripgrep does not run: {error}", action)
    return CheckResult("search", True, f"{ran.stdout.decode().splitlines()[0]} at {program}.")


async def _check_model(context: CheckContext) -> CheckResult:
    api = api_settings_from_wire(context.settings)
    choice = choose_model(context.settings.model, context.environ, api)
    if choice.name == OFFLINE:
        hint = (
            "" if choice.notice is None else "Set ANTHROPIC_API_KEY, or the setting `model`, to use a language model."
        )
        return CheckResult("model", True, "Using the built-in offline model, which follows fixed rules.", hint)
    try:
        endpoint = await resolve_credential(endpoint_of(context.environ, api))
    except ModelError as error:
        return CheckResult("model", False, str(error), error.action)
    if context.online:
        return await _check_online(context, choice.name)
    message = f"{choice.name} at {endpoint.shown_url}, with a key. Use --online to send a test request."
    return CheckResult("model", True, message)


async def _check_online(context: CheckContext, name: str) -> CheckResult:
    models = Models(context.environ, api_settings_from_wire(context.settings))
    request = ModelRequest(name, "", (Message("user", (Text("Say hello."),)),), max_tokens=16)
    try:
        with anyio.fail_after(_MODEL_TIMEOUT):
            async with aclosing(models(name).stream(request)) as events:
                async for _ in events:
                    pass
    except ModelError as error:
        return CheckResult("model", False, str(error), error.action)
    except TimeoutError:
        message = f"{name} did not respond within {_MODEL_TIMEOUT:g} s."
        return CheckResult("model", False, message, "Check the network and the setting `baseUrl`.")
    finally:
        await models.aclose()
    return CheckResult("model", True, f"{name} responds.")


async def _check_prices(context: CheckContext) -> CheckResult:
    path = context.environ.get("DEPUTY_MODELS", "").strip()
    if not path:
        return CheckResult("prices", True, "Using the built-in prices and context windows of models.")
    if not await anyio.Path(path).is_file():
        return CheckResult("prices", False, f"The file {path} does not exist.", "Correct or unset DEPUTY_MODELS.")
    try:
        own = await anyio.to_thread.run_sync(card_file.read, Path(path))
    except InvalidRequest as error:
        return CheckResult("prices", False, str(error), "Correct the file that DEPUTY_MODELS names.")
    return CheckResult("prices", True, f"{path} describes {len(own.cards)} models.")


async def _check_settings_files(_: CheckContext) -> CheckResult:
    """The settings files in the home folder and in this folder. If one is invalid, everything needs approval."""
    problems = await anyio.to_thread.run_sync(_settings_problems)
    if problems:
        return CheckResult("files", False, "; ".join(map(str, problems)), "Correct the file.")
    return CheckResult("files", True, "The settings files in this folder and in your home folder are valid.")


def _settings_problems() -> list[Problem]:
    home = home_folder()
    own = WorkspaceSettings() if home is None else read_workspace_settings(home, from_home=True)
    return list(dict.fromkeys((own + read_workspace_settings(Path.cwd().resolve())).problems))


async def _check_store(context: CheckContext) -> CheckResult:
    folder = state_folder(context.environ)
    try:
        await anyio.to_thread.run_sync(_write_test_file, folder)
    except OSError as error:
        action = "Make the folder writable, or set DEPUTY_STATE to another folder."
        return CheckResult("store", False, f"Cannot write to {folder}: {error.strerror or error}.", action)
    return CheckResult("store", True, f"Sessions are stored in {folder}.")


def _write_test_file(folder: Path) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder) as file:
        file.write(b"deputy")


CHECKS: tuple[Callable[[CheckContext], Awaitable[CheckResult]], ...] = (
    _check_python,
    check_server,
    _check_search,
    _check_model,
    _check_prices,
    _check_settings_files,
    _check_store,
)
