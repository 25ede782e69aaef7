"""The files in which answers of the user are saved as rules: a personal one in the project, and the user's own."""

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from deputy_agents.domain.errors import InvalidRequest
from deputy_agents.domain.rule import DecisionKind, Rule, RuleScope
from deputy_agents.guidance.library import Library
from deputy_agents.guidance.settings_writer import add_rules, remove_rule
from deputy_agents.guidance.workspace_settings import FILE, LOCAL_FILE

_IGNORED: Final = "**/.deputy/settings.local.json"
_GIT_FOLDER: Final = "gitdir:"
_MAX_LINK: Final = 4096


class RuleFiles:
    """Those of the workspace that ``library`` is about."""

    def __init__(self, library: Library) -> None:
        self._library = library

    def name(self, scope: RuleScope) -> str:
        """The file of ``scope``, for messages."""
        roots = self._library.roots
        file = self._library.user_file if scope is RuleScope.USER else roots[0].joinpath(*LOCAL_FILE) if roots else None
        return str(file or scope.value)

    def add(self, rules: Sequence[Rule], scope: RuleScope) -> None:
        """Add ``rules`` to the file of ``scope``. Blocks.

        Raises:
            InvalidRequest: there is no such file, or it cannot be written.
        """
        file = self._file(scope)
        if scope is RuleScope.PROJECT:
            root = self._library.roots[0]
            allowing = [rule for rule in rules if rule.decision is DecisionKind.ALLOW]
            try:
                self._library.answered.add(root, allowing)
            except (OSError, TimeoutError) as error:
                raise InvalidRequest(f"The answer cannot be stored: {error}") from None
            keep_out_of_git(root)
        add_rules(file, rules)

    def has(self, rule: Rule) -> bool:
        """Whether ``rule`` is in a settings file of the user or the workspace."""
        return rule.source in map(str, self._all())

    def remove(self, rule: Rule) -> None:
        """Remove ``rule`` from its file. Blocks.

        Raises:
            InvalidRequest: it is in none, or the file cannot be written.
        """
        if not self.has(rule):
            raise InvalidRequest(f"This rule is in no settings file, but from {rule.source}.", "ruleId")
        remove_rule(Path(rule.source), rule)
        for root in self._library.roots:
            if rule.source == str(root.joinpath(*LOCAL_FILE)):
                with suppress(OSError, TimeoutError):  # without its entry in the file, it has no effect
                    self._library.answered.remove(root, rule)

    def _all(self) -> Sequence[Path]:
        own = self._library.user_file
        roots = self._library.roots
        return [*([own] if own else []), *(root.joinpath(*name) for root in roots for name in (FILE, LOCAL_FILE))]

    def _file(self, scope: RuleScope) -> Path:
        if scope is RuleScope.USER:
            if (own := self._library.user_file) is None:
                raise InvalidRequest("This account has no home folder, so it has no settings file.")
            return own
        if not self._library.roots:
            raise InvalidRequest("There is no workspace folder, so it has no settings file.")
        return local_file(self._library.roots[0])


def local_file(root: Path) -> Path:
    """The personal settings file of the project in ``root``.

    Raises:
        InvalidRequest: its folder leads elsewhere.
    """
    file = root.joinpath(*LOCAL_FILE)
    if Path(os.path.realpath(file)) != Path(os.path.realpath(root)).joinpath(*LOCAL_FILE):
        raise InvalidRequest(f"{file} is a link, or in a folder that is one. Replace the link by a file.")
    return file


def keep_out_of_git(root: Path) -> None:
    """Exclude the personal settings file from the repository that ``root`` is in, if any. Blocks."""
    with suppress(OSError, UnicodeDecodeError):
        folder = _git_folder(root)
        if folder is None:
            return
        file = folder / "info" / "exclude"
        text = file.read_text("utf-8") if file.exists() else ""
        if _IGNORED not in text.splitlines():
            file.parent.mkdir(exist_ok=True)
            separator = "" if not text or text.endswith("\n") else "\n"
            with file.open("a", encoding="utf-8") as opened:
                opened.write(f"{separator}{_IGNORED}\n")


def _git_folder(root: Path) -> Path | None:
    """The folder of the repository with its exclude file."""
    for folder in (root, *root.parents):
        found = folder / ".git"
        if found.is_dir() and not found.is_symlink() and (found / "HEAD").is_file():
            return found
        if found.is_file():
            return _linked_git_folder(found)
    return None


def _linked_git_folder(file: Path) -> Path | None:
    """The folder of the repository that a linked worktree belongs to. It must know the worktree: the file may come from
    elsewhere, and name any folder."""
    text = file.read_text("utf-8")[:_MAX_LINK].strip()
    if not text.startswith(_GIT_FOLDER):
        return None
    own = (file.parent / text.removeprefix(_GIT_FOLDER).strip()).resolve()
    back = own / "gitdir"
    if not back.is_file() or Path(back.read_text("utf-8").strip()).resolve() != file.resolve():
        return None
    common = own / (own / "commondir").read_text("utf-8").strip()
    return common.resolve() if (common / "HEAD").is_file() else None
