"""The client's own log window: warnings, and traces of requests without their parameters."""

from pathlib import Path

import pytest

from tests.support.model_replies import say
from tests.support.rpc import EVERYTHING, RpcClient, serving
from tests.support.shared_server import Deputies

pytestmark = pytest.mark.asyncio(loop_scope="module")


def messages_of(client: RpcClient, method: str) -> list[str]:
    return [m["params"]["message"] for m in client.received if m.get("method") == method]


async def test_traced_requests_contain_no_text_of_the_user(deputy: Deputies, workspace: Path) -> None:
    async with deputy(lambda *_: say("a secret answer"), workspace) as (client, _):
        session_id, _ = await client.session()
        assert messages_of(client, "$/logTrace") == []
        client.notify("$/setTrace", {"value": "verbose"})
        prompt = client.start_prompt(session_id, "a secret question")
        await client.result(prompt)
        client.notify("$/setTrace", {"value": "off"})
        await client.request("deputy/metrics", {})
        (line,) = messages_of(client, "$/logTrace")
        assert line.startswith(f"deputy/session/prompt ({prompt}) took ")
        assert "secret" not in line


async def test_a_client_can_enable_the_trace_in_initialize(workspace: Path) -> None:
    async with serving() as client:
        await client.initialize(workspace, EVERYTHING, trace="messages")
        await client.until(lambda m: m.get("method") == "$/logTrace" and "initialize" in str(m))


async def test_a_server_warning_appears_in_the_client_log(workspace: Path, tmp_path: Path) -> None:
    (tmp_path / "state").write_text("in the way")
    async with serving(env={"DEPUTY_STATE": str(tmp_path / "state")}) as client:
        await client.initialize(workspace, initializationOptions={"model": "offline"})
        await client.session()
        uri = (workspace / "a.py").as_uri()
        stale = {"textDocument": {"uri": uri, "version": 4}, "contentChanges": [{"text": "stale"}]}
        client.notify("textDocument/didChange", stale)
        logged = await client.until(lambda m: m.get("method") == "window/logMessage")
        assert logged["params"]["type"] == 2
        assert "ignored a change of a document" in logged["params"]["message"]
