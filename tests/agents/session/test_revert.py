# ruff: noqa: ASYNC240 - the disk is the subject of these tests
"""The edits of one agent are reverted together, and nothing else is changed."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from deputy_agents.clock import SystemClock
from deputy_agents.domain.errors import ToolError, UnknownAgent, WrongState
from deputy_agents.domain.file_change import FileChange
from deputy_agents.domain.ids import new_id
from deputy_agents.domain.message import Text
from deputy_agents.events.event_log import EventLog
from deputy_agents.events.view import View
from deputy_agents.files.workspace import Workspace
from deputy_agents.model.scripted import call, calls, say, use
from deputy_agents.redact import Redactor
from deputy_agents.session.change_tracker import ChangeTracker
from deputy_agents.session.review import Reverted, Review
from deputy_agents.store.memory import MemoryStore
from deputy_agents.store.sqlite import SqliteStore
from tests.support.core import Cast, Core, Person, core, delegate, edit, reopened, silent
from tests.support.files import OpenDocuments
from tests.support.stored_sessions import record

pytestmark = pytest.mark.asyncio

BEFORE = "one\ntwo\nthree\n"


def two_editors() -> Cast:
    """A child changes the first line and makes a file; another one changes the last line."""
    return Cast(
        [delegate("first", "last", mode="default"), say("ok"), say("I see")],
        {
            "first": [
                call("read_file", path="a.txt"),
                calls([edit("a.txt", "one", "1"), use("write_file", path="new.txt", content="new\n")]),
                say("done"),
            ],
            "last": [call("read_file", path="a.txt"), calls([edit("a.txt", "three", "3")]), say("done")],
        },
    )


async def edited(c: Core, folder: Path) -> str:
    """The id of the first child, when both have ended."""
    await c.turn()
    assert (folder / "a.txt").read_text() == "1\ntwo\n3\n"
    return c.child("first").info.agent_id


@pytest.fixture
def folder(workspace: Path) -> Path:
    (workspace / "a.txt").write_text(BEFORE)
    return workspace


@pytest.mark.requirement("X4")
async def test_all_edits_of_one_child_are_reverted_and_those_of_its_sibling_stay(folder: Path) -> None:
    async with core(folder, two_editors(), Person()) as c:
        agent_id = await edited(c, folder)
        reverted = await c.session.revert(agent_id)
        assert reverted == Reverted((str(folder / "a.txt"), str(folder / "new.txt")), ())
        assert (folder / "a.txt").read_text() == "one\ntwo\n3\n"
        assert not (folder / "new.txt").exists()


async def test_what_was_reverted_is_not_reverted_again(folder: Path) -> None:
    async with core(folder, two_editors(), Person()) as c:
        agent_id = await edited(c, folder)
        await c.session.revert(agent_id)
        (folder / "a.txt").write_text("1\ntwo\n3\n")  # the user likes it after all
        assert await c.session.revert(agent_id) == Reverted((), ())
        assert (folder / "a.txt").read_text() == "1\ntwo\n3\n"


async def test_primary_is_notified_of_a_revert_before_its_next_request(folder: Path) -> None:
    async with core(folder, two_editors(), Person()) as c:
        await c.session.revert(await edited(c, folder))
        await c.turn("go on")
        told = [block.text for block in c.requests()[-1].messages[-1].content if isinstance(block, Text)]
        assert any("reverted the edits that [first] made to: " in text and "new.txt" in text for text in told)


@pytest.mark.requirement("X4")
async def test_a_file_whose_same_lines_were_changed_since_is_left_alone_and_named(folder: Path) -> None:
    async with core(folder, two_editors(), Person()) as c:
        agent_id = await edited(c, folder)
        (folder / "a.txt").write_text("eins\ntwo\n3\n")
        reverted = await c.session.revert(agent_id)
        conflict = (str(folder / "a.txt"), "The same lines have been changed since.")
        assert reverted == Reverted((str(folder / "new.txt"),), (conflict,))
        assert (folder / "a.txt").read_text() == "eins\ntwo\n3\n"


async def test_a_file_that_was_made_and_then_changed_by_somebody_else_stays(folder: Path) -> None:
    async with core(folder, two_editors(), Person()) as c:
        agent_id = await edited(c, folder)
        (folder / "new.txt").write_text("new\nand mine\n")
        assert (await c.session.revert(agent_id)).conflicts == (
            (str(folder / "new.txt"), "It has been changed since it was created."),
        )
        assert (folder / "new.txt").read_text() == "new\nand mine\n"


async def test_path_that_leads_elsewhere_now_is_not_followed(folder: Path) -> None:
    async with core(folder, two_editors(), Person()) as c:
        agent_id = await edited(c, folder)
        (folder / "a.txt").rename(folder / "moved.txt")
        (folder / "a.txt").symlink_to("moved.txt")
        assert (await c.session.revert(agent_id)).conflicts == (
            (str(folder / "a.txt"), "Its path now leads to another file."),
        )
        assert (folder / "moved.txt").read_text() == "1\ntwo\n3\n"


async def test_with_its_children_everything_of_the_session_is_reverted(folder: Path) -> None:
    async with core(folder, two_editors(), Person()) as c:
        await edited(c, folder)
        assert await c.session.revert(c.session.primary_id) == Reverted((), ())
        reverted = await c.session.revert(c.session.primary_id, include_children=True)
        assert reverted.conflicts == ()
        assert [(path.name, path.read_text()) for path in folder.iterdir()] == [("a.txt", BEFORE)]


async def test_running_agent_must_be_stopped_before_its_edits_are_reverted(folder: Path) -> None:
    async with core(folder, two_editors(), silent()) as c:
        turn = c.start()
        request = await c.permission_request()
        for agent_id in (request.agent.agent_id, c.session.primary_id):
            with pytest.raises(WrongState, match="Stop it"):
                await c.session.revert(agent_id)
        with pytest.raises(UnknownAgent):
            await c.session.revert("nobody")
        await c.session.cancel()
        await c.finish(turn)
        assert await c.session.revert(request.agent.agent_id) == Reverted((), ())


# -- beneath a session -------------------------------------------------------------------------------------------------


def change(path: Path, before: str | None, after: str) -> FileChange:
    return FileChange(new_id(), "agent", 1, "call", str(path), before, after)


@asynccontextmanager
async def keeping(workspace: Workspace, *made: FileChange) -> AsyncGenerator[Review]:
    """What was made by agents of a session without any."""
    store = MemoryStore()
    await store.create(record())
    log = EventLog("s", store, SystemClock(), View())
    async with asyncio.TaskGroup() as tasks:
        writer = tasks.create_task(log.run())
        changes = ChangeTracker(log)
        for one in made:
            async with changes.making(one):
                pass
        yield Review(workspace, log, changes, lambda _: None)
        writer.cancel()


async def test_open_documents_are_changed_and_deleted_by_the_editor(folder: Path) -> None:
    documents = OpenDocuments()
    documents.show(folder / "a.txt", "1\ntwo, being typed\n", version=7)
    documents.show(folder / "new.txt", "new\n")
    (folder / "new.txt").write_text("new\n")
    made = change(folder / "a.txt", "one\n", "1\n"), change(folder / "new.txt", None, "new\n")
    async with keeping(Workspace([folder], documents), *made) as kept:
        assert (await kept.revert({"agent"}, "worker")).conflicts == ()
    assert documents.open[folder / "a.txt"].text == "one\ntwo, being typed\n"
    assert (folder / "a.txt").read_text() == BEFORE
    assert not (folder / "new.txt").exists()
    assert documents.applied == ["worker: edits reverted"] * 2


async def test_a_cancelled_edit_that_was_made_all_the_same_can_be_reverted(folder: Path) -> None:
    class Late(OpenDocuments):
        """Applies an edit, and is cancelled before it can say so."""

        async def apply(self, path: Path, new_text: str, *, version: int | None, label: str) -> None:
            await super().apply(path, new_text, version=version, label=label)
            applied.set()
            await asyncio.Event().wait()

    applied = asyncio.Event()
    documents = Late()
    documents.show(folder / "a.txt", BEFORE)
    async with core(folder, Cast([call("read_file", path="a.txt"), calls([edit("a.txt", "one", "1")])]), Person()) as c:
        c.session.workspace.buffers = documents
        turn = c.start()
        async with asyncio.timeout(20):
            await applied.wait()
        await c.session.cancel()
        await c.finish(turn)
        c.session.workspace.buffers = OpenDocuments(documents.open)
        assert (await c.session.revert(c.session.primary_id)).files == (str(folder / "a.txt"),)
        assert documents.open[folder / "a.txt"].text == BEFORE


# -- across processes --------------------------------------------------------------------------------------------------


@pytest.mark.requirement("X4")
async def test_what_an_earlier_process_has_changed_can_be_reverted(folder: Path, tmp_path: Path) -> None:
    store = await asyncio.to_thread(SqliteStore.open, tmp_path / "state")
    async with core(folder, two_editors(), Person(), store=store) as c:
        agent_id = await edited(c, folder)
    async with reopened(store, c.session.id, folder) as session:
        assert (await session.revert(agent_id)).files == (str(folder / "a.txt"), str(folder / "new.txt"))
        assert (folder / "a.txt").read_text() == "one\ntwo\n3\n"
    (folder / "a.txt").write_text("1\ntwo\n3\n")  # the user likes it after all
    async with reopened(store, c.session.id, folder) as session:
        assert await session.revert(agent_id) == Reverted((), ())
    await store.close()


async def test_text_with_a_secret_is_not_stored_and_only_reverted_in_the_same_process(
    folder: Path, tmp_path: Path
) -> None:
    secret = "open sesame"
    (folder / "a.txt").write_text(f"one\n{secret}\n")
    store = await asyncio.to_thread(SqliteStore.open, tmp_path / "state", Redactor({"DOOR_KEY": secret}).json)
    cast = Cast([call("read_file", path="a.txt"), calls([edit("a.txt", "one", "1")]), say("done")])
    async with core(folder, cast, Person(), store=store) as c:
        await c.turn()
        assert (await c.session.revert(c.session.primary_id)).files == (str(folder / "a.txt"),)
        assert (folder / "a.txt").read_text() == f"one\n{secret}\n"
    cast = Cast([call("read_file", path="a.txt"), calls([edit("a.txt", "one", "1")]), say("done")])
    async with core(folder, cast, Person(), store=store) as c:
        await c.turn()
    async with reopened(store, c.session.id, folder) as session:
        reverted = await session.revert(session.primary_id)
        assert reverted.files == ()
        [(path, why)] = reverted.conflicts
        assert path == str(folder / "a.txt")
        assert "contained a secret" in why
    await store.close()
    stored = b"".join(path.read_bytes() for path in (tmp_path / "state").glob("sessions.db*"))
    assert secret.encode() not in stored


async def test_a_change_is_stored_before_it_is_made(folder: Path, tmp_path: Path) -> None:
    store = await asyncio.to_thread(SqliteStore.open, tmp_path / "state")
    kept_before: list[int] = []

    class Watched(OpenDocuments):
        async def apply(self, path: Path, new_text: str, *, version: int | None, label: str) -> None:
            kept_before.append(len(await store.changes(c.session.id)))
            await super().apply(path, new_text, version=version, label=label)

    documents = Watched()
    documents.show(folder / "a.txt", BEFORE)
    cast = Cast([call("read_file", path="a.txt"), calls([edit("a.txt", "one", "1")]), say("done")])
    async with core(folder, cast, Person(), store=store) as c:
        c.session.workspace.buffers = documents
        await c.turn()
    assert kept_before == [1]
    await store.close()


async def test_an_edit_that_was_rejected_leaves_nothing_to_revert(folder: Path) -> None:
    class Refusing(OpenDocuments):
        async def apply(self, path: Path, new_text: str, *, version: int | None, label: str) -> None:
            raise ToolError("The editor refused.")

    documents = Refusing()
    documents.show(folder / "a.txt", BEFORE)
    cast = Cast([call("read_file", path="a.txt"), calls([edit("a.txt", "one", "1")]), say("done")])
    async with core(folder, cast, Person()) as c:
        c.session.workspace.buffers = documents
        await c.turn()
        await c.session.log.flush()
        assert list(await c.store.changes(c.session.id)) == []
