"""Where the broker of a sandboxed command may change files. Loaded for every such command, so it must load fast."""

import errno
import os

from deputy_agents.files.sensitive import protected_part
from deputy_agents.shell.refusal import PROTECTED, refusal_line


class GoOn(Exception):
    """The kernel decides about the call: Landlock and the mounts confine it."""


class Refused(PermissionError):
    """The sandbox does not allow the call."""

    def __init__(self, kind: str, what: str) -> None:
        super().__init__(errno.EACCES, os.strerror(errno.EACCES))
        self.line = refusal_line(kind, what)


class Areas:
    """Where files may be changed."""

    def __init__(self, free: list[str], roots: list[str], protected: list[str]) -> None:
        self._free = free
        self._roots = roots
        self._protected = protected

    @property
    def native(self) -> list[str]:
        """Folders in which the command can write by itself, because nothing of the workspace is below them."""
        return [free for free in self._free if not any(is_below(root, free) for root in self._roots)]

    def is_covered(self, path: str) -> bool:
        """Whether the broker decides about ``path``."""
        return any(is_below(path, folder) for folder in (*self._roots, *self._free))

    def is_own(self, path: str) -> bool:
        """Whether ``path`` is in the workspace."""
        return any(is_below(path, root) for root in self._roots)

    def require_changeable(self, path: str) -> None:
        """
        Raises:
            GoOn: the broker does not decide about this path.
            Refused: it is protected.
        """
        if not self.is_covered(path):
            raise GoOn
        if self.is_own(path) and self.is_protected(path):
            raise Refused(PROTECTED, path)

    def is_protected(self, path: str) -> bool:
        """Whether the path, or everything in it if it becomes a folder, is protected."""
        if any(is_below(path, one) for one in self._protected) or path in self._roots:
            return True
        for root in self._roots:
            if is_below(path, root):
                name = path[len(root) :].lstrip("/")
                if protected_part(name) or protected_part(f"{name}/any"):
                    return True
        return False


def is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")
