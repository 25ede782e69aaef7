"""Guards around every test: nothing reaches a real endpoint, nothing touches the user's state or home, and nothing
blocks the event loop."""

import ipaddress
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from blockbuster import blockbuster_ctx
from hypothesis import settings

import deputy_agents
import deputy_protocol
import deputy_server

SCRUBBED_PREFIXES = ("ANTHROPIC_", "DEPUTY_", "CLAUDE_")
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
settings.register_profile("deputy", deadline=None)  # how long an example takes is the machine's business
settings.load_profile("deputy")

NOWHERE = "http://127.0.0.1:9"
"""The discard port: where a model adapter goes that was not told of a test server."""


def _is_loopback(host: str) -> bool:
    if host in ("", "localhost"):
        return True
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False


def _refuse_the_network(event: str, args: tuple[object, ...]) -> None:
    """An audit hook sees every connect and every name look-up of this process, whatever library makes it."""
    match event, args:
        case (("socket.connect" | "socket.sendto"), (_, (str() as host, *_))):
            pass
        case "socket.getaddrinfo", (str() | bytes() as name, *_):
            host = name if isinstance(name, str) else name.decode()
        case _:
            return
    if not _is_loopback(host):
        raise PermissionError(f"tests stay on this machine: refused {event} to {host!r}")


sys.addaudithook(_refuse_the_network)


@pytest.fixture(autouse=True)
def _isolated_environment(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    for name in list(os.environ):
        if name.startswith(SCRUBBED_PREFIXES) or name.upper() in PROXIES:
            monkeypatch.delenv(name)
    monkeypatch.setenv("ANTHROPIC_BASE_URL", NOWHERE)
    monkeypatch.setenv("DEPUTY_STATE", str(tmp_path_factory.mktemp("state")))
    home = str(tmp_path_factory.mktemp("home"))
    monkeypatch.setenv("HOME", home)
    monkeypatch.setenv("USERPROFILE", home)


@pytest.fixture(autouse=True)
def _no_blocking_calls() -> Iterator[None]:
    packages = [deputy_protocol, deputy_agents, deputy_server]
    with blockbuster_ctx(scanned_modules=packages) as guard:
        # Importing is the one blocking thing that the packages do on purpose; start-up is the time for it.
        for function in guard.functions.values():
            function.can_block_in("<frozen importlib._bootstrap>", "_find_and_load")
        yield


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """An empty folder to work in, apart from other files of the test."""
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder
