"""The main views match the stored screens."""

from pathlib import Path

import pytest

from tests.editors.nvim.neovim import Neovim
from tests.editors.nvim.plays import COMPOUND
from tests.editors.nvim.screens import FOLDER, SIZES, tour, write_files
from tests.editors.nvim.terminal import Terminal, in_terminal


def until_asked(nvim: Neovim, model: str, prompt: str) -> None:
    nvim.setup_scripted(model)
    nvim.command("edit loop.py")
    nvim.ask(prompt)
    nvim.until("#require('deputy.session').requests() > 0")


def test_a_permission_request_above_the_first_line_is_on_the_screen(workspace: Path, model: str) -> None:
    write_files(workspace)
    with in_terminal(workspace, 140, 36, "dark") as (nvim, terminal):
        until_asked(nvim, model, "above")
        nvim.until(lambda: terminal.text().startswith("? [fix above] edit_file(loop.py)"))
        nvim.until(lambda: "\n# new " in terminal.text())


def test_small_window_shows_the_requested_change(workspace: Path, model: str) -> None:
    write_files(workspace)
    (workspace / "loop.py").write_text("# a\n" * 4 + "# tries\nlimit = 2\nrest = 0\n", "utf-8")
    with in_terminal(workspace, 80, 24, "dark") as (nvim, terminal):
        until_asked(nvim, model, "edit it")
        nvim.until(lambda: "\nlimit = 2" in terminal.text() and "\nlimit = 3 " in terminal.text())
        assert terminal.text().startswith("? [fix the limit] edit_file(loop.py)")


def test_a_permission_request_that_is_settled_leaves_the_screen_also_where_its_line_is_below_the_window(
    workspace: Path, model: str
) -> None:
    write_files(workspace)
    with in_terminal(workspace, 80, 20, "dark") as (nvim, terminal):
        until_asked(nvim, model, "edit it")
        # Drawn before the window is small, it is not scrolled into view.
        nvim.until(lambda: "? [fix the limit] edit_file(loop.py)" in terminal.text().splitlines()[1])
        nvim.command("wincmd t | resize 4")
        nvim.until(lambda: "? [fix the limit] edit_file(loop.py)" in terminal.text().splitlines()[1])
        nvim.command("DeputyStop")
        nvim.until(lambda: "? [fix the limit] edit_file(loop.py)" not in terminal.text())


def test_smallest_window_shows_the_keys_and_then_every_rule(workspace: Path, model: str) -> None:
    write_files(workspace)
    with in_terminal(workspace, 30, 10, "dark") as (nvim, terminal):
        until_asked(nvim, model, "compound")
        nvim.api.input(":DeputyInbox\rG")
        terminal.until(lambda text: "A allow in this session" in text and "D deny with reason" in text)
        nvim.api.input("A")
        shown = last = terminal.until(lambda text: "More" in text)
        while "[C]ancel" not in last:
            nvim.api.input(" ")
            last = terminal.until(lambda text, before=last: text != before and ("[C]ancel" in text or "More" in text))
            shown += last
            assert len(shown) < 100_000
        words = "".join(shown.replace("-- More --", "").split())
        # The last page repeats lines of the one before, within the last rule.
        for part in COMPOUND[:-1]:
            assert f"shell({part})".replace(" ", "") in words
        assert words.endswith("-oa.txt)(A)llow,[C]ancel:")
        nvim.api.input("c")
        nvim.until("#require('deputy.session').requests() == 1")


@pytest.mark.parametrize("size", SIZES)
def test_main_views_match_stored_screens(workspace: Path, model: str, size: str) -> None:
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
