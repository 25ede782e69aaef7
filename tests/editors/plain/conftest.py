"""A project and a scripted model for editors without a plugin."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.editors.nvim.neovim import scripted


@pytest.fixture(scope="module")
def model() -> Iterator[str]:
    with scripted(Path(__file__).parent / "plays.py") as url:
        yield url


@pytest.fixture
def project(workspace: Path, model: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with one file, whose agents use the scripted model."""
    (workspace / ".git").mkdir()
    (workspace / "first.py").write_text("limit = 2\nrest = 0\n", "utf-8")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", model)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "test-key")
    monkeypatch.setenv("DEPUTY_MODEL", "m")
    return workspace
