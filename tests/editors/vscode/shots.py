"""Takes the pictures of the documentation anew, from a real VS Code: `python -m tests.editors.vscode.shots`.

Without an argument they are written to ``docs/images``: look at them before they are committed.
"""

import asyncio
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.async_api import ViewportSize, expect

from tests.editors.vscode.vscode import ROOT, make_project, scripted_model, vscode, with_extension
from tests.editors.vscode.window import Window, browser, window

SIZE: ViewportSize = {"width": 1360, "height": 900}
THEMES = {"dark": "Dark Modern", "light": "Light Modern"}


async def scenario(shown: Window, folder: Path, name: str) -> None:
    """Two sub-agents, a question at the code, one sub-agent cancelled, and the end."""
    await shown.open_file("greet.py")
    await widen(shown)
    await shown.ask("Look and improve")
    looking, improving = shown.block("read the callers of retry"), shown.block("improve the greeting")
    await expect(improving).to_have_attribute("data-state", "waiting for you")
    await expect(looking.locator(".activity")).to_have_text("read_file backoff.py")
    await expect(shown.thread("improve the greeting")).to_be_visible()
    await expect(shown.row("waiting for you").last).to_be_visible()
    await shown.shot(folder / f"vscode-{name}.png")
    await looking.get_by_role("button", name="Cancel").click()
    await shown.answer("improve the greeting", "Approve")
    await expect(shown.chat.locator(".message.assistant").last).to_be_visible()
    await shown.chat.locator(".scroll").press("End")
    await shown.shot(folder / f"vscode-{name}-end.png")


async def widen(shown: Window) -> None:
    """Gives the side bar more room, as one does who reads in it."""
    box = await shown.page.locator(".part.sidebar").bounding_box()
    assert box is not None
    edge, middle = box["x"] + box["width"], box["y"] + box["height"] / 2
    await shown.page.mouse.move(edge, middle)
    await shown.page.mouse.down()
    await shown.page.mouse.move(edge + 130, middle, steps=4)
    await shown.page.mouse.up()
    await shown.page.mouse.move(edge + 400, middle)


async def take(name: str, theme: str, folder: Path) -> None:
    with TemporaryDirectory() as home, scripted_model() as model:
        settings = {"deputy.model": "scripted", "deputy.baseUrl": model, "workbench.colorTheme": theme}
        environment = {"ANTHROPIC_API_KEY": "test-key"}
        project = make_project(Path(home) / "project")
        with vscode(Path(home) / "vscode", *with_extension(), settings=settings, environment=environment) as url:
            async with browser(SIZE) as chromium, window(chromium, url, project) as shown:
                await shown.open_chat()
                await scenario(shown, folder, name)


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "images"
    target.mkdir(parents=True, exist_ok=True)
    for name, theme in THEMES.items():
        asyncio.run(take(name, theme, target))
