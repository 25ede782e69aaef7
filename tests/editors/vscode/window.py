"""One window of VS Code, driven through its screen like a user."""

import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from playwright.async_api import BrowserContext, FrameLocator, Locator, Page, ViewportSize, async_playwright, expect

from tests.editors.vscode.vscode import chromium

PATIENCE = 60_000
"""Time limit of each wait in milliseconds, for a busy machine."""
SIZE: ViewportSize = {"width": 1500, "height": 950}
expect.set_options(timeout=PATIENCE)


@asynccontextmanager
async def browser(size: ViewportSize = SIZE) -> AsyncGenerator[BrowserContext]:
    """A headless Chromium without network access. Its windows share a cache. Nothing moves in them: to draw a spinner
    takes a third of a processor."""
    hosts = "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
    arguments = ["--no-sandbox", "--disable-gpu", "--no-proxy-server", f"--host-resolver-rules={hosts}"]
    async with async_playwright() as playwright:
        started = await playwright.chromium.launch(executable_path=chromium(), args=arguments)
        context = await started.new_context(viewport=size, reduced_motion="reduce")
        context.set_default_timeout(PATIENCE)
        yield context


class Window:
    def __init__(self, page: Page, project: Path) -> None:
        self.page = page
        self.project = project

    @property
    def chat(self) -> FrameLocator:
        """The chat, or another webview: tests open one at a time."""
        return self.page.frame_locator("iframe.webview.ready").frame_locator("iframe#active-frame")

    async def open_chat(self) -> None:
        await self.page.locator('.activitybar .action-item a[aria-label*="Deputy"]').first.click()
        await expect(self.chat.locator("textarea.prompt")).to_be_visible()

    async def ask(self, text: str) -> None:
        prompt = self.chat.locator("textarea.prompt")
        await prompt.fill(text)
        await expect(prompt).to_have_value(text)
        await prompt.press("Enter")

    def block(self, label: str) -> Locator:
        """The block of the sub-agent with that label."""
        return self.chat.locator(".block", has=self.chat.locator(".block-head .label", has_text=label))

    def approval(self, title: str) -> Locator:
        """The approval in the chat whose title contains ``title``."""
        return self.chat.locator(".approval", has_text=title)

    def comment_thread(self, label: str) -> Locator:
        """The comment thread of the approval with that label."""
        return self.page.locator(".review-widget", has_text=label)

    async def answer(self, label: str, choice: str) -> None:
        """Clicks an answer of the approval at the code."""
        link = self.comment_thread(label).locator(".comment-body a", has_text=re.compile(rf"^\s*{choice}$"))
        await link.click()

    async def press(self, row: Locator, action: str) -> None:
        """Clicks an action that a list row shows on hover."""
        await row.hover()
        # The editor adds the key of an action to its name.
        await row.get_by_role("button", name=re.compile(rf"^{re.escape(action)}( \(.+\))?$")).click()

    async def settle(self, row: Locator, action: str) -> None:
        """Presses an action that removes the row. Repeats it, because a redraw of the list can swallow the click."""
        for _ in range(5):
            await self.press(row, action)
            try:
                return await expect(row).to_have_count(0, timeout=5_000)
            except AssertionError:
                continue
        await expect(row).to_have_count(0)

    def row(self, text: str) -> Locator:
        """A row of a list in the side bar."""
        return self.page.locator(".sidebar .monaco-list-row", has_text=text)

    async def command(self, title: str) -> None:
        """Runs a command of the palette."""
        await self.page.keyboard.press("F1")
        palette = self.page.locator(".quick-input-widget")
        await palette.locator("input").fill(f">{title}")
        await expect(palette.locator(".monaco-list-row", has_text=title).first).to_be_visible()
        await self.page.keyboard.press("Enter")

    async def open_file(self, name: str) -> None:
        await self.page.keyboard.press("Control+P")
        palette = self.page.locator(".quick-input-widget")
        await palette.locator("input").fill(name)
        await palette.locator(".monaco-list-row", has_text=name).first.click()
        await expect(self.page.locator(".tab.active", has_text=name)).to_be_visible()
        # The editor takes the focus after it shows its tab.
        await expect(self.page.locator(".editor-instance .monaco-editor.focused")).to_be_visible()

    async def choose_fix(self, title: str) -> None:
        """Selects a quick fix at the cursor. Reopens the list if it closes because the editor gets the focus late."""
        fix = self.page.locator(".action-widget .monaco-list-row", has_text=title)
        for _ in range(5):
            await expect(self.page.locator(".editor-instance .monaco-editor.focused")).to_be_visible()
            await self.page.keyboard.press("Control+.")
            try:
                await expect(fix).to_be_visible(timeout=8_000)
                break
            except AssertionError:
                continue
        await fix.click()

    async def shot(self, path: Path) -> None:
        """Takes a screenshot without running animations."""
        await self.page.screenshot(path=path, animations="disabled")

    def text(self, name: str) -> str:
        """The text of a project file on disk."""
        return (self.project / name).read_text("utf-8")


@asynccontextmanager
async def window(browser: BrowserContext, url: str, project: Path | None) -> AsyncGenerator[Window]:
    """A window on a project, on the folders of a ``.code-workspace``, or without a folder, in which Deputy is ready."""
    page = await browser.new_page()
    try:
        has_many = project is not None and project.suffix == ".code-workspace"
        opened = f"{'workspace' if has_many else 'folder'}={project}" if project else "ew=true"
        await page.goto(f"{url}/?{opened}")
        if has_many:
            await _wait_for_folders(page)
        await expect(page.locator(".statusbar-item", has_text="Deputy")).to_be_visible()
        yield Window(page, project or Path())
    finally:
        await page.close()


async def _wait_for_folders(page: Page) -> None:
    """Reloads until the folders are shown: on a busy machine VS Code may treat a multi-root workspace as empty."""
    folder = page.locator(".explorer-folders-view .monaco-list-row").first
    for _ in range(3):
        try:
            return await expect(folder).to_be_visible(timeout=20_000)
        except AssertionError:
            await page.reload()
    await expect(folder).to_be_visible()
