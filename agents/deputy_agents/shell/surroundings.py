"""What decides about a command besides its words: where it runs, and where its input comes from."""

import posixpath
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from deputy_agents.shell.word import Word

Folder: TypeAlias = str | None
"""A folder relative to the one in which the line starts (empty: that folder), or absolute; ``None`` if it is only known
when the command runs."""

CHANGE_FOLDER: Final = frozenset({"cd", "pushd", "popd", "eval", "source", ".", "alias", "chroot", "shopt"})
"""Commands after which relative paths may have another meaning."""
_IN_SAME_SHELL: Final = frozenset({"builtin", "command", "time"})
"""Words before a command that runs in the shell itself."""
_MAX_FOLDERS: Final = 4


@dataclass(frozen=True, slots=True)
class Surroundings:
    """``piped`` is the text before the command whose output it may read, such as ``echo x | ``. ``redirected`` are the
    redirections that provide its input, such as `` < file``. ``folders`` are the folders in which it may run."""

    piped: str = ""
    redirected: str = ""
    folders: tuple[Folder, ...] = ("",)

    @property
    def has_input(self) -> bool:
        return bool(self.piped or self.redirected)

    def around(self, nested: "Surroundings") -> "Surroundings":
        """The surroundings of a command that has ``nested`` in a line that is run here."""
        return Surroundings(
            self.piped + nested.piped,
            nested.redirected + self.redirected,
            _limited(_join(one, other) for one in self.folders for other in nested.folders),
        )


HERE: Final = Surroundings()


class SurroundingsTracker:
    """The surroundings of the command that is read next. ``on_success`` are the folders if the last command succeeds,
    the current folders those after any outcome. ``last_operand`` are the folders in which the right side of the last
    ``&&`` or ``||`` runs."""

    def __init__(self) -> None:
        self.current: Surroundings = HERE
        self.on_success: tuple[Folder, ...] = HERE.folders
        self.last_operand: tuple[Folder, ...] = HERE.folders

    @property
    def folders(self) -> tuple[Folder, ...]:
        return self.current.folders

    def enter(self, folders: Iterable[Folder], on_success: Iterable[Folder] | None = None) -> None:
        """Note that what follows runs in one of ``folders``, or in one of ``on_success`` after ``&&``."""
        self.current = replace(self.current, folders=_limited(folders))
        self.on_success = self.folders if on_success is None else _limited(on_success)

    def run(self, words: Sequence[Word]) -> None:
        """Note the change of the folder by a command."""
        while words and words[0].text in _IN_SAME_SHELL:
            words = words[2:] if len(words) > 1 and words[1].text in ("-p", "--") else words[1:]
        if not words or (words[0].plain and words[0].text not in CHANGE_FOLDER and not words[0].text.startswith("-")):
            self.enter(self.folders)
        else:
            changed = [_join(folder, entered_folder(words)) for folder in self.folders]
            self.enter((*self.folders, *changed), on_success=changed)

    @contextmanager
    def after(self, operator: str) -> Generator[None]:
        """Within it, the right side of ``&&`` or ``||`` runs."""
        skipped, on_success = self.folders, self.on_success
        if operator == "&&":
            self.enter(on_success)
        start = self.folders
        yield
        self.last_operand = start if self.folders == start else (None,)
        succeeded = self.on_success if operator == "&&" else (*on_success, *self.on_success)
        self.enter((*skipped, *self.folders), on_success=succeeded)

    @contextmanager
    def input(self, redirected: str) -> Generator[None]:
        """Within it, commands may read this input."""
        before = self.current
        self.current = before.around(Surroundings(redirected=redirected))
        yield
        self.current = replace(before, folders=self.folders)

    @contextmanager
    def subshell(self, piped: str = "") -> Generator[None]:
        """Within it, changes of the folder do not affect what follows."""
        before = self.current
        self.current = before.around(Surroundings(piped))
        self.on_success = self.folders
        yield
        self.current = before
        self.on_success = self.folders


def _limited(folders: Iterable[Folder]) -> tuple[Folder, ...]:
    unique = tuple(dict.fromkeys(folders))
    return unique if len(unique) <= _MAX_FOLDERS else (None,)


def entered_folder(words: Sequence[Word]) -> Folder:
    """The folder that ``words`` enter, if it is a literal that means the same with and without links."""
    operands = words[2:] if len(words) > 1 and words[1].text == "--" else words[1:]
    if words[0].text not in ("cd", "pushd") or len(operands) != 1 or not operands[0].plain:
        return None
    folder = operands[0].text
    climbs = ".." in folder.lstrip("./").split("/") or (folder.startswith("/") and ".." in folder)
    return None if not folder or folder.startswith(("-", "+")) or climbs else folder


def _join(folder: Folder, nested: Folder) -> Folder:
    if folder is None or nested is None:
        return None
    if nested.startswith("..") and folder.strip("./"):
        return None  # ``cd link && cd ..`` leads to different folders with and without links
    return posixpath.join(folder, nested) if nested else folder
