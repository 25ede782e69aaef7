"""Going back to a checkpoint, with files and conversation; forking; what the user has typed stays."""

import random
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import pytest_asyncio
from anyio import to_thread

from deputy_agents.domain.errors import InvalidRequest, WrongState
from deputy_agents.domain.event import MessageAdded
from deputy_agents.domain.message import Text
from deputy_agents.domain.permission_mode import PermissionMode
from deputy_agents.domain.review import CheckpointCreated, SessionRewound
from deputy_agents.domain.settings import Settings
from deputy_agents.domain.turn import Turn
from deputy_agents.model.scripted import call, calls, say, use
from deputy_agents.session.review import Selection
from deputy_agents.session.rewind import FORGOTTEN
from deputy_agents.session.session import Session
from deputy_agents.snapshots import roots
from deputy_agents.snapshots.roots import NO_GIT, SnapshotRoots
from deputy_agents.store import changes as stored_changes
from deputy_agents.store.sqlite import SqliteStore
from tests.support.core import Cast, Core, Line, Pause, core, delegate, edit

pytestmark = pytest.mark.asyncio

BYPASS = Settings(permission_mode=PermissionMode.BYPASS)
BEFORE = "one\ntwo\nthree\n"
FIRST: Sequence[Line] = (call("read_file", path="a.txt"), calls([edit("a.txt", "one", "1")]), say("first done"))
SECOND: Sequence[Line] = (
    calls([use("shell", command="sed -i s/three/3/ a.txt; echo new > b.txt; rm old.txt; chmod 755 run.sh")]),
    say("second done"),
)


@pytest.fixture
def folder(workspace: Path) -> Path:
    (workspace / "a.txt").write_text(BEFORE)
    (workspace / "old.txt").write_bytes(b"old\r\n\xff\0")
    (workspace / "run.sh").write_text("#!/bin/sh\n")
    (workspace / "run.sh").chmod(0o644)
    return workspace


@pytest_asyncio.fixture
async def store(tmp_path: Path) -> AsyncGenerator[SqliteStore]:
    opened = await to_thread.run_sync(SqliteStore.open, tmp_path / "state")
    yield opened
    await opened.close()


@asynccontextmanager
async def session_of(
    folder: Path, store: SqliteStore, *lines: Line, **children: Sequence[Line]
) -> AsyncGenerator[Core]:
    snapshots = SnapshotRoots(folder.parent / "state")
    script = Cast(lines, children)
    async with core(folder, script, settings=BYPASS, store=store, snapshots=snapshots) as c:
        yield c


def state_of(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {path.name: (path.read_bytes(), path.stat().st_mode & 0o777) for path in folder.iterdir() if path.is_file()}


async def ids(c: Core) -> dict[str, str]:
    """The checkpoints by title."""
    return {one.record.title: one.record.checkpoint_id for one in await c.session.rewind.checkpoints.list()}


async def shown(session: Session) -> list[str]:
    page = await session.transcript(session.primary_id)
    return [entry.body.text for entry in page.entries if isinstance(entry.body, MessageAdded)]


async def prompt(c: Core, text: str) -> Turn:
    """A turn for what the user writes, which may be a slash command."""
    turn = await c.session.prompts.accept((Text(text),))
    await c.finish(turn)
    return turn


@pytest.mark.requirement("R8")
async def test_what_a_command_changes_is_reviewed_like_an_edit(folder: Path, store: SqliteStore) -> None:
    before = state_of(folder)
    async with session_of(folder, store, *SECOND) as c:
        await c.turn("go")
        files, notes = await c.session.review.unreviewed_files()
        assert {Path(file.path).name: file.status for file in files} == {
            "a.txt": "modified",
            "b.txt": "created",
            "old.txt": "deleted",
            "run.sh": "modified",
        }
        assert notes == []
        (hunk,) = next(file for file in files if file.path.endswith("a.txt")).hunks
        assert hunk.lines == ("3\n",)
        undone = await c.session.review.undo(Selection(all=True))
        assert undone.conflicts == []
        assert state_of(folder) == before


@pytest.mark.requirement("R6")
async def test_rewinding_files_and_conversation_goes_back_to_before_the_turn(folder: Path, store: SqliteStore) -> None:
    async with session_of(folder, store, *FIRST, *SECOND, say("other")) as c:
        await c.turn("first\nmore")
        middle = state_of(folder)
        await c.turn("second")
        after = state_of(folder)
        listed = await c.session.rewind.checkpoints.list()
        assert [(one.record.title, one.files, one.added, one.removed) for one in listed] == [
            ("second", 4, 2, 3),
            ("first", 1, 1, 1),
        ]
        planned = await c.session.rewind.plan(listed[0].record.checkpoint_id)
        assert {Path(one.path).name: one.status for one in planned} == {
            "a.txt": "modified",
            "b.txt": "deleted",
            "old.txt": "created",
            "run.sh": "modified",
        }
        assert state_of(folder) == after, "a preview changes nothing"
        rewound = await c.session.rewind.rewind(listed[0].record.checkpoint_id, files=True, conversation=True)
        assert rewound.prompt == (Text("second"),)
        assert sorted(Path(path).name for path in rewound.files) == ["a.txt", "b.txt", "old.txt", "run.sh"]
        assert rewound.conflicts == []
        assert state_of(folder) == middle
        assert await shown(c.session) == ["first\nmore", "first done"]
        files, _ = await c.session.review.unreviewed_files()
        assert [Path(file.path).name for file in files] == ["a.txt"], "only the first turn's change is left"
        await c.turn("instead")
        assert [message.text for message in c.requests()[-1].messages if message.text] == [
            "first\nmore",
            "first done",
            "instead",
        ]
        assert [type(body) for body in c.bodies(CheckpointCreated)] == [CheckpointCreated] * 4
        assert c.bodies(SessionRewound) == [
            SessionRewound(listed[0].record.checkpoint_id, listed[0].record.turn_id, files=True, conversation=True)
        ]


@pytest.mark.requirement("R6")
async def test_a_rewind_can_be_undone(folder: Path, store: SqliteStore) -> None:
    async with session_of(folder, store, *FIRST, *SECOND, say("other"), say("third done")) as c:
        await c.turn("first")
        await c.turn("second")
        after = state_of(folder)
        await c.session.rewind.rewind((await ids(c))["first"], files=True, conversation=True)
        assert (folder / "a.txt").read_text() == BEFORE
        await c.turn("instead")
        left = (await ids(c))["Before going back to: first"]
        rewound = await c.session.rewind.rewind(left, files=True, conversation=True)
        assert rewound.conflicts == []
        assert state_of(folder) == after
        assert await shown(c.session) == ["first", "first done", "second", "second done"]
        assert {"first", "second", "Before going back to: first"} < (await ids(c)).keys()
        assert "instead" not in await ids(c)
        await c.turn("third")
        texts = [message.text for message in c.requests()[-1].messages if message.text]
        assert texts == ["first", "first done", "second", "second done", "third"]


@pytest.mark.requirement("R6")
async def test_lines_that_the_user_typed_stay_and_those_that_overlap_are_conflicts(
    folder: Path, store: SqliteStore
) -> None:
    async with session_of(folder, store, *FIRST, *SECOND) as c:
        await c.turn("first")
        await c.turn("second")
        (folder / "a.txt").write_text("mine\n1\ntwo\n3\n")
        (folder / "b.txt").write_text("new\nmine\n")
        before = state_of(folder)
        first = (await ids(c))["first"]
        rewound = await c.session.rewind.rewind(first, files=True, conversation=True)
        assert [Path(path).name for path, _ in rewound.conflicts] == ["b.txt"]
        assert rewound.files == []
        assert state_of(folder) == before
        assert await shown(c.session) == ["first", "first done", "second", "second done"]
        rewound = await c.session.rewind.rewind(first, files=True, conversation=True, skip_conflicts=True)
        assert [Path(path).name for path, _ in rewound.conflicts] == ["b.txt"]
        assert (folder / "a.txt").read_text() == "mine\n" + BEFORE
        assert (folder / "b.txt").read_text() == "new\nmine\n"
        assert (folder / "old.txt").read_bytes() == b"old\r\n\xff\0"


@pytest.mark.requirement("R6")
async def test_nothing_is_rewound_while_a_turn_runs(folder: Path, store: SqliteStore) -> None:
    pause = Pause(say("second done"))
    async with session_of(folder, store, *FIRST, pause) as c:
        await c.turn("first")
        second = c.start("second")
        await pause.asked.wait()
        with pytest.raises(WrongState):
            await c.session.rewind.rewind((await ids(c))["first"], files=True, conversation=True)
        pause.go.set()
        await c.finish(second)
        with pytest.raises(InvalidRequest):
            await c.session.rewind.rewind("nothing", files=True, conversation=True)


@pytest.mark.requirement("R6")
async def test_sub_agents_of_turns_gone_back_over_are_hidden(folder: Path, store: SqliteStore) -> None:
    lines = (delegate("look"), say("first done"), say("instead"))
    async with session_of(folder, store, *lines, look=[say("seen")]) as c:
        await c.turn("first")
        assert len(c.session.agents()) == 2
        await c.session.rewind.rewind((await ids(c))["first"], files=False, conversation=True)
        assert [node.info.agent_id for node in c.session.agents()] == [c.session.primary_id]
        stored = await store.events(c.session.id)
        assert sum(isinstance(event.body, MessageAdded) for event in stored) == 4, "nothing is erased"
        await c.turn("instead")
        assert len(c.requests()[-1].messages) == 1


@pytest.mark.requirement("R7")
async def test_a_fork_goes_on_from_a_checkpoint_and_leaves_the_other_session_as_it_is(
    folder: Path, store: SqliteStore
) -> None:
    lines = (*FIRST, *SECOND, say("third done"))
    async with session_of(folder, store, *lines) as c:
        await c.turn("first")
        await c.turn("second")
        before = state_of(folder)
        client = c.session.settings.client
        forked = await c.runtime.fork(client, c.session.id, (await ids(c))["second"], roots=[folder])
        assert state_of(folder) == before
        assert await shown(forked) == ["first", "first done"]
        assert forked.primary_id != c.session.primary_id
        turn = await forked.prompts.accept([Text("other")])
        await c.finish(turn)
        assert await shown(forked) == ["first", "first done", "other", "first done"]
        assert await shown(c.session) == ["first", "first done", "second", "second done"]
        whole = await c.runtime.fork(client, c.session.id, roots=[folder])
        assert await shown(whole) == await shown(c.session)
        assert [message.role for message in await store.history(whole.id, whole.primary_id)] == [
            message.role for message in await store.history(c.session.id, c.session.primary_id)
        ]


@pytest.mark.requirement("R7")
async def test_a_session_that_is_not_stored_cannot_be_forked(folder: Path) -> None:
    async with core(folder, Cast(FIRST), settings=BYPASS) as c:
        await c.turn("first")
        for checkpoint_id in (None, (await ids(c))["first"]):
            with pytest.raises(WrongState, match="memory only"):
                await c.runtime.fork(c.session.settings.client, c.session.id, checkpoint_id, roots=[folder])


@pytest.mark.requirement("R6")
async def test_files_with_changes_that_are_no_longer_stored_are_conflicts(
    folder: Path, store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_changes, "MAX_CHANGES", 50_000)
    large = call("write_file", path="large.txt", content=random.Random(0).randbytes(50_000).hex())
    async with session_of(folder, store, *FIRST, *SECOND, large, say("third done")) as c:
        await c.turn("first")
        await c.turn("second")
        await c.turn("third")
        before = state_of(folder)
        known = await ids(c)
        planned = await c.session.rewind.plan(known["second"])
        lost = {Path(one.path).name: one.conflict for one in planned if one.conflict}
        assert lost == dict.fromkeys(["a.txt", "b.txt", "old.txt", "run.sh"], FORGOTTEN)
        assert [Path(one.path).name for one in planned if not one.conflict] == ["large.txt"]
        rewound = await c.session.rewind.rewind(known["second"], files=True, conversation=True)
        assert {Path(path).name: reason for path, reason in rewound.conflicts} == lost
        assert (rewound.files, state_of(folder)) == ([], before)
        listed = {one.record.title: one.files for one in await c.session.rewind.checkpoints.list()}
        assert listed == {"third": 1, "second": 4, "first": 0}
        rewound = await c.session.rewind.rewind(known["third"], files=True, conversation=False)
        assert ([Path(path).name for path in rewound.files], rewound.conflicts) == (["large.txt"], [])


async def test_without_git_only_file_tools_are_covered_and_that_is_said(
    folder: Path, store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(roots, "git_binary", lambda: None)
    async with session_of(folder, store, *FIRST, *SECOND) as c:
        await c.turn("first")
        await c.turn("second")
        files, notes = await c.session.review.unreviewed_files()
        assert [Path(file.path).name for file in files] == ["a.txt"]
        assert notes == [NO_GIT]
        assert c.session.rewind.checkpoints.coverage.notes == (NO_GIT,)


@pytest.mark.requirement("R9")
async def test_slash_command_goes_back_by_number_or_id_and_can_be_undone(folder: Path, store: SqliteStore) -> None:
    before = state_of(folder)
    async with session_of(folder, store, *FIRST, *SECOND, say("third done")) as c:
        await c.turn("first")
        between = state_of(folder)
        await c.turn("second\nline")
        after = state_of(folder)
        turn = await prompt(c, "/rewind 1")
        assert state_of(folder) == between
        assert turn.command is not None
        assert turn.command.prompt == (Text("second\nline"),)
        told, report = (await shown(c.session))[-2:]
        assert told == "/rewind 1"
        assert report.startswith("Went back to before *second*. Restored: `a.txt`, `b.txt`, `old.txt`, `run.sh`.")
        assert report.endswith("The prompt was:\n> second\n> line\n\nTo undo this, send `/rewind 1`.")
        await prompt(c, "/rewind 1")
        assert state_of(folder) == after
        assert "second done" in await shown(c.session)
        first = (await ids(c))["first"]
        await prompt(c, f"/rewind {first} files")
        assert state_of(folder) == before
        assert "second done" in await shown(c.session), "the conversation stays"
        for wrong in ("/rewind 99", "/rewind 1 everything", "/rewind 1 files conversation"):
            await prompt(c, wrong)
        assert state_of(folder) == before
        assert (await shown(c.session))[-1].startswith("Use `/rewind NUMBER`")


@pytest.mark.requirement("R9")
async def test_slash_command_names_conflicts_and_skips_them_if_told_so(folder: Path, store: SqliteStore) -> None:
    async with session_of(folder, store, *FIRST, *SECOND) as c:
        await c.turn("first")
        await c.turn("second")
        (folder / "a.txt").write_text("mine\ntwo\nthree too\n")
        await prompt(c, "/rewind 2")
        report = (await shown(c.session))[-1]
        assert report.startswith("- `a.txt` cannot go back: ")
        assert report.endswith("send the command again with `skip`.")
        assert (folder / "b.txt").exists()
        await prompt(c, "/rewind 2 skip")
        assert not (folder / "b.txt").exists()
        assert (folder / "a.txt").read_text() == "mine\ntwo\nthree too\n"
        assert "- `a.txt` cannot go back" in (await shown(c.session))[-1]


@pytest.mark.requirement("R9")
async def test_slash_command_forks_and_neither_command_acts_while_a_turn_runs(folder: Path, store: SqliteStore) -> None:
    pause = Pause(say("second done"))
    async with session_of(folder, store, *FIRST, pause) as c:
        await c.turn("first")
        turn = await prompt(c, "/fork 1")
        assert turn.command is not None
        assert turn.command.forked is not None
        forked = await c.runtime.load(c.session.settings.client, turn.command.forked, roots=[folder])
        assert await shown(forked) == []
        await prompt(c, "/fork")
        assert "continues in a new one too" in (await shown(c.session))[-1]
        running = await c.session.prompts.accept((Text("second"),))
        await pause.asked.wait()
        for command in ("/rewind 1", "/fork"):
            with pytest.raises(WrongState):
                await c.session.prompts.accept((Text(command),), queue=True)
        assert (folder / "a.txt").read_text() != BEFORE
        pause.go.set()
        await running.result()
