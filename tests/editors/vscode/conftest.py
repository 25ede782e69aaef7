"""One VS Code for all tests of a worker; each test has its own window and project."""

from collections.abc import AsyncGenerator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import BrowserContext

from tests.editors.vscode import window as windows
from tests.editors.vscode.vscode import make_project, scripted_model, vscode, with_extension
from tests.editors.vscode.window import Window


@pytest.fixture(scope="session")
def model() -> Iterator[str]:
    with scripted_model() as url:
        yield url


@pytest.fixture(scope="session")
def workbench(tmp_path_factory: pytest.TempPathFactory, model: str) -> Iterator[str]:
    """The address of a VS Code with the packed extension."""
    settings = {"deputy.model": "scripted", "deputy.baseUrl": model}
    environment = {"ANTHROPIC_API_KEY": "test-key"}
    home = tmp_path_factory.mktemp("vscode")
    with vscode(home, *with_extension(), settings=settings, environment=environment) as url:
        yield url


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncGenerator[BrowserContext]:
    async with windows.browser() as started:
        yield started


@pytest_asyncio.fixture(loop_scope="session")
async def window(browser: BrowserContext, workbench: str, tmp_path: Path) -> AsyncGenerator[Window]:
    """A window on a fresh project, with Deputy's chat open."""
    async with windows.window(browser, workbench, make_project(tmp_path / "project")) as opened:
        await opened.open_chat()
        yield opened
