"""Long stored sessions over the wire: the end first, earlier entries in pages, and everything for those who ask so."""

import json
from pathlib import Path

import pytest

from deputy_server.convert.transcript import LARGE
from tests.server.test_restart import deputy, kill
from tests.support.long_sessions import long_session, many_children, stored
from tests.support.messages_api import messages_api
from tests.support.model_replies import Json, say
from tests.support.rpc import RpcClient

pytestmark = pytest.mark.asyncio

EVENTS = 3000
"""Enough that results are converted in a thread."""


async def load(client: RpcClient, **params: object) -> Json:
    return await client.request("deputy/session/load", {"sessionId": "s", **params})


async def page(client: RpcClient, agent_id: str = "p", **params: object) -> Json:
    return await client.request("deputy/agent/transcript", {"sessionId": "s", "agentId": agent_id, **params})


async def test_the_last_entries_come_first_and_pages_before_them_make_up_the_whole(
    workspace: Path, tmp_path: Path
) -> None:
    state = await stored(tmp_path / "state", long_session(EVENTS))
    async with messages_api(lambda _body, _n: say("and on")) as api, deputy(api, workspace, state) as client:
        whole = await load(client)
        entries: list[Json] = whole["transcript"]
        assert len(entries) > LARGE
        assert "earlier" not in whole
        assert [entry["seq"] for entry in entries] == sorted(entry["seq"] for entry in entries)

        first = await load(client, transcriptLimit=20)
        assert first.pop("earlier") is True
        found: list[Json] = first.pop("transcript")
        assert found == entries[-20:]
        assert first == {key: value for key, value in whole.items() if key != "transcript"}
        more = True
        while more:
            answer = await page(client, before=found[0]["seq"], limit=150)
            more = answer.get("earlier", False)
            assert 0 < len(answer["entries"]) <= 150
            found = [*answer["entries"], *found]
        assert found == entries
        assert (await page(client))["entries"] == entries
        assert await page(client, before=entries[0]["seq"]) == {"entries": [], "lastSeq": whole["lastSeq"]}
        assert (await page(client, after=entries[9]["seq"], limit=1))["entries"] == entries[10:11]


async def test_a_session_of_which_only_the_end_was_loaded_continues_with_all_that_it_knows(
    workspace: Path, tmp_path: Path
) -> None:
    state = await stored(tmp_path / "state", long_session(400))
    async with messages_api(lambda _body, _n: say("and on")) as api, deputy(api, workspace, state) as client:
        loaded = await load(client, transcriptLimit=5)
        assert (await client.prompt("s", "more"))["stopReason"] == "end_turn"
        durable = [event["seq"] for event in client.events() if "seq" in event]
        assert durable == list(range(loaded["lastSeq"] + 1, loaded["lastSeq"] + 1 + len(durable)))
        sent = api.requests[-1].body["messages"]
        assert len(sent) > 200
        assert "Please go on with part 1." in json.dumps(sent[0])
        assert api.violations == []
        assert [entry["text"] for entry in (await load(client, transcriptLimit=2))["transcript"]] == ["more", "and on"]


async def test_a_killed_server_leaves_a_session_that_loads_as_before(workspace: Path, tmp_path: Path) -> None:
    state = await stored(tmp_path / "state", long_session(EVENTS))
    async with messages_api(lambda _body, _n: say("and on")) as api:
        async with deputy(api, workspace, state) as client:
            await client.prompt("s", "more")  # opens it, which saves its view
            before = await load(client)
            await kill(client)
        async with deputy(api, workspace, state) as client:
            after = await load(client)
            assert {**after, "session": None} == {**before, "session": None}


async def test_a_session_of_another_server_is_read_in_pages_too(workspace: Path, tmp_path: Path) -> None:
    state = await stored(tmp_path / "state", long_session(EVENTS))
    async with messages_api(lambda _body, _n: say("and on")) as api, deputy(api, workspace, state) as one:
        whole = await load(one)
        async with deputy(api, workspace, state) as other:
            seen = await load(other, transcriptLimit=3)
            assert (seen["snapshot"], seen["earlier"]) == (True, True)
            assert seen["transcript"] == whole["transcript"][-3:]
            answer = await page(other, before=seen["transcript"][0]["seq"], limit=3)
            assert answer["entries"] == whole["transcript"][-6:-3]


async def test_ended_sub_agents_of_a_loaded_session_have_their_transcripts_and_outputs(
    workspace: Path, tmp_path: Path
) -> None:
    state = await stored(tmp_path / "state", many_children(3, 60_000))
    async with messages_api(lambda _body, _n: say("and on")) as api, deputy(api, workspace, state) as client:
        await load(client, transcriptLimit=1)
        entries: list[Json] = (await page(client, "child-1"))["entries"]
        assert [entry["type"] for entry in entries] == ["message", *["tool_call"] * 30, "message"]
        last = await page(client, "child-1", before=entries[-1]["seq"], limit=1)
        assert (last["entries"], last["earlier"]) == (entries[-2:-1], True)
        call = {"sessionId": "s", "agentId": "child-1", "toolCallId": entries[1]["toolCallId"]}
        assert (await client.request("deputy/agent/output", call))["text"] == entries[1]["content"]
        exported = await client.request("deputy/session/export", {"sessionId": "s", "format": "json"})
        assert json.loads(exported["text"])["transcripts"]["child-1"] == entries
