"""All edits of one agent are approved for one turn, and nothing else is."""

from collections.abc import Callable
from pathlib import Path

import pytest

from deputy_agents.domain.errors import InvalidRequest
from deputy_agents.domain.event import PermissionRequest, PermissionRequested
from deputy_agents.domain.rule import DecisionKind
from deputy_agents.domain.settings import PermissionSettings, Settings
from deputy_agents.model.scripted import call, calls, say, use
from deputy_agents.permission.rule_patterns import parse_rule
from deputy_agents.ports.permission import Dismissed, PermissionAnswer
from tests.support.core import DENY, Cast, Core, Person, core, delegate, silent

pytestmark = pytest.mark.requirement("Q4")


def write(path: str) -> object:
    return call("write_file", path=path, content="x\n")


async def approve_first(c: Core) -> list[str]:
    first = await c.permission_request()
    return list(c.session.inbox.approve_edits(first.request_id))


@pytest.mark.asyncio
async def test_a_batch_of_edits_and_later_ones_are_approved_in_one_gesture(workspace: Path) -> None:
    batch = calls([use("write_file", path=f"{n}.txt", content="x\n") for n in range(5)])
    async with core(workspace, Cast([batch, write("later.txt"), say("ok")]), silent()) as c:  # type: ignore[list-item]
        turn = c.start()
        await c.until(lambda: len(c.bodies(PermissionRequested)) == 5)
        assert len(await approve_first(c)) == 5
        assert (await c.finish(turn)).stop_reason == "end_turn"
        assert len(c.bodies(PermissionRequested)) == 5
        assert all((workspace / f"{name}.txt").exists() for name in (*range(5), "later"))


@pytest.mark.asyncio
async def test_the_approval_ends_with_the_turn(workspace: Path) -> None:
    script = Cast([write("a.txt"), say("ok"), write("b.txt"), say("ok")])  # type: ignore[list-item]
    person = Person(lambda request: approving(c, request))
    async with core(workspace, script, person) as c:
        await c.turn()
        person.answer = DENY
        await c.turn("again")
        assert person.titles == ["write_file(a.txt)", "write_file(b.txt)"]
        assert not (workspace / "b.txt").exists()


async def approving(c: Core, request: PermissionRequest) -> PermissionAnswer:
    c.session.inbox.approve_edits(request.request_id)
    return Dismissed()


@pytest.mark.parametrize(
    ("other", "title"),
    [
        (call("shell", command="touch x"), "shell(touch x)"),
        (write(".github/workflows/a.yml"), "write_file(.github/workflows/a.yml)"),
        (write("AGENTS.md"), "write_file(AGENTS.md)"),
        (write(".deputy/settings.json"), "write_file(.deputy/settings.json)"),
        (write("prod/a.txt"), "write_file(prod/a.txt)"),
        (call("read_file", path=".env"), "read_file(.env)"),
    ],
)
@pytest.mark.asyncio
async def test_it_covers_only_edits_of_usual_files(workspace: Path, other: object, title: str) -> None:
    (workspace / ".env").write_text("x\n")
    rules = (parse_rule("write_file(prod/**)", DecisionKind.ASK, "settings"),)
    settings = Settings(permissions=PermissionSettings(rules=rules))
    person = Person(lambda request: approving(c, request) if request.title == "write_file(a.txt)" else DENY)
    script = Cast([write("a.txt"), other, say("ok")])  # type: ignore[list-item]
    async with core(workspace, script, person, settings=settings) as c:
        await c.turn()
        assert person.titles == ["write_file(a.txt)", title]


@pytest.mark.parametrize("path", ["AGENTS.md", ".deputy/settings.json"])
@pytest.mark.asyncio
async def test_a_request_about_another_file_cannot_be_answered_so(workspace: Path, path: str) -> None:
    async with core(workspace, Cast([write(path), say("ok")]), silent()) as c:  # type: ignore[list-item]
        c.start()
        with pytest.raises(InvalidRequest, match="answer it alone"):
            await approve_first(c)
        with pytest.raises(InvalidRequest, match="does not exist"):
            c.session.inbox.approve_edits("none")
        await c.session.cancel()


@pytest.mark.asyncio
async def test_it_covers_no_other_agent(workspace: Path) -> None:
    children = {name: [write(f"{name}.txt"), write(f"{name}2.txt"), say("ok")] for name in ("one", "two")}
    is_first: Callable[[PermissionRequest], bool] = lambda request: request.title.endswith("write_file(one.txt)")  # noqa: E731
    person = Person(lambda request: approving(c, request) if is_first(request) else DENY)
    script = Cast([delegate("one", "two", mode="default"), say("ok")], children)  # type: ignore[arg-type]
    async with core(workspace, script, person) as c:
        await c.turn()
        asked = sorted(title.rpartition(" ")[2] for title in person.titles)
        assert asked == ["write_file(one.txt)", "write_file(two.txt)", "write_file(two2.txt)"]
        assert (workspace / "one2.txt").exists()
        assert not (workspace / "two.txt").exists()
