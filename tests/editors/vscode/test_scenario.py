"""A whole session in each kind of theme; its screenshots are written to the test's folder."""

from pathlib import Path

import pytest
from playwright.async_api import BrowserContext

from tests.editors.vscode.scenario import barriers, scenario, use_theme
from tests.editors.vscode.vscode import make_project
from tests.editors.vscode.window import window

pytestmark = [
    pytest.mark.editors,
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.timeout(300),
]


@pytest.mark.parametrize("theme", ["dark", "light", pytest.param("contrast", marks=pytest.mark.soak, id="contrast")])
async def test_session_has_no_accessibility_violations(
    browser: BrowserContext, workbench: str, tmp_path: Path, theme: str
) -> None:
    project = make_project(tmp_path / "project")
    use_theme(project, theme)
    async with window(browser, workbench, project) as shown:
        await shown.open_chat()
        async for moment in scenario(shown):
            await shown.shot(tmp_path / f"{moment}.png")
            assert await barriers(shown.chat) == []
