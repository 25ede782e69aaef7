"""Getting the key of a model service: from a command, from the operating system's keyring, or as it stands."""

import importlib
import subprocess
from dataclasses import replace
from typing import Protocol, cast

import anyio
import anyio.to_thread

from deputy_agents.domain.errors import ModelError, ModelErrorKind
from deputy_agents.model.endpoint import Endpoint
from deputy_agents.model.endpoint_validation import check
from deputy_agents.model.error_mapping import model_error

COMMAND_TIMEOUT = 30.0
"""Seconds that a key command may take."""

KEYRING_TIMEOUT = 120.0
"""Seconds that a keyring may take: it may ask the user to unlock it."""

SERVICE, ACCOUNT = "deputy", "api-key"


class _Keyring(Protocol):
    def get_password(self, service_name: str, username: str) -> str | None: ...


async def resolve_credential(endpoint: Endpoint) -> Endpoint:
    """``endpoint`` with the key that it says where to get: what the user has set goes before the environment.

    Raises:
        ModelError: there is none, or the endpoint cannot be used (``not_configured``), or the key cannot be sent
            (``authentication``). No error shows it.
    """
    check(endpoint)
    if endpoint.key_command:
        endpoint = replace(endpoint, key=await _printed(endpoint.key_command), token=None)
    elif endpoint.keyring:
        endpoint = replace(endpoint, key=await _kept(), token=None)
    credential = endpoint.credential
    if not credential:
        raise model_error(ModelErrorKind.NOT_CONFIGURED)
    if not (credential.isascii() and credential.isprintable()):
        raise model_error(ModelErrorKind.AUTHENTICATION, "it has characters that cannot be sent")
    return endpoint


async def _printed(command: tuple[str, ...]) -> str:
    """What the command prints. What it says on standard error is not shown: it may hold the key as well."""
    try:
        with anyio.fail_after(COMMAND_TIMEOUT):
            ran = await anyio.run_process(command, check=False, stderr=subprocess.DEVNULL)
    except TimeoutError:
        raise _no_key(f"the key command did not end within {COMMAND_TIMEOUT:g} s", _TRY_COMMAND) from None
    except (OSError, ValueError) as error:
        raise _no_key(f"the key command cannot be run: {error}", _TRY_COMMAND) from None
    if ran.returncode:
        raise _no_key(f"the key command ended with exit code {ran.returncode}", _TRY_COMMAND)
    key = ran.stdout.decode("utf-8", "replace").strip()
    if not key:
        raise _no_key("the key command printed nothing", _TRY_COMMAND)
    return key


_TRY_COMMAND = "Run the command of the setting `api.keyCommand` in a terminal: it must print the key and nothing else."
_INSTALL = "Install it beside Deputy (`pip install keyring`), or switch the setting `api.keyring` off."
_STORE = f"Store the key with `keyring set {SERVICE} {ACCOUNT}`, or switch the setting `api.keyring` off."


async def _kept() -> str:
    try:
        with anyio.fail_after(KEYRING_TIMEOUT):
            key = await anyio.to_thread.run_sync(_ask_keyring, abandon_on_cancel=True)
    except ImportError:
        raise _no_key("the package `keyring` is not installed", _INSTALL) from None
    except TimeoutError:
        raise _no_key(f"the keyring did not answer within {KEYRING_TIMEOUT:g} s", _STORE) from None
    except Exception as error:  # noqa: BLE001 - every backend has errors of its own
        raise _no_key(f"the keyring failed ({type(error).__name__})", _STORE) from None
    if not key:
        raise _no_key("the keyring holds no key", _STORE)
    return key.strip()


def _ask_keyring() -> str | None:
    # An optional package: it pulls in a desktop's worth of others.
    keyring = cast("_Keyring", importlib.import_module("keyring"))
    return keyring.get_password(SERVICE, ACCOUNT)


def _no_key(detail: str, action: str) -> ModelError:
    error = model_error(ModelErrorKind.NOT_CONFIGURED, detail)
    error.action = action
    return error
