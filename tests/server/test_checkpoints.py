"""Checkpoints, rewind and fork over the wire."""

from pathlib import Path

import pytest

from tests.support.messages_api import Script
from tests.support.model_replies import Json, Play, call, calls, say
from tests.support.rpc import EVERYTHING, PLAIN, RpcClient, RpcFailure
from tests.support.shared_server import Deputies

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.requirement("R6"), pytest.mark.requirement("R7")]


def script(body: Json, _: int) -> Play:
    """Changes the file by a command, then answers."""
    last = body["messages"][-1]["content"]
    if any(block.get("type") == "tool_result" for block in last if isinstance(block, dict)):
        return say("done")
    return calls(call("shell", command="sed -i s/one/1/ a.txt; echo new > b.txt"))


SCRIPT: Script = script


def approve(permission_request: Json) -> Json:
    return {"outcome": {"outcome": "selected", "optionId": permission_request["options"][0]["optionId"]}}


async def changed(client: RpcClient, folder: Path) -> tuple[str, Json]:
    """A session whose agent has changed files by a command, and its checkpoint."""
    client.handlers["deputy/permission/request"] = approve
    client.handlers["window/showMessageRequest"] = lambda _: {"title": "Approve"}
    session_id, _ = await client.session()
    await client.prompt(session_id, "change it\nplease")
    assert (folder / "a.txt").read_text() == "1\n"
    listed = await client.request("deputy/checkpoint/list", {"sessionId": session_id})
    assert listed["notes"] == []
    [checkpoint] = listed["checkpoints"]
    return session_id, checkpoint


@pytest.fixture
def folder(workspace: Path) -> Path:
    (workspace / "a.txt").write_text("one\n")
    return workspace


async def test_a_client_lists_previews_rewinds_and_forks(deputy: Deputies, folder: Path) -> None:
    async with deputy(SCRIPT, folder, EVERYTHING) as (client, _):
        session_id, checkpoint = await changed(client, folder)
        assert checkpoint | {"checkpointId": "", "turnId": "", "time": "", "seq": 0} == {
            "checkpointId": "",
            "turnId": "",
            "time": "",
            "seq": 0,
            "title": "change it",
            "files": 2,
            "added": 2,
            "removed": 1,
        }
        target = {"sessionId": session_id, "checkpointId": checkpoint["checkpointId"]}
        preview = await client.request("deputy/checkpoint/preview", target)
        assert [(file["uri"].rpartition("/")[2], file["status"]) for file in preview["files"]] == [
            ("a.txt", "modified"),
            ("b.txt", "deleted"),
        ]
        forked = await client.request("deputy/session/fork", target)
        assert forked["sessionId"] != session_id
        rewound = await client.request("deputy/session/rewind", {**target, "files": True, "conversation": True})
        assert rewound["prompt"] == [{"type": "text", "text": "change it\nplease"}]
        assert rewound["conflicts"] == []
        assert (folder / "a.txt").read_text() == "one\n"
        assert not (folder / "b.txt").exists()
        loaded = await client.request("deputy/session/load", {"sessionId": session_id})
        assert loaded["transcript"] == []
        assert [event["checkpointId"] for event in client.events("session_rewound")] == [checkpoint["checkpointId"]]
        with pytest.raises(RpcFailure) as unknown:
            await client.request("deputy/checkpoint/preview", {"sessionId": session_id, "checkpointId": "x"})
        assert unknown.value.code == -32602


async def test_a_plain_client_rewinds_by_a_command_and_gets_a_message(deputy: Deputies, folder: Path) -> None:
    async with deputy(SCRIPT, folder, PLAIN) as (client, _):
        session_id, checkpoint = await changed(client, folder)
        argument = {"sessionId": session_id, "checkpointId": checkpoint["checkpointId"]}
        done = await client.command("deputy.rewind", argument | {"files": True, "conversation": False})
        assert len(done["files"]) == 2
        shown = await client.until(lambda one: "Restored" in str(one.get("params", {}).get("message", "")))
        assert shown["params"]["message"] == "Restored: a.txt, b.txt"
        assert (folder / "a.txt").read_text() == "one\n"


@pytest.mark.requirement("R9")
async def test_a_prompt_with_a_slash_command_rewinds_and_forks(deputy: Deputies, folder: Path) -> None:
    async with deputy(SCRIPT, folder, EVERYTHING) as (client, _):
        session_id, _ = await changed(client, folder)
        forked = await client.prompt(session_id, "/fork")
        loaded = await client.request("deputy/session/load", {"sessionId": forked["forkedSessionId"]})
        assert loaded["transcript"][0]["text"] == "change it\nplease"
        ended = await client.prompt(session_id, "/rewind 1")
        assert ended["rewoundPrompt"] == [{"type": "text", "text": "change it\nplease"}]
        assert (folder / "a.txt").read_text() == "one\n"
        assert not (folder / "b.txt").exists()
