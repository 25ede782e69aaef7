"""The main views look as they did when somebody last looked at them."""

from pathlib import Path

import pytest

from tests.editors.nvim.neovim import Neovim
from tests.editors.nvim.screens import FOLDER, SIZES, tour
from tests.editors.nvim.terminal import Terminal


@pytest.mark.parametrize("size", SIZES)
def test_the_main_views_look_as_they_should(workspace: Path, model: str, size: str) -> None:
    seen: list[str] = []

    def compare(name: str, _: str, terminal: Terminal, nvim: Neovim) -> None:
        wanted = (FOLDER / name).read_text("utf-8")
        seen.append(name)
        try:
            nvim.until(lambda: terminal.text() == wanted)
        except AssertionError:
            assert terminal.text() == wanted, name

    tour(size, compare, model, workspace)
    assert sorted(seen) == sorted(path.name for path in FOLDER.glob(f"*-{size}.txt"))
