"""The branch and the changed files of a Git repository, read without running any program that the repository names."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from anyio import to_thread

from deputy_agents.concurrency.owned_process import run_to_end
from deputy_agents.domain.errors import ToolError
from deputy_agents.shell.environment import environment
from deputy_agents.shell.git_config import GitCall, GitPrograms, git_programs

_MAX_STATUS: Final = 256 * 1024
"""Bytes of the status that are read. The rest is not counted."""
_STATUS: Final = ("--no-optional-locks", "status", "--porcelain=v2", "--branch", "--no-renames", "-z")


@dataclass(frozen=True, slots=True)
class GitState:
    """``branch`` is ``None`` at a detached head, ``upstream`` if there is none. ``changed`` are pairs of the letters
    that Git uses for a status (``M``, ``??``), and a path."""

    branch: str | None
    commit: str
    upstream: str | None = None
    ahead: int = 0
    behind: int = 0
    changed: tuple[tuple[str, str], ...] = ()
    complete: bool = True
    """Whether ``changed`` has all of them."""
    head: Path | None = None
    """The file that names the branch."""


async def git_state(folder: Path) -> GitState | None:
    """The state of the repository that contains ``folder``; ``None`` if there is none, Git is missing, or its
    configuration names programs that reading the state would run."""
    programs = await to_thread.run_sync(_programs, folder)
    if programs is None or programs.named:
        return None
    variables = {**environment((), str(folder), ""), **programs.variables}
    try:
        place = (await _git(folder, ("rev-parse", "--absolute-git-dir"), variables))[0]
        output, complete = await _git(folder, _STATUS, variables)
    except OSError:
        return None
    if not place or not output:
        return None
    return _parsed(output, complete=complete, head=Path(os.fsdecode(place.removesuffix(b"\n"))) / "HEAD")


def _programs(folder: Path) -> GitPrograms | None:
    """``None`` if no repository is found, which is faster than to ask Git, and if Git does not answer."""
    if not any((parent / ".git").exists() for parent in (folder, *folder.parents)):
        return None
    try:
        return git_programs([GitCall(folder, subcommand="status")])
    except ToolError:
        return None


def branch_at(head: Path) -> str | None:
    """The branch that the file ``head`` names; ``None`` at a detached head and if it cannot be read. Blocks briefly."""
    try:
        with head.open("rb") as file:
            text = file.read(4096).decode(errors="replace").strip()
    except OSError:
        return None
    return text.removeprefix("ref: refs/heads/") if text.startswith("ref: refs/heads/") else None


def _parsed(output: bytes, *, complete: bool, head: Path) -> GitState:
    """See the section "Porcelain Format Version 2" of ``git help status``."""
    fields = output.decode(errors="replace").split("\0")
    pairs = (field[2:].split(" ", 1) for field in fields if field.startswith("# "))
    headers = {pair[0]: pair[-1] for pair in pairs}
    branch = headers.get("branch.head", "(detached)")
    ahead, _, behind = headers.get("branch.ab", "+0 -0").partition(" ")
    changed = [entry for field in fields[: None if complete else -1] if (entry := _entry(field)) is not None]
    return GitState(
        None if branch == "(detached)" else branch,
        headers["branch.oid"][:12] if "branch.oid" in headers else "",
        headers.get("branch.upstream"),
        int(ahead),
        -int(behind or 0),
        tuple(changed),
        complete,
        head,
    )


def _entry(field: str) -> tuple[str, str] | None:
    match field[:2]:
        case "1 ":
            return field[2:4].strip("."), field.split(" ", 8)[8]
        case "u ":
            return field[2:4], field.split(" ", 10)[10]
        case "? ":
            return "??", field[2:]
        case _:
            return None


async def _git(folder: Path, words: tuple[str, ...], variables: Mapping[str, str]) -> tuple[bytes, bool]:
    """The output of Git, and whether it is complete; nothing if Git fails."""
    ran = await run_to_end(["git", *words], cwd=str(folder), env=variables, limit=_MAX_STATUS)
    return (ran.output if ran.code == 0 else b""), len(ran.output) < _MAX_STATUS
