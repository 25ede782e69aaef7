"""How much of what a long session sends starts with bytes that it has sent before."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from deputy_agents.domain.message import Reply
from deputy_agents.domain.permission_mode import PermissionMode
from deputy_agents.model.request_body import RequestBodies
from deputy_agents.model.scripted import call, calls, say, tool_results, use
from deputy_agents.ports.model import ModelRequest
from tests.support.api_rules import Json, blocks_of, broken_rules
from tests.support.core import core

TURNS = 30
CHILDREN = 8
HEADERS = {"anthropic-version": "2026-10-21"}


def blocks(body: Json) -> Iterator[tuple[str, bool]]:
    """Every block of a body in the order of the service's cache, without its breakpoint, and whether it has one."""
    messages = ((message["role"], block) for message in body["messages"] for block in blocks_of(message))
    for kind, block in (*(("tool", t) for t in body["tools"]), *(("system", s) for s in body["system"]), *messages):
        bare = {name: value for name, value in block.items() if name != "cache_control"}
        yield json.dumps([kind, bare]), "cache_control" in block


async def cached_share(requests: Sequence[ModelRequest]) -> float:
    """The share of the bytes of all requests that a breakpoint of an earlier request covers."""
    bodies = RequestBodies()
    kept: set[tuple[str, ...]] = set()
    read = total = 0
    for request in requests:
        body = json.loads(await bodies.encode(request))
        assert broken_rules(HEADERS, body) == []
        sent = list(blocks(body))
        texts = [text for text, _ in sent]
        ends = [index + 1 for index, (_, marked) in enumerate(sent) if marked]
        hit = max((end for end in ends if tuple(texts[:end]) in kept), default=0)
        read += sum(map(len, texts[:hit]))
        total += sum(map(len, texts))
        kept |= {tuple(texts[:end]) for end in ends}
    return read / total


def script(request: ModelRequest) -> Reply:
    """Reads a file in every turn; in the tenth, eight children read five files each."""
    rounds = sum(message.role == "assistant" for message in request.messages)
    if request.depth:
        return call("read_file", path="notes.txt", offset=rounds + 1, limit=40) if rounds < 5 else say("Read.")
    if tool_results(request):
        return say("Found it.")
    if rounds == 18:
        return calls([use("spawn_agent", instructions=f"Read part {number}.") for number in range(CHILDREN)])
    return call("read_file", path="notes.txt", offset=rounds + 1, limit=40)


async def long_session(folder: Path) -> Sequence[ModelRequest]:
    """All requests of a session of :data:`TURNS` turns with :data:`CHILDREN` sub-agents, whose permission mode changes
    in between."""
    (folder / "notes.txt").write_text("".join(f"{number} a line of notes\n" for number in range(200)))
    async with core(folder, script) as c:
        for number in range(TURNS):
            await c.turn(f"Look at part {number}.")
            if number == 15:
                c.session.permissions.mode = PermissionMode.ACCEPT_EDITS
        return tuple(c.model.requests)
