"""The plugin's fold of events reaches the states that every front end must reach."""

from pathlib import Path

import pytest

from tests.editors.nvim.neovim import HERE, Neovim

VECTORS = sorted((Path(__file__).parents[2] / "vectors").glob("*.json"))

each = pytest.mark.parametrize("vector", VECTORS, ids=lambda path: path.stem)


def differs(nvim: Neovim, how: str, vector: Path) -> str | None:
    script = "local file, path = ...; local v = dofile(file); return " + how
    return nvim.lua(script, str(HERE / "vectors.lua"), str(vector))


@each
def test_fold_matches_expected_state_after_every_step(nvim: Neovim, vector: Path) -> None:
    assert differs(nvim, "v.live(path)", vector) is None


@each
def test_repeated_and_unknown_events_change_nothing(nvim: Neovim, vector: Path) -> None:
    assert differs(nvim, "v.live(path, true)", vector) is None


@each
def test_session_loaded_at_any_step_reaches_the_same_state(nvim: Neovim, vector: Path) -> None:
    assert differs(nvim, "v.loaded(path)", vector) is None
