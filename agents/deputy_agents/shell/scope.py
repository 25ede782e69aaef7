"""The folders that decide what the words of a command mean."""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from deputy_agents.files.sensitive import is_secret, is_secret_folder
from deputy_agents.shell.file_names import MAX_EFFORT_OF_A_LINE, TooManyNames, expand, is_wild, may_match, split
from deputy_agents.shell.surroundings import Folder
from deputy_agents.shell.word import Word

_SEPARATORS: Final = re.compile(r"[=:@,]")
_MAX_PARTS: Final = 100
"""Parts of a word that are looked up on the disk."""
_MAX_SECRETS: Final = 20
_MAX_ALTERNATIVES: Final = 50
_ALTERNATIVES: Final = re.compile(r"\{([^{}]*)\}")
_COMMON_SECRETS: Final = (
    *(".env", ".env.local", ".netrc", ".npmrc", ".pypirc", "id_rsa", "id_ed25519", "kubeconfig", ".git-credentials"),
    *("terraform.tfstate", ".vault-token", "server.pem", "tls.key", "credentials", "credentials.json", ".pgpass"),
    *("secrets.json", "secrets.yaml", "secrets.yml", "secrets.toml", ".ssh", ".aws", ".kube", ".docker"),
    *(".envrc", ".git"),
)
"""Names with which a pattern is compared that cannot be expanded."""


@dataclass(frozen=True, slots=True)
class Scope:
    """``start`` is the folder in which a line starts, ``session`` the folder of the session, in which commands are
    named without their folder, and ``roots`` are the workspace. All without links; ``None`` if there is none, and
    nothing is read from the disk then."""

    start: Path | None = None
    session: Path | None = None
    roots: Sequence[Path] = ()
    _effort: list[int] = field(default_factory=lambda: [MAX_EFFORT_OF_A_LINE], compare=False, repr=False)

    @classmethod
    def of(cls, start: Path | None, session: Path | None, roots: Sequence[Path]) -> Self:
        """The scope of a line in ``start``, by default also the folder of the session and the only root. Blocks."""
        if start is None:
            return cls()
        return cls(_real(start), _real(session or start), [_real(root) for root in roots or (start,)])

    def resolve(self, folder: Folder) -> Path | None:
        """``folder`` as an absolute path without links."""
        return None if folder is None or self.start is None else _real(self.start / folder)

    def shown(self, folder: Folder) -> str:
        """``folder`` as in the subject of rules; empty for the folder of the session."""
        path = self.resolve(folder)
        if path is None or self.session is None:
            return os.path.normpath(folder) if folder else ""
        if path == self.session:
            return ""
        return path.relative_to(self.session).as_posix() if path.is_relative_to(self.session) else path.as_posix()

    def is_inside(self, word: Word, folders: Sequence[Folder]) -> bool:
        """Whether ``word`` names nothing outside the workspace. Blocks."""
        if word.computed or word.text.startswith(("~", "@")):
            return False
        if word.globs:
            return all(self._expands_inside(word.pattern, folder) for folder in folders)
        texts = _texts(word.text)
        return len(texts) <= _MAX_PARTS and all(self._is_inside(text, folder) for text in texts for folder in folders)

    def secrets(self, word: Word, folders: Sequence[Folder]) -> list[str]:
        """The files that may hold secrets and that ``word`` names, below their root. Blocks."""
        if word.computed or not word.globs:
            texts = _texts(word.text)
            linked = (one for text in texts[:_MAX_PARTS] for folder in folders for one in self._linked(text, folder))
            found = [*filter(_is_secret, texts), *linked]
        else:
            found = [one for folder in folders for one in self._secrets_matching(word, folder)]
        return list(dict.fromkeys(found))[:_MAX_SECRETS]

    def _is_inside(self, text: str, folder: Folder) -> bool:
        if text.startswith("~"):
            return False
        base = self.resolve(folder)
        if base is None:
            return not text.startswith("/") and ".." not in text.split("/")
        return self._holds(_real(base / text))

    def _holds(self, path: Path) -> bool:
        return any(path.is_relative_to(root) for root in self.roots)

    def _expands_inside(self, pattern: str, folder: Folder) -> bool:
        base = self.resolve(folder)
        parts = split(pattern)
        climbs = any(part.startswith(".") and is_wild(part) and may_match(part, "..") for part in parts)
        if base is None or not pattern or climbs:
            return False
        wild = next((index for index, part in enumerate(parts) if is_wild(part)), len(parts))
        if ".." in parts[wild:] or not self._is_inside("/".join(parts[:wild]) or ".", folder):
            return False
        try:
            return all(self._holds(_real(base / path)) for path in expand(pattern, base, self._effort))
        except TooManyNames:
            return False

    def _linked(self, text: str, folder: Folder) -> list[str]:
        """The secret to which a link named ``text`` leads."""
        base = self.resolve(folder)
        if base is None:
            return []
        path = base / text
        real = _real(path)
        shown = self._below_root(real)
        return [shown] if real != path and _is_secret(shown) and os.path.lexists(path) else []

    def _below_root(self, path: Path) -> str:
        root = next((root for root in self.roots if path.is_relative_to(root)), None)
        return path.relative_to(root).as_posix() if root else path.as_posix()

    def _secrets_matching(self, word: Word, folder: Folder) -> list[str]:
        base, pattern = self.resolve(folder), word.pattern
        if not pattern:
            return []  # find inserts names
        if base is None:
            return _compared(word)
        if pattern.startswith("~"):
            home, _, pattern = pattern.partition("/")
            base = Path(os.path.expanduser(home))  # noqa: PTH111 - an unknown user is no error
        try:
            names = list(expand(pattern, base, self._effort)) if pattern else []
        except TooManyNames:
            return _compared(word)
        real = [self._below_root(_real(base / name)) for name in names]
        return list(filter(_is_secret, (word.text, *names, *real)))


def may_select_secrets(glob: str) -> bool:
    """Whether a glob of a search such as ``rg -g`` may select files that hold secrets and that the search would
    otherwise leave out, as it does with hidden files."""
    found = [glob]
    while (one := next(filter(_ALTERNATIVES.search, found), None)) is not None and len(found) < _MAX_ALTERNATIVES:
        found.remove(one)
        found += [_ALTERNATIVES.sub(lambda _, text=text: text, one, 1) for text in _alternatives(one)]
    names = [text.rsplit("/", 1)[-1] for text in found]
    selects = not glob.startswith("!") and any(may_match(one, name) for one in names for name in _COMMON_SECRETS)
    return selects or "{" in "".join(found)


def _alternatives(glob: str) -> list[str]:
    found = _ALTERNATIVES.search(glob)
    return found[1].split(",") if found else []


def _is_secret(text: str) -> bool:
    return is_secret(text) or is_secret_folder(text)


def _texts(text: str) -> list[str]:
    """``text``, and its parts that may be paths: ``--file=x``, ``HEAD:x``, ``-fx``."""
    texts = [text, text.partition("=")[2], *_SEPARATORS.split(text)]
    if text.startswith("-") and not text.startswith("--"):
        texts += [text[2:]]
    return [one for one in dict.fromkeys(texts) if one and "\0" not in one]


def _compared(word: Word) -> list[str]:
    last = next((part for part in reversed(split(word.pattern)) if part), "*")
    return [word.text] if any(may_match(last, name) for name in _COMMON_SECRETS) or is_secret(word.text) else []


def _real(path: Path) -> Path:
    """``path`` without links. The file need not exist."""
    try:
        return Path(os.path.realpath(path))
    except OSError:  # a link in `/proc` that this user cannot follow, so commands cannot either
        return path
