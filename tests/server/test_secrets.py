"""The environment of the server stays private."""

import json
from pathlib import Path

import pytest

from tests.support.messages_api import messages_api
from tests.support.model_replies import Json, Play, call, calls, say
from tests.support.rpc import serving

pytestmark = pytest.mark.asyncio

SECRETS = {"ANTHROPIC_API_KEY": "key-never-to-be-told", "MY_SERVICE_TOKEN": "token-never-to-be-told"}

TRIES = (
    call("read_file", path="/proc/self/environ"),
    call("read_file", path="environ"),
    call("grep", pattern="never", path="/proc/self"),
    call("grep", pattern="never"),
    call("write_file", path="$MY_SERVICE_TOKEN", content="${MY_SERVICE_TOKEN} $(env)"),
    call("shell", command="env; cat /proc/$PPID/environ | tr '\\0' '\\n'; echo $MY_SERVICE_TOKEN"),
)


def approve(request: Json) -> Json:
    return {"outcome": {"outcome": "selected", "optionId": request["options"][0]["optionId"]}}


@pytest.mark.requirement("X9")
async def test_no_secret_of_the_environment_reaches_a_tool_a_log_or_an_answer(workspace: Path) -> None:
    (workspace / "environ").symlink_to("/proc/self/environ")

    def play(body: Json, _: int) -> Play:
        return say("done") if len(body["messages"]) > 1 else calls(*TRIES)

    async with messages_api(play) as api, serving(env=SECRETS) as client:
        await client.initialize(workspace, initializationOptions={"model": "m", "baseUrl": api.url})
        client.handlers["deputy/permission/request"] = approve
        session_id, _ = await client.session()
        await client.prompt(session_id, "go")
        assert len(api.bodies[-1]["messages"][-1]["content"]) == len(TRIES)
        assert await client.shut_down() == 0
        for told in (json.dumps(client.received), json.dumps(api.bodies), client.stderr):
            assert "never-to-be-told" not in told
        assert (workspace / "$MY_SERVICE_TOKEN").read_text() == "${MY_SERVICE_TOKEN} $(env)"
