"""A real Neovim with only the plugin on its runtimepath."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.editors.nvim.neovim import Neovim, neovim, scripted


@pytest.fixture
def nvim(workspace: Path) -> Iterator[Neovim]:
    with neovim(workspace) as editor:
        yield editor


@pytest.fixture(scope="module")
def model() -> Iterator[str]:
    with scripted() as url:
        yield url


@pytest.fixture
def deputy(nvim: Neovim, model: str) -> Neovim:
    """Neovim with two files of a project and the scripted model."""
    (nvim.workspace / "loop.py").write_text("# tries\nlimit = 2\nrest = 0\n", "utf-8")
    (nvim.workspace / "notes.md").write_text("It tries two times.\n", "utf-8")
    nvim.setup_scripted(model)
    return nvim
