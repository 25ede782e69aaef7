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
from tests.support.commands import Started, descendants

SCRUBBED_PREFIXES = ("ANTHROPIC_", "DEPUTY_", "CLAUDE_")
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
settings.register_profile("deputy", deadline=None)  # how long an example takes is the machine's business
settings.load_profile("deputy")

LONGEST_FIRST = ("tests/editors/vscode/", "tests/package/", "tests/editors/", "tests/server/", "")
"""Tests by the beginning of their names: those go first that mostly wait for other programs. At the end they would keep
one process busy while the others have nothing to do."""

NOWHERE = "http://127.0.0.1:9"
"""The discard port: the proxy to the internet, for processes that a test starts."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: [item.nodeid.startswith(start) for start in LONGEST_FIRST].index(True))


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
    monkeypatch.setenv("HTTPS_PROXY", NOWHERE)
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


@pytest.fixture
def started() -> Started:
    """A function that returns the descendants of this process that the test has started, and that still exist. What
    earlier tests keep for later ones, such as a browser, does not count."""
    before = set(descendants())
    return lambda: [process for process in descendants() if process not in before]
