"""The full output of a command can be read, also after a restart."""

from pathlib import Path

import pytest

from tests.support.messages_api import messages_api
from tests.support.model_replies import Json, Play, call, calls, say
from tests.support.rpc import EVERYTHING, RpcFailure, serving

pytestmark = pytest.mark.asyncio

COUNTING = "seq 100000"


def counting(body: Json, _: int) -> Play:
    return say("done") if len(body["messages"]) > 1 else calls(call("shell", command=COUNTING))


@pytest.mark.requirement("C3")
async def test_output_that_the_transcript_truncates_is_read_in_pages(workspace: Path, tmp_path: Path) -> None:
    options: Json = {"initializationOptions": {"model": "m", "permissionMode": "bypass"}}
    env = {"ANTHROPIC_API_KEY": "test-key", "DEPUTY_STATE": str(tmp_path / "state")}
    whole = "\n".join(map(str, range(1, 100001)))
    async with messages_api(counting) as api:
        options["initializationOptions"]["baseUrl"] = api.url
        async with serving(env=env) as client:
            await client.initialize(workspace, EVERYTHING, **options)
            session_id, agent_id = await client.session()
            await client.prompt(session_id, "count")
        async with serving(env=env) as client:
            await client.initialize(workspace, EVERYTHING, **options)
            of = {"sessionId": session_id, "agentId": agent_id}
            entries = (await client.request("deputy/agent/transcript", of))["entries"]
            [entry] = [entry for entry in entries if entry["type"] == "tool_call"]
            assert entry["truncated"] is True
            assert len(entry["content"]) < len(whole)
            which = {**of, "toolCallId": entry["toolCallId"]}
            text = ""
            while True:
                page = await client.request("deputy/agent/output", {**which, "offset": len(text)})
                assert page["size"] == len(whole)
                text += page["text"]
                if not page["text"]:
                    break
            assert text == whole
            with pytest.raises(RpcFailure, match="toolCallId"):
                await client.request("deputy/agent/output", {**which, "toolCallId": "another"})
