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
def test_after_every_step_the_plugin_holds_what_is_expected(nvim: Neovim, vector: Path) -> None:
    assert differs(nvim, "v.live(path)", vector) is None


@each
def test_events_that_come_twice_and_events_of_unknown_types_change_nothing(nvim: Neovim, vector: Path) -> None:
    assert differs(nvim, "v.live(path, true)", vector) is None


@each
def test_a_session_loaded_at_any_point_goes_on_to_the_same_state(nvim: Neovim, vector: Path) -> None:
    assert differs(nvim, "v.loaded(path)", vector) is None
