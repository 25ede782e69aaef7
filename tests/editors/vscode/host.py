"""Runs the extension's tests in the extension host of a VS Code."""

import asyncio
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import mkdtemp
from urllib.parse import quote, urlsplit

from playwright.async_api import BrowserContext

from tests.editors.vscode.vscode import EXTENSION, make_project

SOURCES = EXTENSION / "test" / "host"
PATIENCE = 400
"""Time limit of the tests of a file in seconds."""


def names_in(file: str) -> list[str]:
    return re.findall(r'^test\("(.+?)"', (SOURCES / f"{file}.ts").read_text("utf-8"), re.MULTILINE)


def _as_folder(project: Path) -> str:
    return f"folder={project}"


class Host:
    """Runs the tests of a file once and keeps the results by test name: empty, or the error. ``prepare`` changes the
    project and returns the query that opens it. VS Code writes the results to ``folder``."""

    def __init__(
        self,
        browser: BrowserContext,
        url: str,
        folder: Path,
        file: str,
        prepare: Callable[[Path], str] = _as_folder,
    ) -> None:
        self.browser = browser
        self.url = url
        self.folder = folder
        self.file = file
        self.prepare = prepare
        self.running: asyncio.Task[Mapping[str, str]] | None = None

    async def result(self, name: str) -> str:
        self.running = self.running or asyncio.create_task(self._run())
        return (await self.running).get(name, "the test was not run")

    async def _run(self) -> Mapping[str, str]:
        remote = f"vscode-remote://{urlsplit(self.url).netloc}"
        payload = [
            ["extensionDevelopmentPath", f"{remote}{EXTENSION}"],
            ["extensionTestsPath", f"{remote}{EXTENSION / 'dist' / 'host' / f'{self.file}.js'}"],
            ["skipWelcome", "true"],
        ]
        project = make_project(Path(mkdtemp(dir=self.folder)) / "project")
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        output: list[str] = []
        page = await self.browser.new_page()
        try:
            await page.expose_function("codeAutomationExit", lambda _code: ended.set_result(None))
            await page.expose_function("codeAutomationLog", lambda _kind, text: output.append(str(text)))
            await page.goto(f"{self.url}/?{self.prepare(project)}&payload={quote(json.dumps(payload))}")
            await asyncio.wait_for(ended, PATIENCE)
        finally:
            await page.close()
        results = self.folder / f"{self.file}.json"
        assert results.exists(), "The tests did not run:\n" + "\n".join(output)
        return json.loads(results.rename(project.with_suffix(".json")).read_text("utf-8"))
