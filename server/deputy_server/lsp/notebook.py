"""An open notebook as one script with cells: each cell follows a line that names its kind.

Agents read and edit the script; edits are applied to the cells. Cells cannot be added, removed or moved, because LSP
has no edit for that.
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
    """The notebook as text, without white space at the end of cells."""
    return _script([_HEADS[cell.kind] for cell in cells], [cell.document.source.rstrip() for cell in cells])


def changed(name: str, cells: Sequence[Cell], text: str) -> list[tuple[Document, str]]:
    """The cells that must change so that ``text`` becomes the script of the notebook ``name``, with their new sources.

    Raises:
        ToolError: more than the text within cells would change.
    """
    heads = _HEAD.findall(text)
    sources = [source.removeprefix("\n").rstrip() for source in _HEAD.split(text)[1:]]
    # A cell may contain a line that looks like the head of a cell. Then the text is ambiguous.
    if len(heads) != len(cells) or _HEAD.findall(script(cells)) != heads or _script(heads, sources) != text:
        raise ToolError(
            f"{visible(name)} is open as a notebook: only the text of cells can be changed; cells cannot be added, "
            "moved or removed. Keep each line `# %%` and the empty line before it unchanged; or ask the user to close "
            "the notebook, then read the file again."
        )
    return [
        (document, source + document.source[len(before) :])
        for document, source in zip((cell.document for cell in cells), sources, strict=True)
        if source != (before := document.source.rstrip())
    ]


def _script(heads: Sequence[str], sources: Sequence[str]) -> str:
    return "\n".join(f"{head}\n{source}\n" for head, source in zip(heads, sources, strict=True))
