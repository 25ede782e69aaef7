"""What a command changed is its own: not what others wrote meanwhile, and shared where two commands overlap."""

import stat
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
import pytest_asyncio

from deputy_agents.files.exact import FileState
from deputy_agents.snapshots.git import git_binary
from deputy_agents.snapshots.object_store import ObjectStore
from deputy_agents.snapshots.windows import Made, Windows, Write, gaps

pytestmark = [pytest.mark.asyncio, pytest.mark.requirement("R8")]
GIT = git_binary() or "git"


@pytest_asyncio.fixture
async def windows(workspace: Path, tmp_path: Path) -> AsyncGenerator[Windows]:
    (workspace / "a").write_text("one\n")
    store = ObjectStore(GIT, tmp_path / "repository", workspace)
    await store.open()
    yield Windows(store)
    await store.close()


def short(made: list[Made]) -> list[tuple[str, bytes | None, bytes | None, tuple[str, ...]]]:
    return [(m.path, m.before and m.before.data, m.after and m.after.data, m.others) for m in made]


async def test_a_window_has_what_changed_in_it(windows: Windows, workspace: Path) -> None:
    window = await windows.begin("s", "agent")
    (workspace / "a").write_text("two\n")
    (workspace / "b").write_text("new\n")
    await windows.end(window)
    (workspace / "a").write_text("three\n")  # afterwards
    await windows.boundary("s")
    assert short(window.made) == [("a", b"one\n", b"two\n", ()), ("b", None, b"new\n", ())]


async def test_what_was_there_before_a_window_is_not_in_it(windows: Windows, workspace: Path) -> None:
    await windows.boundary("s")
    (workspace / "a").write_text("by the user\n")
    window = await windows.begin("s", "agent")
    await windows.end(window)
    assert window.made == []


async def test_a_write_of_a_file_tool_is_not_the_change_of_a_command(windows: Windows, workspace: Path) -> None:
    window = await windows.begin("s", "agent")
    async with windows.writing("a"):
        (workspace / "a").write_text("by a tool\n")
    await windows.end(window)
    assert window.made == []


async def test_a_command_that_changes_a_file_around_a_tool_has_its_own_part(windows: Windows, workspace: Path) -> None:
    window = await windows.begin("s", "agent")
    (workspace / "a").write_text("by the command\n")
    async with windows.writing("a"):
        (workspace / "a").write_text("by a tool\n")
    (workspace / "a").write_text("by the command again\n")
    await windows.end(window)
    assert short(window.made) == [
        ("a", b"one\n", b"by the command\n", ()),
        ("a", b"by a tool\n", b"by the command again\n", ()),
    ]


async def test_where_windows_overlap_a_change_names_both(windows: Windows, workspace: Path) -> None:
    first = await windows.begin("s", "first")
    (workspace / "a").write_text("by the first\n")
    second = await windows.begin("s", "second")
    (workspace / "a").write_text("by one of them\n")
    await windows.end(first)
    (workspace / "a").write_text("by the second\n")
    await windows.end(second)
    assert short(first.made) == [
        ("a", b"one\n", b"by the first\n", ()),
        ("a", b"by the first\n", b"by one of them\n", ("second",)),
    ]
    assert short(second.made) == [("a", b"by one of them\n", b"by the second\n", ())]


async def test_each_of_two_sessions_gets_what_changed_in_both_of_its_windows(windows: Windows, workspace: Path) -> None:
    here, there = await windows.begin("here", "one"), await windows.begin("there", "other")
    (workspace / "a").write_text("two\n")
    await windows.end(here)
    await windows.end(there)
    assert short(here.made) == [("a", b"one\n", b"two\n", ("other",))]
    assert short(there.made) == [("a", b"one\n", b"two\n", ("one",))]


async def test_changes_between_turns_are_those_of_the_user(windows: Windows, workspace: Path) -> None:
    window = await windows.begin("s", "agent")
    await windows.boundary("s")
    (workspace / "a").write_text("by the user, while a process runs in the background\n")
    await windows.boundary("s", idle=True)
    await windows.end(window)
    assert window.made == []


async def test_gaps_between_writes() -> None:
    one, two, three = (FileState(stat.S_IFREG | 0o644, data) for data in (b"1", b"2", b"3"))
    assert list(gaps(one, two, [Write(one, two)])) == []
    assert list(gaps(one, three, [Write(one, two)])) == [(two, three)]
    assert list(gaps(None, None, [Write(None, one), Write(one, None)])) == []
    assert list(gaps(one, one, [Write(two, three)])) == [(one, two), (three, one)]
