"""The packed extension alone, in a VS Code without a server: it installs the one that it brings."""

import os
import re
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.async_api import BrowserContext, expect

from tests.editors.vscode.vscode import make_project, vscode, with_extension
from tests.editors.vscode.window import Window
from tests.editors.vscode.window import window as open_window
from tests.support.package_index import UV, cache

pytestmark = [
    pytest.mark.editors,
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.timeout(400),
]

NETWORK = r"UV_|PIP_|SSL_CERT"
"""Variables that say how the package index is reached."""
INSTALLED = 240_000
"""Milliseconds for downloading everything on a slow network."""


@contextmanager
def bare_vscode(home: Path, uv: str) -> Generator[str]:
    """The URL of a VS Code that finds no server, and the shell script ``uv`` to install one."""
    command = home / ".local" / "bin" / "uv"  # the PATH is that of a login shell
    command.parent.mkdir(parents=True)
    command.write_text(f"#!/bin/sh\n{uv}\n", "utf-8")
    command.chmod(0o755)
    settings = {"deputy.model": "offline", "deputy.server.path": ""}
    network = {name: value for name, value in os.environ.items() if re.match(NETWORK, name)}
    environment = {**network, "PATH": os.defpath, "UV_CACHE_DIR": cache()}
    with vscode(home, *with_extension(), settings=settings, environment=environment) as url:
        yield url


def on_first_use_offline(home: Path) -> str:
    """A script that starts uv, without its cache and with an unreachable index until ``home/online`` exists."""
    offline = f"export UV_DEFAULT_INDEX=http://127.0.0.1:9/simple UV_CACHE_DIR={home}/empty UV_HTTP_RETRIES=0"
    return f'[ -e "{home}/online" ] || {offline}\nexec "{UV}" "$@"'


async def button(window: Window, name: str) -> None:
    await window.chat.locator(".setup").get_by_role("button", name=name, exact=True).click()


async def confirm(window: Window, choice: str) -> None:
    await window.page.locator(".monaco-dialog-box").get_by_role("button", name=choice, exact=True).click()


@pytest.mark.requirement("N2")
async def test_extension_alone_installs_its_server_after_a_click_and_answers(
    browser: BrowserContext, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    with bare_vscode(home, on_first_use_offline(home)) as url:
        async with open_window(browser, url, make_project(tmp_path / "project")) as window:
            card, status = window.chat.locator(".setup"), window.page.locator(".statusbar-item", has_text="Deputy")
            await window.open_chat()
            await expect(card).to_contain_text("Install Deputy's server")
            await expect(card).to_contain_text("with ~/.local/bin/uv, into a folder of this extension")
            await expect(status).to_contain_text("Deputy: no server")
            storage = home / "vscode" / "data" / "User" / "globalStorage" / "deputy.deputy"
            assert not (storage / "server").exists()  # nothing was downloaded without a click

            await window.ask("hello")  # is not lost
            await expect(window.chat.locator("textarea.prompt")).to_have_value("hello")
            await button(window, "Install Server")
            await expect(card).to_contain_text("The package index cannot be reached.")
            assert not any((storage / "server").glob("*/bin"))

            (home / "online").touch()
            await button(window, "Try Again")
            await expect(card).to_contain_text("Step 2 of 4: Download and install the packages")
            await expect(card).to_be_hidden(timeout=INSTALLED)
            await window.chat.locator("textarea.prompt").press("Enter")
            await expect(window.chat.locator(".message.assistant")).to_contain_text("offline model")
            await expect(window.page.locator(".notifications-toasts .notification-list-item")).to_have_count(0)
            assert [path.parent.parent for path in (storage / "server").glob("*/bin/deputy")]

            await window.command("Deputy: Install or Repair Server…")
            await confirm(window, "Repair")
            await expect(card).to_contain_text("Installing Deputy's server")
            await button(window, "Cancel")
            await expect(card).to_contain_text("Install Deputy's server")
            assert not any((storage / "server").glob("*/bin"))
            assert [path.suffix for path in (storage / "server").iterdir()] == [".lock"]
