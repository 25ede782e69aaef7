"""The extension's tests in the extension host, each file in a separate window."""

from collections.abc import AsyncGenerator, Mapping
from typing import TypeAlias

import pytest
import pytest_asyncio
from playwright.async_api import BrowserContext

from tests.editors.vscode.host import SOURCES, Host, names_in
from tests.editors.vscode.vscode import lean, scripted_settings, vscode

pytestmark = [
    pytest.mark.editors,
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.timeout(500),
]

APART = {"settings", "support"}
"""Files without tests, or whose tests run in other windows."""


FILES = sorted({source.stem for source in SOURCES.glob("*.ts")} - APART)
TESTS = [pytest.param(file, name, id=f"{file}-{name}") for file in FILES for name in names_in(file)]

Hosts: TypeAlias = Mapping[str, Host]


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def hosts(browser: BrowserContext, model: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Hosts]:
    folder = tmp_path_factory.mktemp("host")
    settings = scripted_settings(model)
    environment = {"ANTHROPIC_API_KEY": "test-key", "DEPUTY_RESULTS": str(folder)}
    # Without the driver VS Code ignores tests in a page's URL.
    options = ("--enable-smoke-test-driver", "--disable-workspace-trust", *lean(folder / "built-in"))
    with vscode(folder / "home", *options, settings=settings, environment=environment) as url:
        yield {file: Host(browser, url, folder, file) for file in FILES}


@pytest.mark.parametrize(("file", "name"), TESTS)
async def test_extension_host_test_passes(hosts: Hosts, file: str, name: str) -> None:
    assert await hosts[file].result(name) == ""
