"""Reviewing the changes of agents over the wire, with a plugin and without."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.support.messages_api import Script
from tests.support.model_replies import Json, Play, call, calls, say
from tests.support.rpc import EVERYTHING, PLAIN, RpcClient, RpcFailure
from tests.support.shared_server import Deputies, spawning

pytestmark = pytest.mark.asyncio(loop_scope="module")

PUBLISHED = "textDocument/publishDiagnostics"
TEXT = "".join(f"{number}\n" for number in range(1, 10))
CHANGED = TEXT.replace("2\n", "two\n").replace("8\n", "eight\n")


def child(body: Json, _: int) -> Play:
    """Reads a.txt, changes two lines of it, and creates b.txt."""
    steps = [
        calls(call("read_file", path="a.txt")),
        calls(
            call("edit_file", path="a.txt", old_string="2", new_string="two"),
            call("edit_file", path="a.txt", old_string="8", new_string="eight"),
            call("write_file", path="b.txt", content="new\n"),
        ),
        say("done"),
    ]
    return steps[(len(body["messages"]) - 1) // 2]


SCRIPT: Script = spawning("edit it", child=child, mode="default")


def approve(permission_request: Json) -> Json:
    return {"outcome": {"outcome": "selected", "optionId": permission_request["options"][0]["optionId"]}}


async def edited(client: RpcClient, workspace: Path) -> str:
    """A session whose agent has changed the files."""
    client.handlers["deputy/permission/request"] = approve
    client.handlers["window/showMessageRequest"] = lambda _: {"title": "Approve"}
    session_id, _ = await client.session()
    await client.prompt(session_id, "go")
    assert (workspace / "a.txt").read_text() == CHANGED
    return session_id


def opened(client: RpcClient, path: Path, text: str) -> Json:
    document = {"uri": path.as_uri(), "languageId": "text", "version": 1, "text": text}
    client.notify("textDocument/didOpen", {"textDocument": document})
    return {"textDocument": {"uri": path.as_uri()}}


@pytest.fixture
def folder(workspace: Path) -> Path:
    (workspace / "a.txt").write_text(TEXT)
    return workspace


@pytest.mark.requirement("R1")
@pytest.mark.requirement("R2")
async def test_changes_are_listed_kept_and_undone_by_request(deputy: Deputies, folder: Path) -> None:
    async with deputy(SCRIPT, folder, EVERYTHING) as (client, _):
        session_id = await edited(client, folder)
        listed = await client.request("deputy/review/list", {"sessionId": session_id})
        assert listed["totals"] == {"files": 2, "hunks": 3, "added": 3, "removed": 2}
        text, new = listed["files"]
        assert (text["uri"], text["status"], text["added"], text["removed"]) == (
            (folder / "a.txt").as_uri(),
            "modified",
            2,
            2,
        )
        first, second = text["hunks"]
        assert (first["baseLines"], first["lines"], first["mixed"]) == (["2"], ["two"], False)
        assert first["range"] == {"start": {"line": 1, "character": 0}, "end": {"line": 2, "character": 0}}
        [change] = first["changes"]
        assert change["label"] == "edit it"
        assert new["status"] == "created"
        assert client.events("review_status")[-1] | {"time": "", "afterSeq": 0} == {
            "type": "review_status",
            "sessionId": session_id,
            "time": "",
            "afterSeq": 0,
            "files": 2,
            "hunks": 3,
            "added": 3,
            "removed": 2,
        }
        base = {"sessionId": session_id, "uri": text["uri"]}
        assert (await client.request("deputy/review/base", base))["text"] == TEXT
        assert await client.request("deputy/review/base", base | {"uri": new["uri"]}) == {"text": None}
        [entry] = (await client.request("deputy/review/blame", {"uri": text["uri"], "line": 1}))["entries"]
        assert (entry["agent"]["label"], entry["agent"]["definition"]) == ("edit it", "general")
        assert (entry["title"], entry["approvedBy"], entry["state"]) == (
            "[edit it] edit_file(a.txt)",
            "user",
            "unreviewed",
        )
        one = {"sessionId": session_id, "hunkIds": [first["hunkId"]]}
        assert await client.request("deputy/review/undo", one) == {"done": [first["hunkId"]], "conflicts": []}
        assert (folder / "a.txt").read_text() == CHANGED.replace("two", "2")
        again = await client.request("deputy/review/undo", one)
        assert again["done"] == []
        assert [conflict["hunkId"] for conflict in again["conflicts"]] == [first["hunkId"]]
        kept = await client.request("deputy/review/keep", {"sessionId": session_id, "turnId": change["turnId"]})
        assert set(kept["done"]) == {second["hunkId"], new["hunks"][0]["hunkId"]}
        assert [(event["verb"], event["hunks"]) for event in client.events("changes_reviewed")] == [
            ("undone", [first["hunkId"]]),
            ("kept", [second["hunkId"]]),
            ("kept", [new["hunks"][0]["hunkId"]]),
        ]
        [entry] = (await client.request("deputy/review/blame", {"uri": text["uri"], "line": 7}))["entries"]
        assert entry["state"] == "kept"


@pytest.mark.requirement("R2")
@pytest.mark.parametrize(
    ("selector", "field"),
    [
        ({}, "hunkIds"),
        ({"all": True, "turnId": "t"}, "all"),
        ({"all": False}, "hunkIds"),
        ({"all": "yes"}, "all"),
        ({"hunkIds": []}, "hunkIds"),
        ({"hunkIds": ["unknown"]}, "hunkIds"),
        ({"uri": "untitled:1"}, "uri"),
    ],
)
async def test_a_wrong_selector_is_an_error_that_names_the_field(
    deputy: Deputies, folder: Path, selector: Json, field: str
) -> None:
    async with deputy(SCRIPT, folder, EVERYTHING) as (client, _):
        session_id, _ = await client.session()
        for verb in ("keep", "undo"):
            with pytest.raises(RpcFailure) as failure:
                await client.request(f"deputy/review/{verb}", {"sessionId": session_id, **selector})
            assert failure.value.code == -32602
            assert field in str(failure.value)


@pytest.mark.requirement("R3")
async def test_an_editor_without_a_plugin_has_lenses_actions_and_hovers(deputy: Deputies, folder: Path) -> None:
    async with deputy(SCRIPT, folder, PLAIN) as (client, _):
        session_id = await edited(client, folder)
        document = opened(client, folder / "a.txt", CHANGED)
        lenses = await client.request("textDocument/codeLens", document)
        assert [(lens["range"]["start"]["line"], lens["command"]["title"]) for lens in lenses] == [
            *((0, "Keep all"), (0, "Undo all"), (0, "2 of 3")),
            *((1, "edit it: Keep"), (1, "Undo"), (1, "Ask")),
            *((7, "edit it: Keep"), (7, "Undo"), (7, "Ask")),
        ]
        place = {"start": {"line": 7, "character": 0}, "end": {"line": 7, "character": 1}}
        actions = await client.request(
            "textDocument/codeAction", {**document, "range": place, "context": {"diagnostics": []}}
        )
        assert [action["title"] for action in actions][:4] == [
            "Keep this change",
            "Undo this change",
            "Ask about this change",
            "Keep all changes of edit it",
        ]
        hover = await client.request("textDocument/hover", {**document, "position": {"line": 7, "character": 0}})
        shown = hover["contents"]["value"]
        parts = ("**edit it** (general)", "not reviewed", "edit\\_file(a.txt)", "approved by you", "[Open transcript]")
        assert [part for part in parts if part not in shown] == []
        assert await client.request("textDocument/hover", {**document, "position": {"line": 4, "character": 0}}) is None
        keep = lenses[3]["command"]
        assert (await client.command(keep["command"], *keep["arguments"]))["conflicts"] == []
        titles = [lens["command"]["title"] for lens in await client.request("textDocument/codeLens", document)]
        assert titles == ["Keep all", "Undo all", "1 of 2", "edit it: Keep", "Undo", "Ask"]
        rest = {"sessionId": session_id}
        assert len((await client.command("deputy.review.undoAll", rest))["done"]) == 1  # a.txt cannot be changed here
        assert not (folder / "b.txt").exists()
        client.notify("textDocument/didClose", document)


@pytest.mark.requirement("R3")
async def test_commands_go_to_the_next_and_the_previous_change(deputy: Deputies, folder: Path) -> None:
    capabilities = PLAIN | {"window": {"showDocument": {"support": True}}}
    async with deputy(SCRIPT, folder, capabilities) as (client, _):
        shown: list[Any] = []

        def show(params: Json) -> Json:
            shown.append((params["uri"], params.get("selection", {}).get("start", {}).get("line")))
            return {"success": True}

        client.handlers["window/showDocument"] = show
        session_id = await edited(client, folder)
        shown.clear()
        text, new = (folder / "a.txt").as_uri(), (folder / "b.txt").as_uri()
        for command, here in (("next", {}), ("next", {"uri": text, "line": 1}), ("next", {"uri": text, "line": 7})):
            assert (await client.command(f"deputy.review.{command}", here))["sessionId"] == session_id
        await client.command("deputy.review.next", {"uri": new, "line": 0})
        await client.command("deputy.review.previous", {"uri": text, "line": 7})
        await client.command("deputy.review.previous", {"uri": text, "line": 1})
        assert shown == [(text, 1), (text, 7), (new, 0), (text, 1), (text, 1), (new, 0)]
        assert (await client.command("deputy.review.list", {}))["totals"]["hunks"] == 3
        assert (await client.command("deputy.review.keepAll", {"sessionId": session_id}))["conflicts"] == []
        assert await client.command("deputy.review.next", {}) == {}


@pytest.mark.requirement("R3")
async def test_a_client_that_shows_reviews_itself_has_no_lenses_and_hints_are_a_setting(
    deputy: Deputies, folder: Path
) -> None:
    capabilities = {**EVERYTHING, "experimental": {"deputy": {"events": True, "permissions": True, "review": True}}}
    async with deputy(SCRIPT, folder, capabilities) as (client, _):
        session_id = await edited(client, folder)
        client.notify("workspace/didChangeConfiguration", {"settings": {"deputy": {"review": {"hints": True}}}})
        assert await client.request("textDocument/codeLens", opened(client, folder / "a.txt", CHANGED)) == []
        uri = (folder / "a.txt").as_uri()

        async def hints(count: int) -> list[Json]:
            with anyio.fail_after(20):
                while True:
                    sent = [m["params"] for m in client.received if m.get("method") == PUBLISHED]
                    found = [params["diagnostics"] for params in sent if params["uri"] == uri]
                    if found and len(found[-1]) == count:
                        return found[-1]
                    await anyio.sleep(0.01)

        assert [(hint["severity"], hint["range"]["start"]["line"]) for hint in await hints(2)] == [(4, 1), (4, 7)]
        await client.request("deputy/review/keep", {"sessionId": session_id, "all": True})
        await hints(0)
