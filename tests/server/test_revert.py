"""Reverting the edits of one agent over the wire."""

from pathlib import Path
from typing import cast

import pytest

from tests.support.messages_api import Script
from tests.support.model_replies import Json, Play, call, calls, say
from tests.support.rpc import EVERYTHING, PLAIN, RpcClient, RpcFailure
from tests.support.shared_server import Deputies, spawning

pytestmark = pytest.mark.asyncio(loop_scope="module")

EDITING = EVERYTHING | {
    "workspace": {"applyEdit": True, "workspaceEdit": {"documentChanges": True, "resourceOperations": ["delete"]}}
}


def child(body: Json, _: int) -> Play:
    """Reads a.txt, changes a line of it, and creates b.txt."""
    steps = [
        calls(call("read_file", path="a.txt")),
        calls(
            call("edit_file", path="a.txt", old_string="one", new_string="1"),
            call("write_file", path="b.txt", content="new\n"),
        ),
        say("done"),
    ]
    return steps[(len(body["messages"]) - 1) // 2]


SCRIPT: Script = spawning("edit it", child=child, mode="default")


def approve(permission_request: Json) -> Json:
    return {"outcome": {"outcome": "selected", "optionId": permission_request["options"][0]["optionId"]}}


class Editor:
    """A client with one open document that applies edits."""

    def __init__(self, client: RpcClient, path: Path, text: str) -> None:
        self.client, self.uri, self.text, self.version = client, path.as_uri(), text, 1
        self.deleted: list[str] = []
        document = {"uri": self.uri, "languageId": "text", "version": 1, "text": text}
        client.notify("textDocument/didOpen", {"textDocument": document})
        client.handlers["deputy/permission/request"] = approve
        client.handlers["workspace/applyEdit"] = self.apply

    def apply(self, params: Json) -> Json:
        for change in params["edit"]["documentChanges"]:
            if change.get("kind") == "delete":
                self.deleted.append(change["uri"])
                continue
            assert change["textDocument"] == {"uri": self.uri, "version": self.version}
            (edit,) = change["edits"]
            lines = self.text.splitlines(keepends=True)
            start, end = edit["range"]["start"], edit["range"]["end"]
            assert start["line"] == end["line"]
            line = lines[start["line"]]
            lines[start["line"]] = line[: start["character"]] + edit["newText"] + line[end["character"] :]
            self.text, self.version = "".join(lines), self.version + 1
            identifier = {"uri": self.uri, "version": self.version}
            changes = [{"range": edit["range"], "text": edit["newText"]}]
            self.client.notify("textDocument/didChange", {"textDocument": identifier, "contentChanges": changes})
        return {"applied": True}


@pytest.mark.requirement("X4")
@pytest.mark.parametrize("way", ["request", "command"])
async def test_the_edits_of_one_child_are_reverted_in_the_editor_and_on_disk(
    deputy: Deputies, workspace: Path, way: str
) -> None:
    (workspace / "a.txt").write_text("on disk\n")
    async with deputy(SCRIPT, workspace, EDITING) as (client, _):
        editor = Editor(client, workspace / "a.txt", "zero\none\ntwo\n")
        session_id, _ = await client.session()
        await client.prompt(session_id, "go")
        assert (editor.text, (workspace / "b.txt").read_text()) == ("zero\n1\ntwo\n", "new\n")
        agent_id = client.events("agent_finished")[0]["agentId"]
        answer = await revert(client, way, session_id, agent_id)
        assert answer == {"reverted": [editor.uri, (workspace / "b.txt").as_uri()], "conflicts": []}
        assert editor.text == "zero\none\ntwo\n"
        assert not (workspace / "b.txt").exists()
        assert (workspace / "a.txt").read_text() == "on disk\n"
        labels = [m["params"]["label"] for m in client.received if m.get("method") == "workspace/applyEdit"]
        assert labels == ["edit it: edit_file(a.txt)", "edit it: edits reverted"]
        client.notify("textDocument/didClose", {"textDocument": {"uri": editor.uri}})


async def revert(client: RpcClient, way: str, session_id: str, agent_id: str) -> Json:
    if way == "command":
        return cast("Json", await client.command("deputy.revertAgent", {"agentId": agent_id}))
    return cast("Json", await client.request("deputy/agent/revert", {"sessionId": session_id, "agentId": agent_id}))


async def test_reverting_a_new_file_that_is_open_deletes_it_through_the_editor(
    deputy: Deputies, workspace: Path
) -> None:
    (workspace / "a.txt").write_text("one\n")
    async with deputy(SCRIPT, workspace, EDITING) as (client, _):
        client.handlers["deputy/permission/request"] = approve
        session_id, _ = await client.session()
        await client.prompt(session_id, "go")
        editor = Editor(client, workspace / "b.txt", "new\n")
        answer = await revert(client, "request", session_id, client.events("agent_finished")[0]["agentId"])
        assert answer["conflicts"] == []
        assert editor.deleted == [editor.uri]
        client.notify("textDocument/didClose", {"textDocument": {"uri": editor.uri}})


async def test_a_plain_client_gets_a_message_with_reverted_and_conflicting_files(
    deputy: Deputies, workspace: Path
) -> None:
    (workspace / "a.txt").write_text("one\n")
    async with deputy(SCRIPT, workspace, PLAIN) as (client, _):
        client.handlers["window/showMessageRequest"] = lambda _: {"title": "Approve"}
        session_id, _ = await client.session()
        await client.prompt(session_id, "go")
        (workspace / "a.txt").write_text("mine\n")
        agents = (await client.command("deputy.listAgents", {"sessionId": session_id}))["agents"]
        await revert(client, "command", session_id, agents[1]["agentId"])
        await revert(client, "command", session_id, agents[0]["agentId"])
        told = [m["params"]["message"] for m in client.received if m.get("method") == "window/showMessage"]
        assert told == [
            "Reverted: b.txt\nNot reverted: a.txt. The same lines have been changed since.",
            "This agent has no edits to revert.",
        ]


async def test_reverting_an_agent_without_edits_changes_nothing_and_an_unknown_agent_is_an_error(
    deputy: Deputies, workspace: Path
) -> None:
    async with deputy(SCRIPT, workspace) as (client, _):
        session_id, agent_id = await client.session()
        assert await revert(client, "request", session_id, agent_id) == {"reverted": [], "conflicts": []}
        with pytest.raises(RpcFailure) as failure:
            await revert(client, "request", session_id, "nobody")
        assert failure.value.code == -32008
