"""One window for many tests: to open one takes longer than most tests."""

import shutil
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.async_api import BrowserContext, Locator, expect

from tests.editors.vscode.vscode import HERE, make_project
from tests.editors.vscode.window import SIZE, Window
from tests.editors.vscode.window import window as open_window


@dataclass(frozen=True)
class _Opened:
    window: Window
    closing: AsyncExitStack
    folds: list[str | None]


class Shared:
    """The shared window, which is opened when a test needs one."""

    def __init__(self, browser: BrowserContext, url: str, folders: pytest.TempPathFactory) -> None:
        self._browser = browser
        self._url = url
        self._folders = folders
        self._opened: _Opened | None = None

    async def window(self) -> Window:
        if self._opened is None:
            async with AsyncExitStack() as stack:
                project = make_project(self._folders.mktemp("shared") / "project")
                window = await stack.enter_async_context(open_window(self._browser, self._url, project))
                await window.open_chat()
                self._opened = _Opened(window, stack.pop_all(), await _folds(window))
        return self._opened.window

    async def close(self) -> None:
        if self._opened is not None:
            await self._opened.closing.aclose()
        self._opened = None

    async def renew(self, shot: Path) -> None:
        """Makes the window as it was when it opened; if that fails, takes a screenshot and closes it.

        Raises:
            AssertionError: the test has left something that cannot be undone.
        """
        assert self._opened is not None
        try:
            await _renew(self._opened.window, self._opened.folds)
        except BaseException:
            await self._opened.window.shot(shot)
            await self.close()
            raise


async def _renew(window: Window, folds: Sequence[str | None]) -> None:
    await window.page.set_viewport_size(SIZE)
    item = window.page.locator(".statusbar-item", has_text="renewed")  # of the extension in the folder "renewal"
    count = int((await item.inner_text()).split()[-1])
    await item.click()
    await expect(item).to_have_text(f"renewed {count + 1}")
    _restore(window.project)
    for header, before, now in zip(await _headers(window).all(), folds, await _folds(window), strict=True):
        if now != before:
            await header.click()
    await window.chat.locator("textarea.prompt").fill("")
    for remove in reversed(await window.chat.locator(".chip").get_by_role("button").all()):
        await remove.click()
    await expect(window.chat.locator(".message, .chip")).to_have_count(0)
    await expect(window.page.locator(".tab, .notification-list-item")).to_have_count(0)


def _headers(window: Window) -> Locator:
    return window.page.locator(".sidebar .pane-header")


async def _folds(window: Window) -> list[str | None]:
    return [await header.get_attribute("aria-expanded") for header in await _headers(window).all()]


def _restore(project: Path) -> None:
    """Makes the files of the project as they were; those that are unchanged cause no events."""
    original = HERE / "project"
    for path in project.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif not (original / path.name).exists():
            path.unlink()
    for path in original.iterdir():
        copy = project / path.name
        if not copy.exists() or copy.read_bytes() != path.read_bytes():
            shutil.copy2(path, copy)
