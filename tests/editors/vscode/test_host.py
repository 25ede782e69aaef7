"""The extension's tests in the extension host, each file in a separate window."""

from collections.abc import AsyncGenerator

import pytest
import pytest_asyncio
from playwright.async_api import BrowserContext

from tests.editors.vscode.host import SOURCES, Host, names_in
from tests.editors.vscode.vscode import vscode

pytestmark = [
    pytest.mark.editors,
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.timeout(500),
]

ELSEWHERE = {"settings"}
"""Files whose tests run in other windows."""


TESTS = [
    pytest.param(file, name, id=f"{file}-{name}")
    for file in sorted({source.stem for source in SOURCES.glob("*.ts")} - ELSEWHERE)
    for name in names_in(file)
]


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def host(browser: BrowserContext, model: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Host]:
    folder = tmp_path_factory.mktemp("host")
    settings = {"deputy.model": "scripted", "deputy.baseUrl": model}
    environment = {"ANTHROPIC_API_KEY": "test-key", "DEPUTY_RESULTS": str(folder)}
    # Without the driver VS Code ignores tests in a page's URL.
    options = ("--enable-smoke-test-driver", "--disable-workspace-trust")
    with vscode(folder / "home", *options, settings=settings, environment=environment) as url:
        yield Host(browser, url, folder)


@pytest.mark.parametrize(("file", "name"), TESTS)
async def test_extension_host_test_passes(host: Host, file: str, name: str) -> None:
    assert await host.result(file, name) == ""
