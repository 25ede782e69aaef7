"""The state of real Git repositories, read without running what they name."""

import subprocess
from pathlib import Path

import pytest
from anyio import to_thread

from deputy_agents.project.git_state import branch_at, git_state

pytestmark = [pytest.mark.asyncio, pytest.mark.requirement("M8")]


def git(folder: Path, *words: str) -> None:
    subprocess.run(["git", "-c", "user.name=A", "-c", "user.email=a@example.com", *words], cwd=folder, check=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch", "main")
    (folder / "a b.txt").write_text("one\n")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message", "first")
    return folder


async def test_branch_and_changed_files(repository: Path) -> None:
    (repository / "a b.txt").write_text("two\n")
    (repository / "new\n.txt").write_text("")
    state = await git_state(repository)
    assert state is not None
    assert (state.branch, state.changed, state.complete) == ("main", (("M", "a b.txt"), ("??", "new\n.txt")), True)
    assert state.head == repository / ".git" / "HEAD"


async def test_a_change_of_the_branch_is_seen_in_a_linked_worktree(repository: Path) -> None:
    linked = repository.parent / "linked"
    git(repository, "worktree", "add", "--quiet", "-b", "side/one", str(linked))
    (linked / "inner").mkdir()
    state = await git_state(linked / "inner")
    assert state is not None
    assert state.branch == "side/one"
    assert state.head is not None
    git(linked, "switch", "--quiet", "--create", "side/two")
    assert await to_thread.run_sync(branch_at, state.head) == "side/two"
    git(linked, "switch", "--quiet", "--detach")
    assert await to_thread.run_sync(branch_at, state.head) is None


async def test_distance_from_the_upstream_branch(repository: Path) -> None:
    clone = repository.parent / "clone"
    git(repository.parent, "clone", "--quiet", str(repository), str(clone))
    git(clone, "commit", "--quiet", "--allow-empty", "--message", "second")
    state = await git_state(clone)
    assert state is not None
    assert (state.upstream, state.ahead, state.behind) == ("origin/main", 1, 0)


async def test_a_repository_without_a_commit_has_a_branch(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet", "--initial-branch", "trunk")
    state = await git_state(tmp_path)
    assert state is not None
    assert (state.branch, state.changed) == ("trunk", ())


@pytest.mark.parametrize("setting", ["filter.x.clean", "core.fsmonitor"])
async def test_no_program_of_the_repository_runs(repository: Path, setting: str) -> None:
    canary = repository.parent / "canary"
    program = repository.parent / "program"
    program.write_text(f"#!/bin/sh\ntouch '{canary}'\ncat\n")
    program.chmod(0o755)
    git(repository, "config", setting, str(program))
    (repository / ".gitattributes").write_text("*.txt filter=x\n")
    (repository / "a b.txt").write_text("two\n")
    state = await git_state(repository)
    assert not canary.exists()
    assert (state is None) == setting.startswith("filter")


async def test_no_repository_no_state(tmp_path: Path) -> None:
    assert await git_state(tmp_path) is None
    (tmp_path / ".git").mkdir()
    assert await git_state(tmp_path) is None
