"""The chat page alone in a real browser, without an editor, to test its layout."""

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from mimetypes import guess_type
from pathlib import Path
from typing import Any, TypeAlias

from playwright.async_api import BrowserContext, Page, Route, ViewportSize

from tests.editors.vscode.vscode import EXTENSION, ROOT

Json: TypeAlias = dict[str, Any]

DIST = EXTENSION / "dist"
ADDRESS = "http://127.0.0.1:9/"  # no server: all requests of the browser are answered by _give
STYLE = {
    "font-family": "sans-serif",
    "font-size": "13px",
    "editor-font-family": "monospace",
    "foreground": "#ccc",
    "editor-background": "#1f1f1f",
    "panel-border": "#555",
    "button-background": "#07c",
    "button-secondaryBackground": "#333",
}
HTML = f"""<!DOCTYPE html>
<html lang="en" style="{"".join(f"--vscode-{name}:{value};" for name, value in STYLE.items())}">
<link rel="stylesheet" href="codicon.css"><link rel="stylesheet" href="webview.css">
<body style="background: #181818"><div id="deputy"></div>
<script>acquireVsCodeApi = () => ({{ postMessage() {{}}, getState() {{}}, setState() {{}} }});</script>
<script src="webview.js"></script>"""
TABLES = ("agents", "entries", "whole", "streams", "outputs", "times", "plans", "requests", "inputs", "earlier")
EMPTY: Mapping[str, object] = {
    "sessionId": "session-1",
    "lastSeq": 0,
    "stale": False,
    **{table: {} for table in TABLES},
    "queue": [],
    "snapshot": False,
}
AROUND: Mapping[str, object] = {
    "server": "running",
    "mode": "default",
    "model": "a model",
    "trusted": True,
    "hasFolder": True,
    "folder": "",
    "can": {"revert": True, "message": True, "rewind": True},
    "edits": {},
    "stale": {},
}


def recorded(name: str, steps: int) -> list[Json]:
    """The events of the first steps of a recorded session."""
    log = json.loads((ROOT / "tests" / "vectors" / f"{name}.json").read_text("utf-8"))
    return [event for step in log["steps"][:steps] for event in step["events"]]


@asynccontextmanager
async def chat(
    browser: BrowserContext, size: ViewportSize, events: Sequence[Json], **state: object
) -> AsyncGenerator[Page]:
    """The chat of a session after ``events``; ``state`` overrides fields of the initial state.

    Raises:
        FileNotFoundError: The extension is not packed.
    """
    if not DIST.exists():
        raise FileNotFoundError("The extension is not packed: make vsix")
    page = await browser.new_page()
    try:
        await page.set_viewport_size(size)
        await page.route(f"{ADDRESS}**", _give)
        await page.goto(ADDRESS)
        await post(page, {"type": "state", "state": {**EMPTY, **state}, "around": AROUND})
        await post(page, {"type": "events", "events": events})
        yield page
    finally:
        await page.close()


async def post(page: Page, message: Mapping[str, object]) -> None:
    """Posts a message to the page, and returns after it is drawn."""
    drawn = "new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))"
    await page.evaluate(f"(message) => {{ window.postMessage(message); return {drawn}; }}", message)


async def _give(route: Route) -> None:
    name = Path(route.request.url.removeprefix(ADDRESS)).name.partition("?")[0]
    if not name:
        await route.fulfill(body=HTML, content_type="text/html; charset=utf-8")
    elif (file := DIST / name).exists():
        await route.fulfill(path=file, content_type=guess_type(name)[0] or "application/octet-stream")
    else:
        await route.fulfill(status=404)
