"""Code information from editors and their language servers: the port, and the editors attached to a session."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum, auto
from pathlib import Path
from typing import Protocol

from deputy_agents.domain.errors import ToolError
from deputy_agents.domain.event import Location


class Ability(Enum):
    """A kind of code information that an editor can provide."""

    DIAGNOSTICS = auto()
    NAVIGATION = auto()
    """Definitions, references, symbols and hover text."""


class Severity(IntEnum):
    """The severity of a problem, numbered as in LSP; lower is worse."""

    ERROR = 1
    WARNING = 2
    INFORMATION = 3
    HINT = 4

    @property
    def word(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """A problem in a file. ``line`` counts from 1; ``source`` names the tool that found it, and its rule."""

    path: Path
    line: int
    severity: Severity
    message: str
    source: str = ""


@dataclass(frozen=True, slots=True)
class Spot:
    """A position in a file: the line, counted from 1, and the text of that line ``before`` the position."""

    path: Path
    line: int
    before: str


@dataclass(frozen=True, slots=True)
class Symbol:
    """A name in the code and its definition. ``kind`` is a word such as ``class``; ``container`` encloses the
    symbol."""

    name: str
    location: Location
    kind: str = ""
    container: str = ""


class Editor(Protocol):
    """One attached editor. Its answers come from third-party language servers: they are untrusted data and bounded in
    number. All methods raise ToolError when the editor fails or does not respond in time."""

    @property
    def abilities(self) -> frozenset[Ability]: ...

    async def diagnostics(self, paths: Sequence[Path] | None, wait: float = 0) -> Sequence[Diagnostic]:
        """The problems in ``paths``, or in all files. After a change to the files, ``wait`` is the number of seconds to
        give the language servers to process it."""
        ...

    async def definition(self, spot: Spot) -> Sequence[Location]: ...

    async def references(self, spot: Spot) -> Sequence[Location]: ...

    async def hover(self, spot: Spot) -> str:
        """Type and documentation as Markdown; empty if there is none."""
        ...

    async def symbols(self, path: Path) -> Sequence[Symbol]:
        """The symbols of a file in source order."""
        ...

    async def workspace_symbols(self, query: str) -> Sequence[Symbol]: ...


class Editors:
    """The editors attached to a session."""

    def __init__(self) -> None:
        self._attached: list[Editor] = []

    def attach(self, editor: Editor) -> None:
        """Adds ``editor``, unless it is already attached."""
        if editor not in self._attached:
            self._attached.append(editor)

    def detach(self, editor: Editor) -> None:
        if editor in self._attached:
            self._attached.remove(editor)

    def supports(self, ability: Ability) -> bool:
        """Whether any attached editor has ``ability``."""
        return any(ability in editor.abilities for editor in self._attached)

    def editor_for(self, ability: Ability) -> Editor:
        """The first attached editor with ``ability``.

        Raises:
            ToolError: there is none.
        """
        for editor in self._attached:
            if ability in editor.abilities:
                return editor
        raise ToolError("No attached editor provides this information any more.")
