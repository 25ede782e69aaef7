"""Takes the screenshots of the documentation from a real VS Code: `python -m tests.editors.vscode.shots`.

Without an argument they are written to ``docs/images``. Review them before you commit them.
"""

import asyncio
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.async_api import ViewportSize

from tests.editors.vscode.scenario import scenario, use_theme, widen
from tests.editors.vscode.vscode import ROOT, make_project, scripted_model, scripted_settings, vscode, with_extension
from tests.editors.vscode.window import browser, window

SIZE: ViewportSize = {"width": 1360, "height": 900}
NAMES = {"asking": "vscode-{}.png", "end": "vscode-{}-end.png"}


async def take(theme: str, folder: Path) -> None:
    with TemporaryDirectory() as home, scripted_model() as model:
        settings = scripted_settings(model)
        environment = {"ANTHROPIC_API_KEY": "test-key"}
        project = make_project(Path(home) / "project")
        with vscode(Path(home) / "vscode", *with_extension(), settings=settings, environment=environment) as url:
            async with browser(SIZE) as chromium, window(chromium, url, project) as shown:
                await use_theme(shown, theme)
                await shown.open_chat()
                await widen(shown)
                async for moment in scenario(shown):
                    await shown.shot(folder / NAMES[moment].format(theme))


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "images"
    target.mkdir(parents=True, exist_ok=True)
    for theme in ("dark", "light"):
        asyncio.run(take(theme, target))
