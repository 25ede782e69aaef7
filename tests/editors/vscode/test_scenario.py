"""A whole session in each kind of theme; its screenshots are written to the test's folder."""

from pathlib import Path

import pytest

from tests.editors.vscode.scenario import barriers, scenario, use_theme
from tests.editors.vscode.window import Window

pytestmark = [
    pytest.mark.editors,
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.timeout(300),
]


@pytest.mark.parametrize("theme", ["dark", "light", pytest.param("contrast", marks=pytest.mark.soak, id="contrast")])
async def test_session_has_no_accessibility_violations(window: Window, tmp_path: Path, theme: str) -> None:
    await use_theme(window, theme)
    async for moment in scenario(window):
        await window.shot(tmp_path / f"{moment}.png")
        assert await barriers(window.chat) == []
