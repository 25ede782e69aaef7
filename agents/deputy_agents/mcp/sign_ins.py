"""Where the user is signed in: the OAuth tokens of MCP servers, in the keyring of the system, or else in a file that
only the user can read."""

import importlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol, cast

from pydantic import BaseModel, Field, ValidationError

from deputy_agents.domain.errors import ToolError
from deputy_agents.files.private_json import PrivateJson
from deputy_agents.web.address import parse_url

logger = logging.getLogger(__name__)

SERVICE: Final = "deputy-mcp"
"""The name of the service in the keyring; the account is the address of the MCP server."""
_NO_KEYRINGS: Final = ("keyring.backends.fail", "keyring.backends.null")
_VERSION: Final = 1


class SignIn(BaseModel):
    """The tokens of one MCP server, and what is needed to renew them. ``expires_at`` is in seconds since the epoch; 0
    if it is not known. ``client`` is what the authorization server has registered for Deputy."""

    access_token: str = Field(default="", repr=False)
    refresh_token: str = Field(default="", repr=False)
    expires_at: float = 0
    scope: str = ""
    resource: str = ""
    issuer: str = ""
    token_endpoint: str = ""
    revocation_endpoint: str = ""
    client: dict[str, object] = Field(default_factory=dict, repr=False)

    @property
    def secrets(self) -> frozenset[str]:
        """What must never be shown."""
        values = (self.access_token, self.refresh_token, str(self.client.get("client_secret") or ""))
        return frozenset(filter(None, values))


class _Keyring(Protocol):
    def get_keyring(self) -> object: ...
    def get_password(self, service_name: str, username: str) -> str | None: ...
    def set_password(self, service_name: str, username: str, password: str) -> None: ...
    def delete_password(self, service_name: str, username: str) -> None: ...


@dataclass(slots=True)
class SignIns:
    """The sign-ins by the address of the MCP server, shared by all processes of the user. ``path`` is the file; without
    one they end with the process, and the keyring is not used. All methods block."""

    path: Path | None = None
    _file: PrivateJson = field(init=False)

    def __post_init__(self) -> None:
        self._file = PrivateJson(self.path)

    def get(self, url: str) -> SignIn | None:
        """The sign-in at the MCP server ``url``; ``None`` if there is none or it cannot be read."""
        account = account_of(url)
        stored = self._read().get(account)
        if stored == "keyring":
            stored = _from_keyring(account)
        try:
            if isinstance(stored, str):
                return SignIn.model_validate_json(stored)
            return None if stored is None else SignIn.model_validate(stored)
        except ValidationError:
            return None

    def save(self, url: str, sign_in: SignIn) -> None:
        """Stores a sign-in in place of an earlier one.

        Raises:
            OSError: it cannot be written.
        """
        account = account_of(url)
        with self._file.changing():
            servers = self._read()
            kept = self.path is not None and _to_keyring(account, sign_in.model_dump_json())
            servers[account] = "keyring" if kept else sign_in.model_dump()
            self._file.write({"version": _VERSION, "servers": servers})

    def delete(self, url: str) -> bool:
        """Deletes a sign-in; returns whether there was one.

        Raises:
            OSError: the file cannot be written.
        """
        account = account_of(url)
        with self._file.changing():
            servers = self._read()
            stored = servers.pop(account, None)
            if stored == "keyring":
                _delete_from_keyring(account)
            self._file.write({"version": _VERSION, "servers": servers})
        return stored is not None

    def mark(self) -> object:
        """A value that differs after every change by any process."""
        if self.path is None:
            return str(self._file.read())
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_ino

    def _read(self) -> dict[str, object]:
        read = self._file.read()
        servers = cast("Mapping[str, object]", read).get("servers") if isinstance(read, dict) else None
        return dict(cast("Mapping[str, object]", servers)) if isinstance(servers, dict) else {}


def account_of(url: str) -> str:
    """The address of an MCP server without its query, which may contain a secret."""
    try:
        parsed = parse_url(url)
    except ToolError:
        return url
    path = url.split("://", 1)[-1].partition("/")[2].partition("?")[0].partition("#")[0]
    return f"{parsed.scheme}://{parsed.authority}/{path}"


def _keyring() -> _Keyring | None:
    """The package, if it is installed and finds a keyring."""
    try:
        keyring = cast("_Keyring", importlib.import_module("keyring"))
        backend = type(keyring.get_keyring()).__module__
    except Exception as error:  # noqa: BLE001 - each backend raises its own errors
        logger.info("there is no keyring: %s", type(error).__name__)
        return None
    return None if backend in _NO_KEYRINGS else keyring


def _from_keyring(account: str) -> str | None:
    try:
        keyring = _keyring()
        return None if keyring is None else keyring.get_password(SERVICE, account)
    except Exception as error:  # noqa: BLE001 - each backend raises its own errors
        logger.warning("the keyring failed (%s)", type(error).__name__)
        return None


def _to_keyring(account: str, value: str) -> bool:
    """Returns whether the keyring has taken it: some are locked, and some take only short values."""
    try:
        if (keyring := _keyring()) is None:
            return False
        keyring.set_password(SERVICE, account, value)
        return keyring.get_password(SERVICE, account) == value
    except Exception as error:  # noqa: BLE001 - each backend raises its own errors
        logger.warning("the keyring failed (%s); the sign-in is stored in a file", type(error).__name__)
        return False


def _delete_from_keyring(account: str) -> None:
    try:
        if (keyring := _keyring()) is not None:
            keyring.delete_password(SERVICE, account)
    except Exception as error:  # noqa: BLE001 - each backend raises its own errors
        logger.warning("the keyring failed (%s)", type(error).__name__)
