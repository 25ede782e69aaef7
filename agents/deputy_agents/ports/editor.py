"""What editors know of the code, by the language servers that they have: the port, and those who are attached."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum, auto
from pathlib import Path
from typing import Protocol

from deputy_agents.domain.errors import ToolError
from deputy_agents.domain.event import Location


class Ability(Enum):
    """What an editor can tell."""

    DIAGNOSTICS = auto()
    NAVIGATION = auto()
    """Definitions, references, symbols, and what a symbol is."""


class Severity(IntEnum):
    """How bad a problem is, as in LSP: the worst first."""

    ERROR = 1
    WARNING = 2
    INFORMATION = 3
    HINT = 4

    @property
    def word(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """A problem in a file, at a line counted from 1. ``source`` says who found it, and by which rule."""

    path: Path
    line: int
    severity: Severity
    message: str
    source: str = ""


@dataclass(frozen=True, slots=True)
class Spot:
    """A place in a file: the line, counted from 1, and the text of it that stands ``before`` the place."""

    path: Path
    line: int
    before: str


@dataclass(frozen=True, slots=True)
class Symbol:
    """A name in the code and where it is defined; ``kind`` is a word, ``container`` what is around it."""

    name: str
    location: Location
    kind: str = ""
    container: str = ""


class Editor(Protocol):
    """One attached editor. What it tells comes from others' language servers: it is data, bounded in number. All raise
    ToolError when it gives no answer in time, or says that it cannot."""

    @property
    def abilities(self) -> frozenset[Ability]: ...

    async def diagnostics(self, paths: Sequence[Path] | None, wait: float = 0) -> Sequence[Diagnostic]:
        """The problems in these files, or in all. They have just changed where ``wait`` says how many seconds the
        editor may take until its language servers have seen that."""
        ...

    async def definition(self, spot: Spot) -> Sequence[Location]: ...

    async def references(self, spot: Spot) -> Sequence[Location]: ...

    async def hover(self, spot: Spot) -> str:
        """Type and documentation as Markdown; empty where nothing is known."""
        ...

    async def symbols(self, path: Path) -> Sequence[Symbol]:
        """Those of a file, in its order."""
        ...

    async def workspace_symbols(self, query: str) -> Sequence[Symbol]: ...


class Editors:
    """The editors that are attached to a session."""

    def __init__(self) -> None:
        self._attached: list[Editor] = []

    def attach(self, editor: Editor) -> None:
        """``editor`` can be asked from now on; once, however often it is attached."""
        if editor not in self._attached:
            self._attached.append(editor)

    def detach(self, editor: Editor) -> None:
        if editor in self._attached:
            self._attached.remove(editor)

    def supports(self, ability: Ability) -> bool:
        """Whether some editor can tell that."""
        return any(ability in editor.abilities for editor in self._attached)

    def editor_for(self, ability: Ability) -> Editor:
        """The one that is asked: of several the first.

        Raises:
            ToolError: there is none.
        """
        for editor in self._attached:
            if ability in editor.abilities:
                return editor
        raise ToolError("No editor that can tell this is attached to the session any more.")
