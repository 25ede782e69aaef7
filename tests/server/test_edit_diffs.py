"""Edits stay visible as diffs: on the wire, in transcripts and in exports."""

from pathlib import Path

import pytest

from tests.support.messages_api import Script
from tests.support.model_replies import Json, Play, call, calls, say
from tests.support.rpc import EVERYTHING
from tests.support.shared_server import Deputies

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.requirement("R9")]

BEFORE = "".join(f"line {number}\n" for number in range(1, 31))
AFTER = BEFORE.replace("line 20\n", "line twenty\n")
HUNK = {
    "oldStart": 17,
    "oldCount": 7,
    "newStart": 17,
    "newCount": 7,
    "lines": [" line 17", " line 18", " line 19", "-line 20", "+line twenty", " line 21", " line 22", " line 23"],
}


def script(body: Json, _: int) -> Play:
    """Rewrites a file of which one line changes, and creates another one."""
    match sum(message["role"] == "assistant" for message in body["messages"]):
        case 0:
            return calls(call("read_file", path="a.txt"))
        case 1:
            new = call("write_file", id="toolu_new", path="b.txt", content="new\n")
            return calls(call("write_file", id="toolu_old", path="a.txt", content=AFTER), new)
        case _:
            return say("done")


SCRIPT: Script = script


async def test_a_rewritten_file_shows_only_the_lines_that_changed(deputy: Deputies, workspace: Path) -> None:
    (workspace / "a.txt").write_text(BEFORE)
    async with deputy(SCRIPT, workspace, EVERYTHING) as (client, _):
        session_id, _ = await client.session(permissionMode="accept_edits")
        await client.prompt(session_id, "go")
        updates = {one["toolCallId"]: one.get("diff") for one in client.events("tool_call_update")}
        assert updates["toolu_old"] == {"hunks": [HUNK]}
        created = {"oldStart": 0, "oldCount": 0, "newStart": 1, "newCount": 1, "lines": ["+new"]}
        assert updates["toolu_new"] == {"hunks": [created]}
        loaded = await client.request("deputy/session/load", {"sessionId": session_id})
        entries = {one.get("toolCallId"): one.get("diff") for one in loaded["transcript"]}
        assert entries["toolu_old"] == {"hunks": [HUNK]}
        exported = await client.request("deputy/session/export", {"sessionId": session_id, "format": "markdown"})
        shown = "\n".join(["```diff", "@@ -17,7 +17,7 @@", *HUNK["lines"], "```"])  # type: ignore[misc]
        assert shown in exported["text"]
