"""``deputy doctor``: checks everything that Deputy needs, and suggests fixes."""

import asyncio
import json
import os
import platform
import sys
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import asdict, dataclass
from pathlib import Path

import anyio
import anyio.to_thread

from deputy_agents.concurrency.owned_process import run_to_end
from deputy_agents.domain.errors import DeputyError, InvalidRequest, ModelError
from deputy_agents.domain.message import Message, Text
from deputy_agents.files.paths import home_folder
from deputy_agents.model import card_file
from deputy_agents.model.credential import resolve_credential
from deputy_agents.model.endpoint import endpoint_of
from deputy_agents.model.factory import Models, choose_model
from deputy_agents.model.offline.model import OFFLINE
from deputy_agents.model.providers import PROVIDERS, provider_of
from deputy_agents.model.service import with_names
from deputy_agents.ports.model import ModelRequest
from deputy_agents.tool import ripgrep
from deputy_agents.validation_errors import InvalidJson, describe_os_error, parse_json
from deputy_protocol.errors import InvalidParams
from deputy_protocol.settings import Isolation, Settings
from deputy_protocol.validate import parse
from deputy_server import doctor_commands
from deputy_server.convert.settings import api_settings_from_wire
from deputy_server.doctor_store import check_store
from deputy_server.icons import DONE, FAILED
from deputy_server.setting_names import unknown_in_file
from deputy_server.settings_files import Scope, UserDefaults, file_problems

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
        InvalidRequest: the file cannot be read, a setting is invalid, or a name is none of a setting.
    """
    if path is None:
        return Settings()
    try:
        text = path.read_text("utf-8")
        values = parse_json(text)
        settings = parse(Settings, values)
        if unknown := unknown_in_file(str(path), text, values):
            raise InvalidRequest("\n".join(unknown))
        return settings
    except (InvalidParams, InvalidJson) as error:
        raise InvalidRequest(f"{path}: {error}") from None
    except UnicodeDecodeError:
        raise InvalidRequest(f"{path}: not valid UTF-8") from None
    except OSError as error:
        raise InvalidRequest(f"{path}: {describe_os_error(error)}") from None


async def run_checks(context: CheckContext) -> list[CheckResult]:
    """Run all checks. Earlier results explain later ones."""
    results: list[CheckResult] = []
    for check in CHECKS:
        found = await check(context)
        results += [found] if isinstance(found, CheckResult) else found
    return results


def report(settings: Path | None, *, online: bool, as_json: bool) -> tuple[bool, str]:
    """Run all checks. Return whether all passed, and the results as text or JSON.

    Raises:
        InvalidRequest: the settings file cannot be used.
    """
    applied = UserDefaults().below(read_settings(settings))
    results = asyncio.run(run_checks(CheckContext(os.environ, applied, online)))
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
            ran = await run_to_end(command, send=messages, cwd=folder)
    except TimeoutError:
        return CheckResult("server", False, f"The server did not respond within {_START_TIMEOUT:g} s.", action)
    except OSError as error:
        return CheckResult("server", False, f"The server cannot be started: {error}.", action)
    if ran.code or b'"serverInfo"' not in ran.output:
        message = f"The server exited with code {ran.code} and did not respond."
        return CheckResult("server", False, message, action)
    return CheckResult("server", True, "The server starts, responds and shuts down.")


def _framed(method: str, **fields: object) -> bytes:
    body = json.dumps({"jsonrpc": "2.0", "method": method, **fields}).encode()
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


async def _check_search(_: CheckContext) -> CheckResult:
    action = "Install the Python package `ripgrep` next to Deputy, or `rg` on your PATH."
    try:
        program = await anyio.to_thread.run_sync(ripgrep.binary)
        ran = await run_to_end([program, "--version"])
    except (DeputyError, OSError) as error:
        return CheckResult("search", False, f"ripgrep does not run: {error}", action)
    if ran.code:
        return CheckResult("search", False, f"ripgrep does not run: exit code {ran.code}", action)
    return CheckResult("search", True, f"{ran.output.decode().splitlines()[0]} at {program}.")


async def _check_model(context: CheckContext) -> CheckResult:
    api = api_settings_from_wire(context.settings)
    choice = choose_model(context.settings.model, context.environ, api)
    endpoint = endpoint_of(context.environ, api)
    if choice.name == OFFLINE:
        message = "Using the built-in offline model, which follows fixed rules."
        if choice.notice is None:
            return CheckResult("model", True, message)
        if endpoint.is_chosen:
            message += f" No key is set for {endpoint.shown_url}."
        hint = "Set ANTHROPIC_API_KEY, or the setting `model`, to use a language model."
        return CheckResult("model", True, message, hint)
    provider, _ = provider_of(choice.name)
    endpoint = provider.endpoint(context.environ, api)
    models = Models(context.environ)
    try:
        endpoint = await resolve_credential(endpoint)
        if provider is not PROVIDERS[0]:
            await models.client(provider, api).check()
    except ModelError as error:
        return CheckResult("model", False, str(error), with_names(error, endpoint).action)
    finally:
        await models.aclose()
    if context.online:
        return await _check_online(context, choice.name)
    key = "with a key" if endpoint.credential else "without a key"
    if endpoint.signs and not endpoint.credential:
        key = "with the credentials of your login there"
    facts = "".join(f", {name} {value}" for name, value in endpoint.options if not name.endswith(("_key", "_token")))
    message = f"{choice.name} of {provider.name} at {endpoint.shown_url}{facts}, {key}. "
    return CheckResult("model", True, message + "Use --online to send a test request.")


async def _check_online(context: CheckContext, name: str) -> CheckResult:
    models = Models(context.environ)
    model = models.of(api_settings_from_wire(context.settings))
    request = ModelRequest(name, "", (Message("user", (Text("Say hello."),)),), max_tokens=16)
    try:
        with anyio.fail_after(_MODEL_TIMEOUT):
            async with aclosing(model(name).stream(request)) as events:
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
        return CheckResult("files", False, "; ".join(problems), "Correct the file.")
    return CheckResult("files", True, "The settings files in this folder and in your home folder are valid.")


def _settings_problems() -> list[str]:
    scopes = Scope if home_folder() is not None else [Scope.PROJECT]
    return list(dict.fromkeys(problem for scope in scopes for problem in file_problems(scope)))


async def _check_store(context: CheckContext) -> list[CheckResult]:
    message, findings = await anyio.to_thread.run_sync(check_store, context.environ)
    results = [CheckResult("store", not one.serious, one.message, one.action) for one in findings]
    return [CheckResult("store", True, message), *results] if message else results


async def _check_commands(context: CheckContext) -> CheckResult:
    found = await doctor_commands.check_isolation(wanted=context.settings.shell.isolation is Isolation.AUTO)
    return CheckResult("commands", found.ok, found.message, found.action)


async def _check_sandbox(context: CheckContext) -> CheckResult:
    shell = context.settings.shell
    found = await doctor_commands.check_sandbox(wanted=shell.sandbox, auto_approved=shell.auto_approve_sandboxed)
    return CheckResult("sandbox", found.ok, found.message, found.action)


CHECKS: tuple[Callable[[CheckContext], Awaitable[CheckResult | list[CheckResult]]], ...] = (
    _check_python,
    check_server,
    _check_search,
    _check_model,
    _check_prices,
    _check_settings_files,
    _check_store,
    _check_commands,
    _check_sandbox,
)
