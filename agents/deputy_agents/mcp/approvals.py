"""The user's approvals of MCP servers per folder, stored in a file that only the user can read."""

from collections.abc import Mapping
from pathlib import Path
from typing import cast

from deputy_agents.files.private_json import PrivateJson
from deputy_agents.guidance.mcp_entry import McpServerEntry

_VERSION = 1


class Approvals:
    """Persistent approvals and denials. Without a ``path`` they last as long as the process. All methods block;
    concurrent changes by several threads or processes are all stored."""

    def __init__(self, path: Path | None = None) -> None:
        self._file = PrivateJson(path)

    def get(self, folder: Path, entry: McpServerEntry) -> bool | None:
        """The user's answer for exactly this command line in this folder; ``None`` without an answer."""
        answer = self._read().get(str(folder), {}).get(entry.fingerprint)
        allowed = cast("Mapping[str, object]", answer).get("allowed") if isinstance(answer, dict) else None
        return allowed if isinstance(allowed, bool) else None

    def save(self, folder: Path, entry: McpServerEntry, allowed: bool | None) -> None:
        """Stores an answer; ``None`` deletes it.

        Raises:
            OSError: the file cannot be written.
        """
        with self._file.changing():
            folders = self._read()
            answers = folders.setdefault(str(folder), {})
            if allowed is None:
                answers.pop(entry.fingerprint, None)
            else:
                answers[entry.fingerprint] = {"server": entry.name, "line": entry.line, "allowed": allowed}
            stored = {path: answers for path, answers in folders.items() if answers}
            self._file.write({"version": _VERSION, "folders": stored})

    def _read(self) -> dict[str, dict[str, object]]:
        """All answers; empty if the file cannot be read, so that the user is asked again."""
        read = self._file.read()
        folders = cast("Mapping[str, object]", read).get("folders") if isinstance(read, dict) else None
        if not isinstance(folders, dict):
            return {}
        return {
            path: cast("dict[str, object]", answers)
            for path, answers in cast("dict[str, object]", folders).items()
            if isinstance(answers, dict)
        }
