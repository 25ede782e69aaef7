# ruff: noqa: ASYNC220, ASYNC221 - the disk is the subject of these tests

import os
import random
import stat
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path

import pytest
from anyio import to_thread

from deputy_agents.files.exact import FileState, read_state
from deputy_agents.snapshots.git import SnapshotError, git_binary
from deputy_agents.snapshots.object_store import Changed, LeftOut, ObjectStore, oid_of
from deputy_agents.snapshots.repositories import compact, forget
from deputy_agents.snapshots.roots import NO_GIT, SnapshotRoots

pytestmark = [pytest.mark.asyncio, pytest.mark.requirement("R8")]
GIT = git_binary() or "git"
SESSION = "session"


@asynccontextmanager
async def store_of(workspace: Path, repository: Path) -> AsyncGenerator[ObjectStore]:
    store = ObjectStore(GIT, repository, workspace)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


def git(cwd: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=cwd, check=True, capture_output=True, timeout=30)


def contents(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """Every file below ``folder`` with its mode, its time and its content."""
    found = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    return {
        str(path.relative_to(folder)): (path.stat().st_mode, path.stat().st_mtime_ns, path.read_bytes())
        for path in found
    }


def summary(changed: tuple[Changed, ...]) -> dict[str, str]:
    """``+``, ``-`` or ``~`` for each changed file."""
    return {one.path: "+" if one.before is None else "-" if one.after is None else "~" for one in changed}


async def test_the_repository_of_the_user_stays_byte_for_byte_as_it_was(workspace: Path, tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    evil = tmp_path / "evil.sh"
    evil.write_text(f"#!/bin/sh\ntouch {marker}\ncat\n")
    evil.chmod(0o755)
    git(workspace, "init", "-q")
    for name, value in {
        "filter.evil.clean": str(evil),
        "filter.evil.smudge": str(evil),
        "core.fsmonitor": str(evil),
        "core.autocrlf": "input",
        "core.hooksPath": str(tmp_path),
        "user.name": "u",
        "user.email": "u@example.com",
    }.items():
        git(workspace, "config", name, value)
    Path.home().joinpath(".gitconfig").write_bytes((workspace / ".git" / "config").read_bytes())
    (workspace / ".gitattributes").write_text("* filter=evil text eol=crlf ident working-tree-encoding=UTF-16\n")
    (workspace / "a.txt").write_bytes(b"one\r\ntwo\n$Id$\n")
    before = contents(workspace / ".git")
    async with store_of(workspace, tmp_path / "repository") as store:
        first = await store.take(SESSION)
        (workspace / "a.txt").write_bytes(b"one\r\n2\n$Id$\n")
        (workspace / "b.txt").write_bytes(b"\xff\xfe\r\n")
        second = await store.take(SESSION)
        assert summary(second.changed) == {"a.txt": "~", "b.txt": "+"}
        for snapshot, text in ((first, b"one\r\ntwo\n$Id$\n"), (second, b"one\r\n2\n$Id$\n")):
            blob = (await store.files(snapshot.tree))["a.txt"]
            assert await store.read([blob.oid]) == {blob.oid: text}
    assert contents(workspace / ".git") == before
    assert not marker.exists()
    modes = {path: path.lstat().st_mode & 0o077 for path in (tmp_path / "repository").rglob("*")}
    assert {path for path, mode in modes.items() if mode} == set(), "others can read it"


async def test_modes_links_and_odd_names_are_kept(workspace: Path, tmp_path: Path) -> None:
    names = ["-dash", "two\nlines", "quote\"'", "tab\tand \\", os.fsdecode(b"\xff\xfe"), "d/e/f", "ünï"]
    for name in names:
        path = workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name.encode(errors="surrogateescape").hex())
    (workspace / "run").write_text("x")
    (workspace / "run").chmod(0o755)
    (workspace / "link").symlink_to("run")
    (workspace / "away").symlink_to("/etc")
    async with store_of(workspace, tmp_path / "repository") as store:
        snapshot = await store.take(SESSION)
        files = await store.files(snapshot.tree)
        assert files.keys() == {*names, "run", "link", "away"}
        assert files["link"].oid == oid_of(b"run")
        assert files["away"].is_link
        assert files["run"].mode == 0o100755
        (workspace / "run").chmod(0o600)
        (workspace / "link").unlink()
        (workspace / "link").write_text("run")
        (changed_link, changed_mode) = (await store.take(SESSION)).changed
        assert changed_link.path == "link"
        assert changed_link.before is not None
        assert changed_link.before.is_link
        assert changed_link.after is not None
        assert not changed_link.after.is_link
        assert changed_mode.after is not None
        assert stat.S_IMODE(changed_mode.after.mode) == 0o600


async def test_ignored_secret_and_large_files_are_left_out_and_counted(workspace: Path, tmp_path: Path) -> None:
    (workspace / ".gitignore").write_text("build/\n*.log\n")
    for name in ("build/out", "a.log", ".env", "keys/id_rsa", "a.py"):
        (workspace / name).parent.mkdir(exist_ok=True)
        (workspace / name).write_text("text")
    with (workspace / "large.bin").open("wb") as file:
        file.truncate(10 * 1024 * 1024 + 1)
    async with store_of(workspace, tmp_path / "repository") as store:
        snapshot = await store.take(SESSION)
        assert (await store.files(snapshot.tree)).keys() == {".gitignore", "a.py"}
        assert snapshot.left_out == LeftOut(secret=2, large=1)
        (workspace / "large.bin").write_bytes(b"small now")
        (workspace / "a.py").write_bytes(b"\0" * (10 * 1024 * 1024 + 1))
        snapshot = await store.take(SESSION)
        assert summary(snapshot.changed) == {"large.bin": "+"}, "one that became too large was not deleted"
        assert snapshot.left_out == LeftOut(secret=2, large=1)


async def test_a_change_of_an_ignore_file_changes_no_other_file(workspace: Path, tmp_path: Path) -> None:
    (workspace / ".gitignore").write_text("old/\n")
    for name in ("old/a", "new/b"):
        (workspace / name).parent.mkdir()
        (workspace / name).write_text("text")
        os.utime(workspace / name)
    async with store_of(workspace, tmp_path / "repository") as store:
        await store.take(SESSION)
        store._looked_at += 10**12  # pyright: ignore[reportPrivateUsage] # the files have been there for long
        (workspace / ".gitignore").write_text("new/\n")
        snapshot = await store.take(SESSION)
        assert summary(snapshot.changed) == {".gitignore": "~"}
        assert (await store.files(snapshot.tree)).keys() == {".gitignore", "old/a", "new/b"}


async def test_files_of_nested_repositories_are_plain_files(workspace: Path, tmp_path: Path) -> None:
    nested = workspace / "vendor" / "library"
    nested.mkdir(parents=True)
    git(nested, "init", "-q")
    (nested / "a.c").write_text("int a;\n")
    before = contents(nested / ".git")
    async with store_of(workspace, tmp_path / "repository") as store:
        assert (await store.files((await store.take(SESSION)).tree)).keys() == {"vendor/library/a.c"}
        (nested / "a.c").write_text("int b;\n")
        assert summary((await store.take(SESSION)).changed) == {"vendor/library/a.c": "~"}
    assert contents(nested / ".git") == before


async def test_no_link_leads_out_of_the_workspace(workspace: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a.txt").write_text("outside")
    (workspace / "d").mkdir()
    (workspace / "d" / "a.txt").write_text("inside")
    async with store_of(workspace, tmp_path / "repository") as store:
        await store.take(SESSION)
        (workspace / "d" / "a.txt").unlink()
        (workspace / "d").rmdir()
        (workspace / "d").symlink_to(outside)
        snapshot = await store.take(SESSION)
        assert summary(snapshot.changed) == {"d": "+", "d/a.txt": "-"}
        assert not await store.read([oid_of(b"outside")])


@pytest.mark.parametrize("seed", range(4))
async def test_snapshots_of_random_changes_equal_the_disk(seed: int, workspace: Path, tmp_path: Path) -> None:
    choose = random.Random(seed)
    names = [f"{folder}{name}" for folder in ("", "a/", "a/b/", "c/") for name in "xyz"]

    def disk() -> dict[str, FileState]:
        found = {name: read_state(workspace, name.split("/")) for name in names}
        return {name: state for name, state in found.items() if state is not None}

    async with store_of(workspace, tmp_path / "repository") as store:
        await store.take(SESSION)
        known = await to_thread.run_sync(disk)
        for step in range(12):
            for name in choose.sample(names, choose.randint(0, 5)):
                path = workspace / name
                match choose.choice(["write", "write", "delete", "mode", "link"]):
                    case "write" if not path.is_symlink():
                        path.parent.mkdir(parents=True, exist_ok=True)
                        path.write_text(f"{step % 3}")
                    case "mode" if path.is_file() and not path.is_symlink():
                        path.chmod(choose.choice([0o644, 0o755, 0o600]))
                    case "link" if not path.exists() and not path.is_symlink():
                        path.parent.mkdir(parents=True, exist_ok=True)
                        path.symlink_to("nowhere")
                    case _:
                        path.unlink(missing_ok=True)
            snapshot = await store.take(SESSION)
            now = await to_thread.run_sync(disk)
            assert {one.path for one in snapshot.changed} == {
                name for name in names if known.get(name) != now.get(name)
            }
            files = await store.files(snapshot.tree)
            assert {name: blob.oid for name, blob in files.items()} == {
                name: oid_of(state.data) for name, state in now.items()
            }
            known = now


async def test_the_next_process_continues_where_the_last_one_ended(workspace: Path, tmp_path: Path) -> None:
    (workspace / "a").write_text("one")
    (workspace / "b").write_text("one")
    (workspace / "b").chmod(0o600)
    async with store_of(workspace, tmp_path / "repository") as store:
        first = await store.take(SESSION)
    (workspace / "a").write_text("two")
    async with store_of(workspace, tmp_path / "repository") as store:
        second = await store.take(SESSION)
        assert second.changed == (), "nobody knows who changed it meanwhile"
        assert second.tree != first.tree
        (workspace / "b").unlink()
        (deleted,) = (await store.take(SESSION)).changed
        assert deleted.before is not None
        assert stat.S_IMODE(deleted.before.mode) == 0o600


async def test_a_damaged_index_costs_only_time(workspace: Path, tmp_path: Path) -> None:
    (workspace / "a").write_text("one")
    async with store_of(workspace, tmp_path / "repository") as store:
        await store.take(SESSION)
    (tmp_path / "repository" / "index").write_bytes(b"DIRC damaged")
    async with store_of(workspace, tmp_path / "repository") as store:
        assert (await store.files((await store.take(SESSION)).tree)).keys() == {"a"}


async def test_a_failed_snapshot_is_made_up_for_by_the_next(workspace: Path, tmp_path: Path) -> None:
    (workspace / "a").write_text("one")
    async with store_of(workspace, tmp_path / "repository") as store:
        first = await store.take(SESSION)
        (workspace / "a").write_text("two")
        objects = tmp_path / "repository" / "objects"
        objects.rename(objects.with_name("gone"))
        with pytest.raises(SnapshotError):
            await store.take(SESSION)
        objects.with_name("gone").rename(objects)
        second = await store.take(SESSION)
        assert second.tree != first.tree
        blob = (await store.files(second.tree))["a"]
        assert await store.read([blob.oid]) == {blob.oid: b"two"}


async def test_what_a_killed_process_left_is_removed(workspace: Path, tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    async with store_of(workspace, repository) as store:
        await store.take(SESSION)
    ended = subprocess.Popen(["true"])
    ended.wait()
    left = [
        repository / f"index-{ended.pid}-x",
        repository / f"index-{ended.pid}-x.lock",
        repository / "fast_import_crash_1",
    ]
    for path in left:
        path.write_text("x")
    async with store_of(workspace, repository):
        assert not any(path.exists() for path in left)


async def test_a_deleted_session_frees_its_space_and_leaves_that_of_others(workspace: Path, tmp_path: Path) -> None:
    repository = tmp_path / "checkpoints" / "one"
    async with store_of(workspace, repository) as store:
        (workspace / "a").write_text(sha256(b"1").hexdigest())
        first = await store.take("first")
        (workspace / "a").write_text(sha256(b"2").hexdigest())
        second = await store.take("second")
        await forget(repository, "first")
        await compact(repository)
        refs = subprocess.run(
            ["git", "--git-dir", repository, "for-each-ref"], capture_output=True, check=True, timeout=30
        ).stdout.decode()
        assert second.tree in refs
        assert first.tree not in refs
        assert (await store.files(second.tree)).keys() == {"a"}
        await forget(repository, "second")
    await compact(repository)
    assert not repository.exists()


async def test_without_git_the_reason_is_given(
    workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    git_binary.cache_clear()
    try:
        with pytest.raises(SnapshotError, match=NO_GIT):
            await SnapshotRoots(tmp_path / "state").windows(workspace)
    finally:
        git_binary.cache_clear()
