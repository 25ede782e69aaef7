"""One VS Code for all tests of a worker, and one window for those that need no other."""

from collections.abc import AsyncGenerator, Generator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import BrowserContext

from tests.editors.vscode import window as windows
from tests.editors.vscode.shared import Shared
from tests.editors.vscode.vscode import lean, scripted_model, scripted_settings, vscode, with_extension
from tests.editors.vscode.window import Window

PASSED = pytest.StashKey[bool]()


@pytest.fixture(scope="session")
def model() -> Iterator[str]:
    with scripted_model() as url:
        yield url


@pytest.fixture(scope="session")
def workbench(tmp_path_factory: pytest.TempPathFactory, model: str) -> Iterator[str]:
    """The address of a VS Code with the packed extension."""
    settings = scripted_settings(model)
    environment = {"ANTHROPIC_API_KEY": "test-key"}
    home = tmp_path_factory.mktemp("vscode")
    options = (*with_extension(), *lean(home / "built-in"))
    with vscode(home, *options, settings=settings, environment=environment) as url:
        yield url


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncGenerator[BrowserContext]:
    async with windows.browser() as started:
        yield started


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def shared(
    browser: BrowserContext, workbench: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncGenerator[Shared]:
    windows = Shared(browser, workbench, tmp_path_factory)
    yield windows
    await windows.close()


@pytest_asyncio.fixture(loop_scope="session")
async def window(request: pytest.FixtureRequest, shared: Shared, tmp_path: Path) -> AsyncGenerator[Window]:
    """A window on a small project, with Deputy's chat open and a new session. Tests share it; one that fails or closes
    it is the last to use it."""
    window = await shared.window()
    yield window
    if window.page.is_closed():
        await shared.close()
    elif request.node.stash.get(PASSED, False):
        await shared.renew(tmp_path / "not-renewed.png")
    else:
        await window.shot(tmp_path / "failed.png")
        await shared.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "call":
        item.stash[PASSED] = report.passed
    return report
