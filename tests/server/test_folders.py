"""Workspace folders that change while a session is open."""

from pathlib import Path

import pytest

from tests.support.messages_api import messages_api
from tests.support.model_replies import Json, Play, call, calls, say
from tests.support.rpc import serving

pytestmark = pytest.mark.asyncio


def reads_once(body: Json, _: int) -> Play:
    """A primary that reads the file that the prompt names."""
    last = str(body["messages"][-1]["content"])
    return say("read") if "tool_result" in last else calls(call("read_file", path="../second/b.txt"))


async def test_a_session_follows_the_workspace_folders_of_its_client(workspace: Path) -> None:
    second = workspace.parent / "second"
    second.mkdir()
    (second / "b.txt").write_text("seen beyond", "utf-8")
    folder = {"uri": second.as_uri(), "name": "second"}
    async with messages_api(reads_once) as api, serving(env={"ANTHROPIC_API_KEY": "k"}) as client:
        await client.initialize(workspace, initializationOptions={"model": "m", "baseUrl": api.url})
        session_id, _ = await client.session()
        results = []
        for added, removed in (([], []), ([folder], []), ([], [folder])):
            client.notify("workspace/didChangeWorkspaceFolders", {"event": {"added": added, "removed": removed}})
            await client.prompt(session_id, "read")
            results.append(str(api.requests[-1].body["messages"][-1]["content"]))
    outside, seen, again = results
    assert "outside the workspace" in outside
    assert "seen beyond" in seen
    assert "outside the workspace" in again
    told = [str(request.body["messages"]) for request in api.requests]
    assert f"They are now: {workspace}, {second}" in told[2]
    assert f"They are now: {workspace}" in told[4]
