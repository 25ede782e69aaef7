"""The main views as a user sees them. ``python -m tests.editors.nvim.screens`` regenerates the files in ``screens/``:
review the changes before you commit them."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.editors.nvim.neovim import HERE, Neovim, scripted
from tests.editors.nvim.terminal import Terminal, in_terminal

FOLDER = HERE / "screens"
SIZES = {"wide": (140, 36, "dark"), "narrow": (80, 30, "light")}


def visit(nvim: Neovim) -> Iterator[tuple[str, str]]:
    """Goes from view to view: the name of each, and a text that it has when it is complete."""
    nvim.command("edit loop.py")
    nvim.ask("look around")
    nvim.until("require('deputy.session').get() and require('deputy.session').get().state.turn == nil")
    yield "session", "All is done."
    nvim.at("read the code")
    nvim.keys("<Tab>")
    yield "unfolded", "read_file(loop.py)"
    nvim.keys("<CR>")
    yield "transcript", "read-only"
    nvim.keys("-")
    nvim.command("DeputyAgents")
    yield "agents", "Deputy · agents"
    nvim.keys("q")
    nvim.ask("edit it")
    nvim.until("#require('deputy.session').requests() > 0")
    yield "approval", "go to the code"
    nvim.command("DeputyInbox")
    yield "inbox", "Deputy · approvals"


def write_files(folder: Path) -> None:
    """What the scripted model reads and edits."""
    (folder / "loop.py").write_text("# tries\nlimit = 2\nrest = 0\n", "utf-8")
    (folder / "notes.md").write_text("It tries two times.\n", "utf-8")


def tour(size: str, look: Callable[[str, str, Terminal, Neovim], None], model: str, folder: Path) -> None:
    """Calls ``look`` at each view, with the name of its file."""
    write_files(folder)
    columns, lines, background = SIZES[size]
    with in_terminal(folder, columns, lines, background) as (nvim, terminal):
        nvim.setup_scripted(model)
        for view, whole in visit(nvim):
            look(f"{view}-{size}.txt", whole, terminal, nvim)


def main() -> None:
    def write(name: str, whole: str, terminal: Terminal, nvim: Neovim) -> None:
        nvim.until(lambda: whole in terminal.text())
        nvim.lua("vim.wait(1500)")
        (FOLDER / name).write_text(terminal.text(), "utf-8")

    FOLDER.mkdir(exist_ok=True)
    for size in SIZES:
        with TemporaryDirectory() as state, TemporaryDirectory() as folder, scripted() as model:
            os.environ["DEPUTY_STATE"] = state
            project = Path(folder) / "project"
            project.mkdir()
            tour(size, write, model, project)


if __name__ == "__main__":
    main()
