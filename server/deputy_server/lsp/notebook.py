"""An open notebook as one text, the way that scripts with cells have it: each cell below a line that tells its kind.

Agents read and change that text; a change is made in the cells that it is about. Cells are not added, removed or moved:
LSP has no edit for that.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from lsprotocol.types import NotebookCellKind

from deputy_agents.domain.errors import ToolError
from deputy_agents.text import visible
from deputy_server.lsp.documents import Document

_HEADS = {NotebookCellKind.Code: "# %%", NotebookCellKind.Markup: "# %% [markdown]"}

_HEAD = re.compile(rf"^(?:{'|'.join(map(re.escape, _HEADS.values()))})$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Cell:
    kind: NotebookCellKind
    document: Document


def script(cells: Sequence[Cell]) -> str:
    """The text of the notebook. White space at the end of a cell is no part of it."""
    return _script([_HEADS[cell.kind] for cell in cells], [cell.document.source.rstrip() for cell in cells])


def changed(name: str, cells: Sequence[Cell], text: str) -> list[tuple[Document, str]]:
    """The cells that must change to make ``text`` the script of the notebook ``name``, each with its new source.

    Raises:
        ToolError: not only the text within cells would change.
    """
    heads = _HEAD.findall(text)
    sources = [source.removeprefix("\n").rstrip() for source in _HEAD.split(text)[1:]]
    # A cell may hold a line that looks like the head of one: then nobody can say which is which.
    if len(heads) != len(cells) or _HEAD.findall(script(cells)) != heads or _script(heads, sources) != text:
        raise ToolError(
            f"{visible(name)} is open as a notebook, where the text of cells can be changed, and no cell added, moved "
            "or removed. Keep each line `# %%` and the empty line before it as they are; or let the user close the "
            "notebook, and read the file again."
        )
    return [
        (document, source + document.source[len(before) :])
        for document, source in zip((cell.document for cell in cells), sources, strict=True)
        if source != (before := document.source.rstrip())
    ]


def _script(heads: Sequence[str], sources: Sequence[str]) -> str:
    return "\n".join(f"{head}\n{source}\n" for head, source in zip(heads, sources, strict=True))
