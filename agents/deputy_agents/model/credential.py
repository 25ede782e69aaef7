"""The key of a model service: from a command, the operating system's keyring, or the endpoint itself."""

import importlib
from dataclasses import replace
from typing import Protocol, cast

import anyio
import anyio.to_thread

from deputy_agents.concurrency.owned_process import run_to_end
from deputy_agents.domain.errors import ModelError, ModelErrorKind
from deputy_agents.model.endpoint import Endpoint
from deputy_agents.model.endpoint_validation import validate_endpoint
from deputy_agents.model.error_mapping import model_error

COMMAND_TIMEOUT = 30.0
"""Time limit of a key command in seconds."""

KEYRING_TIMEOUT = 120.0
"""Time limit of the keyring in seconds; it may ask the user to unlock it."""

SERVICE, ACCOUNT = "deputy", "api-key"


class _Keyring(Protocol):
    def get_password(self, service_name: str, username: str) -> str | None: ...


async def resolve_credential(endpoint: Endpoint) -> Endpoint:
    """Returns ``endpoint`` with its key. A key command or keyring in the settings precedes the environment. A service
    on this machine is used without a key if none is configured.

    Raises:
        ModelError: there is no key or the endpoint is invalid (``not_configured``), or the key contains characters that
            cannot be sent (``authentication``). No message contains the key.
    """
    validate_endpoint(endpoint)
    if endpoint.key_command:
        endpoint = replace(endpoint, key=await _key_from_command(endpoint.key_command), token=None)
    elif endpoint.keyring:
        endpoint = replace(endpoint, key=await _key_from_keyring(), token=None)
    credential = endpoint.credential
    if not credential and endpoint.signs:
        return endpoint
    if not credential:
        if endpoint.is_loopback:  # a server on this machine may need none
            return endpoint
        raise model_error(ModelErrorKind.NOT_CONFIGURED, f"{endpoint.shown_url} needs one")
    if not (credential.isascii() and credential.isprintable()):
        raise model_error(ModelErrorKind.AUTHENTICATION, "it contains characters that cannot be sent")
    return endpoint


async def _key_from_command(command: tuple[str, ...]) -> str:
    """The output of ``command``. Its standard error is discarded, because it may contain the key."""
    try:
        with anyio.fail_after(COMMAND_TIMEOUT):
            ran = await run_to_end(command)
    except TimeoutError:
        raise _no_key(f"the key command did not finish within {COMMAND_TIMEOUT:g} s", _TRY_COMMAND) from None
    except (OSError, ValueError) as error:
        raise _no_key(f"the key command cannot be started: {error}", _TRY_COMMAND) from None
    if ran.code:
        raise _no_key(f"the key command failed with exit code {ran.code}", _TRY_COMMAND)
    key = ran.output.decode("utf-8", "replace").strip()
    if not key:
        raise _no_key("the key command printed nothing", _TRY_COMMAND)
    return key


_TRY_COMMAND = "Run the command in the setting `api.keyCommand` in a terminal. It must print the key and nothing else."
_INSTALL = "Install it in Deputy's environment (`pip install keyring`), or turn off the setting `api.keyring`."
_STORE = f"Store the key with `keyring set {SERVICE} {ACCOUNT}`, or turn off the setting `api.keyring`."


async def _key_from_keyring() -> str:
    try:
        with anyio.fail_after(KEYRING_TIMEOUT):
            key = await anyio.to_thread.run_sync(_read_keyring, abandon_on_cancel=True)
    except ImportError:
        raise _no_key("the package `keyring` is not installed", _INSTALL) from None
    except TimeoutError:
        raise _no_key(f"the keyring did not respond within {KEYRING_TIMEOUT:g} s", _STORE) from None
    except Exception as error:  # noqa: BLE001 - each backend raises its own errors
        raise _no_key(f"the keyring failed ({type(error).__name__})", _STORE) from None
    if not key:
        raise _no_key("the keyring has no key", _STORE)
    return key.strip()


def _read_keyring() -> str | None:
    # An optional package with many dependencies.
    keyring = cast("_Keyring", importlib.import_module("keyring"))
    return keyring.get_password(SERVICE, ACCOUNT)


def _no_key(detail: str, action: str) -> ModelError:
    error = model_error(ModelErrorKind.NOT_CONFIGURED, detail)
    error.action = action
    return error
