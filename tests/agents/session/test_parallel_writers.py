"""Children that write at the same time lose no edit, whatever the order of what they do."""

import asyncio
import random
from pathlib import Path

import pytest

from deputy_agents.domain.event import PermissionRequest
from deputy_agents.domain.message import Reply
from deputy_agents.domain.outcome import AgentStatus
from deputy_agents.model.scripted import call, calls, say, use
from deputy_agents.ports.model import ModelRequest
from deputy_agents.ports.permission import PermissionAnswer
from tests.support.core import ALLOW, Cast, Line, Person, answers, core, delegate, edit, small

pytestmark = pytest.mark.asyncio

WRITERS = 3
EDITS = 2


class Stubborn:
    """Adds lines below its own heading, and reads the file again whenever it is told to. All begin once ``begin`` says
    that everyone has read the file: so most first edits come too late."""

    def __init__(self, name: str, begin: asyncio.Barrier) -> None:
        self.refused = 0
        self._name = name
        self._begin = begin
        self._done = 0

    async def __call__(self, request: ModelRequest) -> Reply:
        last = answers(request)[-1] if len(request.messages) > 1 else ""
        if not last:
            return call("read_file", path="a.txt")
        if len(request.messages) == 3:
            await self._begin.wait()
        if "Read it again" in last:
            self.refused += 1
            return call("read_file", path="a.txt")
        self._done += "Changed" in last
        if self._done == EDITS:
            return say("done")
        heading = f"# {self._name}\n"
        return calls([edit("a.txt", heading, f"{heading}{self._name} {self._done}\n")])


@pytest.mark.parametrize("seed", range(3))
async def test_children_that_edit_one_file_at_once_lose_no_edit(workspace: Path, seed: int) -> None:
    names = [f"writer {number}" for number in range(WRITERS)]
    (workspace / "a.txt").write_text("".join(f"# {name}\n" for name in names))
    begin, chance = asyncio.Barrier(WRITERS), random.Random(seed)

    async def sooner_or_later(_: PermissionRequest) -> PermissionAnswer:
        for _ in range(chance.randrange(20)):
            await asyncio.sleep(0)
        return ALLOW

    writers = {name: Stubborn(name, begin) for name in names}
    lines: dict[str, list[Line]] = {name: [writer] * 50 for name, writer in writers.items()}
    cast = Cast([delegate(*names, mode="default"), say("ok")], lines)
    async with core(workspace, cast, Person(sooner_or_later), settings=small(parallel_writers=True)) as c:
        await c.turn()
        children = [node for node in c.session.agents() if node.info.depth > 0]
        assert [(node.status, node.error) for node in children] == [(AgentStatus.COMPLETED, None)] * WRITERS
    assert sum(writer.refused for writer in writers.values()) >= WRITERS - 1
    text = (workspace / "a.txt").read_text()
    assert sorted(text.splitlines()) == sorted(
        line for name in names for line in (f"# {name}", *(f"{name} {number}" for number in range(EDITS)))
    )


async def test_without_the_setting_a_second_writer_starts_when_the_first_has_ended(workspace: Path) -> None:
    names = ("first", "second")
    writes = {name: calls([use("write_file", path=f"{name}.txt", content="x")]) for name in names}
    cast = Cast([delegate(*names, mode="default"), say("ok")], {name: [writes[name], say("done")] for name in names})
    async with core(workspace, cast, Person()) as c:
        await c.turn()
        first, second = (c.child(name).info.agent_id for name in names)
        asked = [request.agent_id for request in c.model.requests if request.depth > 0]
        assert asked == [first, first, second, second]
