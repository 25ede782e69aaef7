"""File references in answers: checked against the files, enforced if required, and reported as locations."""

import asyncio
from functools import partial
from pathlib import Path

import pytest

from deputy_agents.domain.event import AgentFinished, Location, MessageAdded
from deputy_agents.domain.message import Reply, Text
from deputy_agents.domain.permission_mode import PermissionMode
from deputy_agents.domain.rule import AccessRequest, Action, DecisionKind, Rule
from deputy_agents.editor.references import Reference, check, references, references_at
from deputy_agents.files.workspace import Workspace
from deputy_agents.model.scripted import call, calls, say, use
from deputy_agents.permission.decide import Policy, allows
from deputy_agents.ports.model import ModelRequest
from deputy_agents.text import lines_without_ends
from tests.support.core import Cast, core, delegate, task_of
from tests.support.files import OpenDocuments


def cited(task: str, **more: object) -> Reply:
    return delegate(task, require_file_references=True, **more)


def last_text(request: ModelRequest) -> str:
    (block,) = request.messages[-1].content
    assert isinstance(block, Text)
    return block.text


@pytest.fixture
def file(workspace: Path) -> Path:
    path = workspace / "src" / "a.py"
    path.parent.mkdir()
    path.write_text("one\ntwo\nthree\n")
    return path


@pytest.mark.requirement("C7")
@pytest.mark.asyncio
async def test_answer_without_valid_references_is_sent_back_to_the_same_child(workspace: Path, file: Path) -> None:
    child = [say("Somewhere in the loop."), say("See src/a.py:90-95."), say("See `src/a.py:2-3`.")]
    async with core(workspace, Cast([cited("find it"), say("ok")], {"find it": child})) as c:
        await c.turn()
        assert c.told() == ["See `src/a.py:2-3`."]
        first, second, third = c.requests("find it")
        assert "exact file references" in task_of(first)
        assert last_text(second) == (
            "Your answer has no valid file reference. Cite code as `path:start-end` with lines that exist. "
            "Send the complete answer again."
        )
        assert "(src/a.py:90-95: the file has 3 lines)" in last_text(third)
        assert len(c.session.agents()) == 2


@pytest.mark.requirement("C7")
@pytest.mark.asyncio
async def test_after_two_corrections_the_answer_has_a_warning(workspace: Path) -> None:
    child = [say("Somewhere."), say("Really somewhere."), say("In gone.py:1.")]
    async with core(workspace, Cast([cited("find it"), say("ok")], {"find it": child})) as c:
        await c.turn()
        assert c.told() == [
            "In gone.py:1.\n\n[warning: the answer has no valid file reference (gone.py:1: the file does not exist)]"
        ]
        assert len(c.requests("find it")) == 3
        assert c.bodies(AgentFinished)[0].references == ()


@pytest.mark.requirement("C7")
@pytest.mark.asyncio
async def test_submitted_result_is_checked_too(workspace: Path, file: Path) -> None:
    child = [call("submit_result", result="Somewhere."), call("submit_result", result="At src/a.py:1.")]
    async with core(workspace, Cast([cited("find it"), say("ok")], {"find it": child})) as c:
        await c.turn()
        assert c.told() == ["At src/a.py:1."]


@pytest.mark.asyncio
async def test_references_are_not_enforced_unless_required(workspace: Path) -> None:
    async with core(workspace, Cast([delegate("find it"), say("ok")], {"find it": [say("Somewhere.")]})) as c:
        await c.turn()
        assert c.told() == ["Somewhere."]


@pytest.mark.requirement("X6")
@pytest.mark.asyncio
async def test_valid_references_are_reported_with_the_message_and_with_the_end_of_the_child(
    workspace: Path, file: Path
) -> None:
    answer = "In src/a.py:2-3, src/a.py#L1, gone.py:4 and src/a.py:9."
    cast = Cast([delegate("find it"), say("It is in src/a.py:1.")], {"find it": [say(answer)]})
    async with core(workspace, cast) as c:
        await c.turn()
        places = (Location(str(file), 2, 3), Location(str(file), 1, 1))
        assert c.bodies(AgentFinished)[0].references == places
        messages = {message.text: message.references for message in c.bodies(MessageAdded)}
        assert messages[answer] == places
        assert messages["It is in src/a.py:1."] == (Location(str(file), 1, 1),)


@pytest.mark.asyncio
async def test_references_are_relative_to_the_working_directory_of_the_child(workspace: Path, file: Path) -> None:
    fan_out = use("spawn_agents", tasks=[{"task": "find it", "cwd": "src"}])
    async with core(workspace, Cast([calls([fan_out]), say("ok")], {"find it": [say("a.py:2")]})) as c:
        await c.turn()
        assert c.bodies(AgentFinished)[0].references == (Location(str(file), 2, 2),)


# -- parsing -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("see a.py:3", [Reference("a.py", 3, None)]),
        ("`src/a.py:3-10`, then (b.py:1)", [Reference("src/a.py", 3, 10), Reference("b.py", 1, None)]),
        ("a.py#L3-L5 and a.py#L7", [Reference("a.py", 3, 5), Reference("a.py", 7, None)]),
        ("a.py:3 a.py:3", [Reference("a.py", 3, None)]),
        ("http://localhost:8080/x", []),
        ("at 12:30", [Reference("12", 30, None)]),
        ("nothing: here", []),
        ("a.py:" + "9" * 5000, []),
        ("a" * 50_000, []),
        ("#" * 50_000, []),
    ],
)
def test_references_are_found(text: str, found: list[Reference]) -> None:
    assert list(references(text)) == found


def only_plain_files(request: AccessRequest) -> bool:
    return request.action is Action.READ


@pytest.mark.parametrize(
    "reference",
    ["../out.txt:1", "/etc/hostname:1", ".env:1", "src:1", "gone:1", "src/a.py:0", "src/a.py:3-2", "\ud800:1"],
)
@pytest.mark.asyncio
async def test_reference_without_an_existing_location_is_a_problem(workspace: Path, file: Path, reference: str) -> None:
    (workspace / ".env").write_text("KEY=1\n")
    (workspace.parent / "out.txt").write_text("x\n")
    checked = await check(f"See {reference}.", await Workspace.open([workspace]), workspace, only_plain_files)
    assert checked.locations == ()
    assert len(checked.problems) == 1


@pytest.mark.asyncio
@pytest.mark.parametrize("name", ["src/a.py", "link.py"])
async def test_reference_to_a_file_that_rules_deny_reveals_nothing(workspace: Path, file: Path, name: str) -> None:
    (workspace / "link.py").symlink_to(file)
    deny = Policy(PermissionMode.BYPASS, [Rule("1", "*", DecisionKind.DENY, name)])
    checked = await check(f"{name}:99", await Workspace.open([workspace]), workspace, partial(allows, deny))
    assert checked.problems == (f"{name}:99: reading the file needs approval",)


@pytest.mark.asyncio
async def test_references_are_checked_against_unsaved_text(workspace: Path, file: Path) -> None:
    editor = OpenDocuments()
    editor.show(file, "one\ntwo\nthree\nfour\nfive\n")
    checked = await check("src/a.py:5", await Workspace.open([workspace], editor), workspace, lambda _: True)
    assert checked.locations == (Location(str(file), 5, 5),)


@pytest.mark.parametrize("part", [1, 2, 5, 13, 40])
def test_references_are_found_wherever_the_text_is_divided(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("a.py:1", "src/b.c:3-9", "x#L4-L5", "word", "a:1:2", "(c.d:7)", "http://a.b:8/c", "größe.py:12.", "e:" * 9)
    text = "".join(f"{first}{space}{second}\n" for first in words for second in words for space in (" ", "\t", ", "))
    whole = list(references_at(text))
    assert len(whole) > 300
    monkeypatch.setattr("deputy_agents.editor.references._PART", max(part, *map(len, words)))
    assert list(references_at(text)) == whole


@pytest.mark.parametrize("text", ["", "a", "\n", "a\n", "a\nb", "a\r\nb\r\n", "a\n\n", "a\rb"])
@pytest.mark.asyncio
async def test_last_line_of_a_file_can_be_referred_to(text: str, workspace: Path) -> None:
    await asyncio.to_thread((workspace / "a.txt").write_bytes, text.encode())
    count = len(lines_without_ends(text))
    files = await Workspace.open([workspace])
    checked = await check(f"a.txt:{count} a.txt:{count + 1}", files, workspace, lambda _: True)
    assert [at.start for at in checked.locations] == ([count] if count else [])
    assert checked.problems[-1] == f"a.txt:{count + 1}: the file has {count} lines"
