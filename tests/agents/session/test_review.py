"""What agents changed is listed hunk by hunk, kept and undone, and survives restarts."""

import asyncio
import errno
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from deputy_agents.domain.errors import InvalidRequest
from deputy_agents.domain.file_change import Approval, FileChange
from deputy_agents.domain.ids import new_id
from deputy_agents.domain.permission_mode import PermissionMode
from deputy_agents.domain.review import ChangesReviewed, ReviewStatus
from deputy_agents.files.encoding import FileVersion, file_version
from deputy_agents.model.scripted import call, calls, say, use
from deputy_agents.review.reviewed_file import ReviewedFile
from deputy_agents.session.review import GONE, Review, Selection
from deputy_agents.session.session import Session
from deputy_agents.store.sqlite import SqliteStore
from tests.support.core import Cast, Core, Person, core, delegate, edit, reopened
from tests.support.files import OpenDocuments

pytestmark = pytest.mark.asyncio

NUMBERS = "".join(f"{number}\n" for number in range(1, 10))
ALL = Selection(all=True)


def three_agents() -> Cast:
    """The primary changes line 1, then two children change lines 5 and 9; the second also creates a file."""
    return Cast(
        [
            call("read_file", path="a.txt"),
            calls([edit("a.txt", "1\n2", "one\n2")]),
            delegate("first", "last", mode="default"),
            say("done"),
        ],
        {
            "first": [call("read_file", path="a.txt"), calls([edit("a.txt", "5", "five")]), say("done")],
            "last": [
                call("read_file", path="a.txt"),
                calls([edit("a.txt", "9", "nine"), use("write_file", path="new.txt", content="new\n")]),
                say("done"),
            ],
        },
    )


CHANGED = "one\n2\n3\n4\nfive\n6\n7\n8\nnine\n"


@pytest.fixture
def folder(workspace: Path) -> Path:
    (workspace / "a.txt").write_text(NUMBERS)
    return workspace


@asynccontextmanager
async def changed(folder: Path) -> AsyncGenerator[Core]:
    async with core(folder, three_agents(), Person()) as c:
        await c.turn()
        assert (folder / "a.txt").read_text() == CHANGED
        yield c


async def files(session: Session, **which: object) -> list[ReviewedFile]:
    return (await session.review.unreviewed_files(**which))[0]  # pyright: ignore[reportArgumentType]


async def ids(session: Session) -> list[str]:
    return [hunk.hunk_id for one in await files(session) for hunk in one.hunks]


@pytest.mark.requirement("R1")
async def test_each_changed_file_is_listed_with_its_hunks_and_who_made_them(folder: Path) -> None:
    async with changed(folder) as c:
        text, new = await files(c.session)
        assert (text.path, text.status, new.path, new.status) == (
            str(folder / "a.txt"),
            "modified",
            str(folder / "new.txt"),
            "created",
        )
        assert [(hunk.start, hunk.base_lines, hunk.lines) for hunk in text.hunks] == [
            (0, ("1\n",), ("one\n",)),
            (4, ("5\n",), ("five\n",)),
            (8, ("9\n",), ("nine\n",)),
        ]
        authors = [text.changes(hunk)[0] for hunk in text.hunks]
        children = [c.child("first").info.agent_id, c.child("last").info.agent_id]
        assert [one.agent_id for one in authors] == [c.session.primary_id, *children]
        assert {one.turn_id for one in authors} == {c.session.view.last_turn and c.session.view.last_turn.turn_id}
        assert {one.approved for one in authors} == {Approval.USER}
        assert await c.seen(ReviewStatus, lambda body: body.hunks == 4) == ReviewStatus(2, 4, 4, 3)
        assert [one.path for one in await files(c.session, agent_ids={children[1]})] == [text.path, new.path]
        assert await files(c.session, turn_id="another") == []


@pytest.mark.requirement("R1")
async def test_a_list_that_is_requested_while_a_change_is_made_does_not_hide_it(folder: Path) -> None:
    path = folder / "a.txt"
    async with core(folder, Cast([say("done")])) as c:
        await c.turn()
        change = FileChange(new_id(), c.session.primary_id, 1, "call", str(path), NUMBERS, "one\n" + NUMBERS, 1.0)
        async with c.session.review.changes.making(change):
            assert await files(c.session) == []
            path.write_text("one\n" + NUMBERS)
        assert await c.seen(ReviewStatus, lambda body: body.hunks == 1) == ReviewStatus(1, 1, 1, 0)


@pytest.mark.requirement("R2")
async def test_one_hunk_a_file_an_agent_and_all_are_kept_and_undone(folder: Path) -> None:
    async with changed(folder) as c:
        review = c.session.review
        (first, *_), [new] = [[hunk.hunk_id for hunk in one.hunks] for one in await files(c.session)]
        assert (await review.keep(Selection(hunk_ids=(first,)))).done == [first]
        assert (await review.undo(Selection(path=str(folder / "new.txt")))).done == [new]
        assert not (folder / "new.txt").exists()
        undone = await review.undo(Selection(agent_ids=frozenset({c.child("first").info.agent_id})))
        assert len(undone.done) == 1
        assert (folder / "a.txt").read_text() == "one\n2\n3\n4\n5\n6\n7\n8\nnine\n"
        assert len((await review.keep(ALL)).done) == 1
        assert await files(c.session) == []
        assert (folder / "a.txt").read_text() == "one\n2\n3\n4\n5\n6\n7\n8\nnine\n"
        await c.seen(ChangesReviewed, lambda body: body.verb == "undone" and body.path.endswith("new.txt"))
        await c.seen(ReviewStatus, lambda body: body.hunks == 0)


@pytest.mark.requirement("R2")
async def test_a_hunk_that_is_gone_is_a_conflict_and_an_unknown_id_an_error(folder: Path) -> None:
    async with changed(folder) as c:
        first, *_ = await ids(c.session)
        await c.session.review.keep(Selection(hunk_ids=(first,)))
        again = await c.session.review.keep(Selection(hunk_ids=(first,)))
        assert (again.done, [(one.hunk_id, one.reason) for one in again.conflicts]) == ([], [(first, GONE)])
        for unknown in ("nothing", first[:-1] + ("0" if first[-1] != "0" else "1"), ""):
            with pytest.raises(InvalidRequest, match=r"hunkIds\[1\]"):
                await c.session.review.undo(Selection(hunk_ids=(first, unknown)))


@pytest.mark.requirement("R2")
async def test_lines_of_the_user_stay_and_overlapping_ones_are_a_named_conflict(folder: Path) -> None:
    async with changed(folder) as c:
        (folder / "a.txt").write_text(CHANGED.replace("one\n", "uno\n").replace("7\n", "7\nmine\n"))
        result = await c.session.review.undo(ALL)
        assert [one.reason for one in result.conflicts] == ["The same lines have been changed since."]
        assert (folder / "a.txt").read_text() == NUMBERS.replace("1\n", "uno\n").replace("7\n", "7\nmine\n")


@pytest.mark.requirement("R2")
async def test_the_agent_learns_what_was_undone_before_its_next_request(folder: Path) -> None:
    async with changed(folder) as c:
        await c.session.review.undo(Selection(path=str(folder / "new.txt")))
        await c.turn("go on")
        assert "new.txt" in str(c.requests()[-1].messages[-1].content)


@pytest.mark.requirement("R2")
async def test_open_documents_are_changed_by_the_editor_and_a_race_is_a_conflict(folder: Path) -> None:
    documents = OpenDocuments()
    async with changed(folder) as c:
        documents.show(folder / "a.txt", CHANGED + "being typed\n", version=7)
        c.session.workspace.buffers = documents
        first, second, *_ = await ids(c.session)
        await c.session.review.undo(Selection(hunk_ids=(first,)))
        assert documents.open[folder / "a.txt"].text == CHANGED.replace("one", "1") + "being typed\n"
        assert (folder / "a.txt").read_text() == CHANGED

        class Racing(OpenDocuments):
            async def apply(self, path: Path, new_text: str, *, version: int | None, label: str) -> None:
                self.show(path, self.open[path].text + "typed meanwhile\n", version=(version or 0) + 1)
                await super().apply(path, new_text, version=version, label=label)

        c.session.workspace.buffers = racing = Racing(documents.open)
        result = await c.session.review.undo(Selection(hunk_ids=(second,)))
        assert (result.done, [one.hunk_id for one in result.conflicts]) == ([], [second])
        assert racing.open[folder / "a.txt"].text.endswith("being typed\ntyped meanwhile\n")
        assert second in await ids(c.session)


async def test_blame_names_the_agents_of_a_line_before_and_after_it_is_kept(folder: Path) -> None:
    async with changed(folder) as c:
        path = str(folder / "a.txt")
        [entry] = await c.session.review.blame(path, 4)
        assert (entry.start, entry.end, entry.kept) == (4, 5, False)
        assert entry.info.agent_id == c.child("first").info.agent_id
        await c.session.review.keep(ALL)
        [entry] = await c.session.review.blame(path, 4)
        assert (entry.info.agent_id, entry.kept) == (c.child("first").info.agent_id, True)
        assert await c.session.review.blame(path, 2) == []


@pytest.mark.requirement("R1")
async def test_each_session_lists_its_own_changes_and_names_those_of_others_that_it_replaced(folder: Path) -> None:
    async with changed(folder) as c:
        other = await c.runtime.new_session(
            c.session.settings.client, cwd=folder, roots=[folder], permission_mode=PermissionMode.ACCEPT_EDITS
        )
        await other.review.changes.record([_change(folder / "a.txt", CHANGED, CHANGED.replace("one", "eins"))])
        (folder / "a.txt").write_text(CHANGED.replace("one", "eins"))
        [one] = await files(other)
        assert [info.label or "own" for info in one.changes(one.hunks[0])] == ["primary", "own"]
        mixed = [hunk.mixed for file in await files(c.session) for hunk in file.hunks]
        assert mixed == [True, False, False, False]


def _change(path: Path, before: str | None, after: str | None) -> FileChange:
    return FileChange(new_id(), "agent", 1, "call", str(path), before, after, time=2e9)


# -- changes by commands -----------------------------------------------------------------------------------------------


def by_command(
    path: Path, before: bytes | None, after: bytes | None, modes: tuple[int, int] = (0o644, 0o644)
) -> FileChange:
    """A change that a command has made."""
    versions: list[FileVersion] = [file_version(before, modes[0]), file_version(after, modes[1])]
    (old, old_form), (new, new_form) = versions
    if after is None:
        path.unlink()
    else:
        path.write_bytes(after)
        path.chmod(modes[1])
    return FileChange(new_id(), "agent", 1, "call", str(path), old, new, 1.0, before_form=old_form, after_form=new_form)


VERSIONS: list[tuple[bytes | None, bytes | None, tuple[int, int]]] = [
    (b"one\r\ntwo", b"one\r\nthree\n", (0o644, 0o644)),
    (b"text\n", b"text\n", (0o644, 0o755)),
    (b"text\n", b"other\n", (0o600, 0o444)),
    ("text äö\n".encode(), "text äö\n".encode("utf-16"), (0o644, 0o644)),
    (b"\xff caf\xe9\n", b"\xff cafe\n", (0o644, 0o644)),
    (b"\0binary\1", b"\0other\xff", (0o644, 0o755)),
    (b"text\n", b"\0binary", (0o644, 0o644)),
    (b"\xef\xbb\xbfmark\n", b"no mark\n", (0o640, 0o640)),
    (None, b"new\n", (0o644, 0o755)),
    (None, b"", (0o644, 0o644)),
    (None, b"\0new", (0o644, 0o644)),
    (b"gone\n", None, (0o751, 0o644)),
    (b"", None, (0o644, 0o644)),
    (b"\0gone", None, (0o700, 0o644)),
]


@pytest.mark.requirement("R2")
@pytest.mark.parametrize(("before", "after", "modes"), VERSIONS)
async def test_undo_restores_bytes_line_ends_encoding_mode_and_absence(
    folder: Path, before: bytes | None, after: bytes | None, modes: tuple[int, int]
) -> None:
    path = folder / "b.bin"
    if before is not None:
        path.write_bytes(before)
        path.chmod(modes[0])
    async with core(folder, Cast([]), Person()) as c:
        await c.session.review.changes.record([by_command(path, before, after, modes)])
        [listed] = await files(c.session)
        assert listed.status == ("created" if before is None else "deleted" if after is None else "modified")
        assert all(hunk.lines or hunk.base_lines or hunk.note for hunk in listed.hunks)
        result = await c.session.review.undo(ALL)
        assert (result.conflicts, len(result.done)) == ([], len(listed.hunks))
        assert (path.read_bytes() if path.exists() else None) == before
        assert before is None or path.stat().st_mode & 0o777 == modes[0]
        assert await files(c.session) == []


@pytest.mark.requirement("R2")
@pytest.mark.parametrize(("before", "after", "modes"), VERSIONS)
async def test_keep_changes_no_file_and_ends_the_hunks(
    folder: Path, before: bytes | None, after: bytes | None, modes: tuple[int, int]
) -> None:
    path = folder / "b.bin"
    if before is not None:
        path.write_bytes(before)
        path.chmod(modes[0])
    async with core(folder, Cast([]), Person()) as c:
        await c.session.review.changes.record([by_command(path, before, after, modes)])
        assert (await c.session.review.keep(ALL)).conflicts == []
        assert (path.read_bytes() if path.exists() else None) == after
        assert await files(c.session) == []


async def trouble(review: Review) -> tuple[list[str], list[str]]:
    result = await review.undo(ALL)
    return result.done, [one.reason for one in result.conflicts]


@pytest.mark.requirement("R2")
async def test_files_that_cannot_be_restored_are_conflicts_with_a_reason(folder: Path) -> None:
    path = folder / "b.txt"

    async def undone(make: str) -> str:
        path.write_text("2\n")
        async with core(folder, Cast([]), Person()) as c:
            await c.session.review.changes.record([_change(path, "1\n", "2\n")])
            {
                "link": lambda: (path.rename(folder / "c.txt"), path.symlink_to("c.txt")),
                "folder": lambda: (path.unlink(), path.mkdir()),
                "binary": lambda: path.write_bytes(b"\0\1"),
                "deleted": path.unlink,
                "read-only": lambda: path.chmod(0o444),
                "huge": lambda: path.write_text("x" * 11_000_000),
            }[make]()
            done, [reason] = await trouble(c.session.review)
            assert done == []
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)
        return reason

    assert "leads to another file" in await undone("link")
    assert "folder" in await undone("folder")
    assert "binary" in await undone("binary")
    assert "deleted" in await undone("deleted")
    assert "read-only" in await undone("read-only")
    assert "11,000,000 bytes" in await undone("huge")


# -- across processes --------------------------------------------------------------------------------------------------


@pytest.mark.requirement("R2")
async def test_the_review_goes_on_after_a_restart(folder: Path, tmp_path: Path) -> None:
    store = await asyncio.to_thread(SqliteStore.open, tmp_path / "state")
    async with core(folder, three_agents(), Person(), store=store) as c:
        await c.turn()
        first, second, third, new = await ids(c.session)
        await c.session.review.keep(Selection(hunk_ids=(first,)))
        await c.session.review.undo(Selection(hunk_ids=(second,)))
    async with reopened(store, c.session.id, folder) as session:
        assert await ids(session) == [third, new]
        [one] = await session.review.blame(str(folder / "a.txt"), 0)
        assert (one.kept, one.info.approved) == (True, Approval.USER)
        again = await session.review.undo(Selection(hunk_ids=(second,)))
        assert [(conflict.hunk_id, conflict.reason) for conflict in again.conflicts] == [(second, GONE)]
        assert (await session.review.undo(ALL)).conflicts == []
        assert (folder / "a.txt").read_text() == NUMBERS.replace("1\n", "one\n")
        assert not (folder / "new.txt").exists()
    async with reopened(store, c.session.id, folder) as session:
        assert await ids(session) == []
    await store.close()


class Killed(BaseException):
    """The process is killed."""


@pytest.mark.requirement("R2")
@pytest.mark.parametrize("written", [False, True])
async def test_after_a_crash_within_an_undo_the_file_is_old_or_new_and_so_are_its_hunks(
    folder: Path, tmp_path: Path, written: bool
) -> None:
    store = await asyncio.to_thread(SqliteStore.open, tmp_path / "state")
    async with core(folder, three_agents(), Person(), store=store) as c:
        await c.turn()
        before = await ids(c.session)
        write = c.session.workspace.write

        async def killed(*args: object, **named: object) -> int:
            if written:
                await write(*args, **named)  # pyright: ignore[reportArgumentType]
            raise Killed

        c.session.workspace.write = killed
        with pytest.raises(Killed):
            await c.session.review.undo(Selection(hunk_ids=(before[1],)))
    assert (folder / "a.txt").read_text() == (CHANGED.replace("five", "5") if written else CHANGED)
    async with reopened(store, c.session.id, folder) as session:
        assert await ids(session) == [one for one in before if one != before[1] or not written]
        assert (await session.review.undo(ALL)).conflicts == []
    assert (folder / "a.txt").read_text() == NUMBERS
    await store.close()


@pytest.mark.requirement("R2")
async def test_on_a_full_disk_nothing_changes_and_the_reason_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with changed(folder) as c:

        def full(_: int) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        before = await ids(c.session)
        monkeypatch.setattr(os, "fsync", full)
        result = await c.session.review.undo(Selection(path=str(folder / "a.txt")))
        monkeypatch.undo()
        assert (result.done, {one.reason.rpartition(": ")[2] for one in result.conflicts}) == (
            [],
            {"the disk is full."},
        )
        assert (folder / "a.txt").read_text() == CHANGED
        assert await ids(c.session) == before
        assert (await c.session.review.undo(ALL)).conflicts == []
