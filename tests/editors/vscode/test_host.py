"""The extension's tests in the extension host, each file in a separate window."""

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest
import pytest_asyncio
from playwright.async_api import BrowserContext

from tests.editors.vscode.vscode import EXTENSION, make_project, vscode

pytestmark = [
    pytest.mark.editors,
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.timeout(500),
]

SOURCES = EXTENSION / "test" / "host"
TESTS = [
    pytest.param(source.stem, name, id=f"{source.stem}-{name}")
    for source in sorted(SOURCES.glob("*.ts"))
    for name in re.findall(r'^test\("(.+?)"', source.read_text("utf-8"), re.MULTILINE)
]
PATIENCE = 400


class Host:
    """Runs each test file once and keeps the results by test name: empty, or the error."""

    def __init__(self, browser: BrowserContext, url: str, folder: Path) -> None:
        self.browser = browser
        self.url = url
        self.folder = folder
        self.runs: dict[str, asyncio.Task[Mapping[str, str]]] = {}

    async def result(self, file: str, name: str) -> str:
        if file not in self.runs:
            self.runs[file] = asyncio.create_task(self._run(file))
        return (await self.runs[file]).get(name, "the test was not run")

    async def _run(self, file: str) -> Mapping[str, str]:
        remote = f"vscode-remote://{urlsplit(self.url).netloc}"
        payload = [
            ["extensionDevelopmentPath", f"{remote}{EXTENSION}"],
            ["extensionTestsPath", f"{remote}{EXTENSION / 'dist' / 'host' / f'{file}.js'}"],
            ["skipWelcome", "true"],
        ]
        project = make_project(self.folder / file)
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        output: list[str] = []
        page = await self.browser.new_page()
        try:
            await page.expose_function("codeAutomationExit", lambda _code: ended.set_result(None))
            await page.expose_function("codeAutomationLog", lambda _kind, text: output.append(str(text)))
            await page.goto(f"{self.url}/?folder={project}&payload={quote(json.dumps(payload))}")
            await asyncio.wait_for(ended, PATIENCE)
        finally:
            await page.close()
        results = self.folder / f"{file}.json"
        assert results.exists(), "The tests did not run:\n" + "\n".join(output)
        return json.loads(results.read_text("utf-8"))


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
