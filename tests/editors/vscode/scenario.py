"""A whole session in a real window, for screenshots and accessibility checks."""

import json
from collections.abc import AsyncGenerator

from playwright.async_api import FrameLocator, expect

from tests.editors.vscode.vscode import HERE
from tests.editors.vscode.window import Window

AXE = HERE / "node_modules" / "axe-core" / "axe.min.js"
# The page is transparent, and the rules cannot see the editor's background behind it.
RULES = """() => {
  document.body.style.background = "var(--vscode-sideBar-background)";
  return axe.run(document, { resultTypes: ["violations"] });
}"""
THEMES = {
    "dark": ("Dark Modern", "vs-dark"),
    "light": ("Light Modern", "vs"),
    "contrast": ("Default High Contrast", "hc-black"),
}
"""The name of each theme, and the class of its kind in the page."""


async def use_theme(shown: Window, name: str) -> None:
    theme, kind = THEMES[name]
    folder = shown.project / ".vscode"
    folder.mkdir()
    (folder / "settings.json").write_text(json.dumps({"workbench.colorTheme": theme}))
    await expect(shown.page.locator(f".monaco-workbench.{kind}")).to_be_visible()


async def scenario(shown: Window) -> AsyncGenerator[str]:
    """Two sub-agents, an approval at the code, a cancelled sub-agent, and the end; yields at each moment to check."""
    await shown.open_file("greet.py")
    await shown.ask("Look and improve")
    looking, improving = shown.block("read the callers of retry"), shown.block("improve the greeting")
    await expect(improving).to_have_attribute("data-state", "waiting for you")
    await expect(looking.locator(".activity")).to_have_text("Reading backoff.py")
    await expect(shown.comment_thread("improve the greeting")).to_be_visible()
    await expect(shown.row("waiting for you").last).to_be_visible()
    yield "asking"
    await looking.get_by_role("button", name="Cancel").click()
    await shown.answer("improve the greeting", "Approve")
    await expect(shown.chat.locator(".message.assistant").last).to_contain_text("One looked, one improved.")
    await looking.locator(".block-toggle").click()
    await expect(looking.locator(".call").first).to_be_visible()
    yield "end"


async def widen(shown: Window) -> None:
    """Makes the side bar wider."""
    box = await shown.page.locator(".part.sidebar").bounding_box()
    assert box is not None
    edge, middle = box["x"] + box["width"], box["y"] + box["height"] / 2
    await shown.page.mouse.move(edge, middle)
    await shown.page.mouse.down()
    await shown.page.mouse.move(edge + 130, middle, steps=4)
    await shown.page.mouse.up()
    await shown.page.mouse.move(edge + 400, box["y"] + box["height"] - 20)


async def barriers(page: FrameLocator) -> list[str]:
    """Accessibility violations of a webview: contrast, missing names, parts that no key reaches."""
    body = await page.locator("body").element_handle()
    frame = await body.owner_frame()
    assert frame is not None
    await frame.evaluate(AXE.read_text("utf-8"))
    found = await frame.evaluate(RULES)
    return [f"{node['failureSummary']}: {node['html']}" for rule in found["violations"] for node in rule["nodes"]]
