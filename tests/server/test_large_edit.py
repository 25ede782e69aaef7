"""A small change of a large file: the permission request is small, and complete where a client asks for more."""

import asyncio
import sqlite3
from pathlib import Path

import pytest

from tests.support.messages_api import Script, messages_api
from tests.support.model_replies import Json, Play, call, calls, say
from tests.support.rpc import EVERYTHING, PLAIN, RpcFailure, Unanswered, serving
from tests.support.shared_server import Deputies

pytestmark = pytest.mark.asyncio(loop_scope="module")

ASK = "deputy/permission/request"
MESSAGE = "window/showMessageRequest"
LINES = 60_000
LARGEST = 100_000
"""Bytes of a message that is still small."""


def editing(old: str, new: str, *, times: int = 1) -> Script:
    """Reads the file, then changes it in one reply."""

    def play(body: Json, _: int) -> Play:
        replies = sum(message["role"] == "assistant" for message in body["messages"])
        if replies == 0:
            return calls(call("read_file", path="large.txt"))
        if replies == 1:
            edits = [(old, new), *((f"{new}{'!' * n}", f"{new}{'!' * (n + 1)}") for n in range(times - 1))]
            return calls(
                *(call("edit_file", path="large.txt", old_string=before, new_string=after) for before, after in edits)
            )
        return say("done")

    return play


def create(workspace: Path) -> str:
    text = "".join(f"line {number} of größe\n" for number in range(LINES))
    (workspace / "large.txt").write_text(text)
    return text


async def test_the_request_has_hunks_and_the_whole_texts_come_on_demand(deputy: Deputies, workspace: Path) -> None:
    text = create(workspace)
    async with deputy(editing("line 30000 of", "LINE 30000 of"), workspace) as (client, _):
        client.handlers[ASK] = lambda _: Unanswered
        session_id, _ = await client.session()
        prompt = client.start_prompt(session_id, "go")
        asked = await client.until(lambda m: m.get("method") == ASK)
        request = asked["params"]
        preview = request["preview"]
        assert preview | {"hunks": []} == {
            "type": "diff",
            "uri": (workspace / "large.txt").as_uri(),
            "oldText": None,
            "hunks": [],
        }
        (hunk,) = preview["hunks"]
        assert (hunk["oldStart"], hunk["oldCount"], hunk["newStart"], hunk["newCount"]) == (29998, 7, 29998, 7)
        assert hunk["lines"][3:5] == ["-line 30000 of größe", "+LINE 30000 of größe"]
        shown = [
            m for m in client.received if "permission" in str(m.get("method")) or m.get("method") == "deputy/event"
        ]
        assert max(len(str(m)) for m in shown) < LARGEST
        listed = await client.request("deputy/permission/list", {})
        assert listed["requests"][0]["preview"] == preview

        which = {"requestId": request["requestId"]}
        complete = (await client.request("deputy/permission/preview", which))["preview"]
        assert complete == {
            "type": "diff",
            "uri": preview["uri"],
            "oldText": text,
            "newText": text.replace("line 30000", "LINE 30000"),
        }
        outcome = {"outcome": "selected", "optionId": "allow_once"}
        await client.request("deputy/permission/answer", which | {"outcome": outcome})
        await client.result(prompt)
        assert (workspace / "large.txt").read_text() == complete["newText"]
        with pytest.raises(RpcFailure, match="No permission request"):
            await client.request("deputy/permission/preview", which)


async def test_a_small_change_has_complete_texts_in_both(deputy: Deputies, workspace: Path) -> None:
    (workspace / "large.txt").write_text("one\ntwo\n")
    async with deputy(editing("two", "2"), workspace) as (client, _):
        client.handlers[ASK] = lambda _: Unanswered
        session_id, _ = await client.session()
        client.start_prompt(session_id, "go")
        request = (await client.until(lambda m: m.get("method") == ASK))["params"]
        assert (request["preview"]["oldText"], request["preview"]["newText"]) == ("one\ntwo\n", "one\n2\n")
        which = {"requestId": request["requestId"]}
        assert await client.request("deputy/permission/preview", which) == {"preview": request["preview"]}
        with pytest.raises(RpcFailure) as unknown:
            await client.request("deputy/permission/preview", {"requestId": "nothing"})
        assert unknown.value.code == -32602
        await client.request("deputy/session/cancel", {"sessionId": session_id})


async def test_later_previews_of_a_reply_assume_the_earlier_ones_of_a_large_file(
    deputy: Deputies, workspace: Path
) -> None:
    text = create(workspace)
    async with deputy(editing("line 30000 of", "X", times=3), workspace) as (client, _):
        client.handlers[ASK] = lambda _: {"outcome": {"outcome": "selected", "optionId": "allow_once"}}
        session_id, _ = await client.session()
        await client.prompt(session_id, "go")
        shown = [m["params"]["preview"]["hunks"][0]["lines"][3:5] for m in client.received if m.get("method") == ASK]
        assert shown[1:] == [["-X größe", "+X! größe"], ["-X! größe", "+X!! größe"]]
        assert (workspace / "large.txt").read_text() == text.replace("line 30000 of", "X!!")


async def test_a_client_without_previews_gets_the_hunks_in_the_message(deputy: Deputies, workspace: Path) -> None:
    create(workspace)
    async with deputy(editing("line 30000 of", "LINE\u202e 30000 of"), workspace, PLAIN) as (client, _):
        client.handlers[MESSAGE] = lambda _: None
        session_id, _ = await client.session()
        await client.prompt(session_id, "go")
        message = next(m["params"]["message"] for m in client.received if m.get("method") == MESSAGE)
        assert "@@ -29998,7 +29998,7 @@\n line 29997 of größe" in message
        assert "\n+LINE\\u{202e} 30000 of größe\n" in message
        assert len(message) < 2000


async def test_the_stored_request_is_small_and_loads_again(workspace: Path, tmp_path: Path) -> None:
    create(workspace)
    state = tmp_path / "state"
    async with messages_api(editing("line 30000 of", "LINE 30000 of")) as api:
        env = {"ANTHROPIC_BASE_URL": api.url, "ANTHROPIC_API_KEY": "k", "DEPUTY_STATE": str(state)}
        async with serving(env=env, cwd=workspace) as client:
            await client.initialize(workspace, EVERYTHING)
            client.handlers[ASK] = lambda _: {"outcome": {"outcome": "selected", "optionId": "reject_once"}}
            session_id, _ = await client.session()
            await client.prompt(session_id, "go")
            await client.shut_down()

        def longest() -> int:
            with sqlite3.connect(state / "sessions.db") as connection:
                return connection.execute("SELECT MAX(LENGTH(body)) FROM events").fetchone()[0]

        assert await asyncio.to_thread(longest) < LARGEST
        async with serving(env=env, cwd=workspace) as client:
            await client.initialize(workspace, EVERYTHING)
            await client.request("deputy/session/load", {"sessionId": session_id})
