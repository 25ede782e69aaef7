"""Instructions, skills and commands: listed, and completed in prompts."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.support.rpc import EVERYTHING, RpcClient, RpcFailure, serving


@pytest_asyncio.fixture
async def client(workspace: Path) -> AsyncIterator[RpcClient]:
    (workspace / "AGENTS.md").write_text("Use tabs.\n")
    (workspace / "main.py").write_text("")
    for path, text in (
        (".claude/commands/review.md", "---\ndescription: Looks closely\nargument-hint: <file>\n---\nReview $1"),
        (".deputy/skills/pdf/SKILL.md", "---\nname: pdf\ndescription: Reads PDF\n---\nbody"),
        (".deputy/skills/broken/SKILL.md", "---\nname: broken\n"),
    ):
        (workspace / path).parent.mkdir(parents=True)
        (workspace / path).write_text(text)
    async with serving() as client:
        await client.initialize(workspace, EVERYTHING)
        yield client
        assert await client.shut_down() == 0


@pytest.mark.asyncio
async def test_context_list_contains_what_was_loaded_and_the_reason(client: RpcClient, workspace: Path) -> None:
    session = await client.request("deputy/session/new", {})
    found = await client.request("deputy/context/list", {"sessionId": session["sessionId"]})
    [instruction] = found["instructions"]
    assert instruction == {
        "uri": (workspace / "AGENTS.md").as_uri(),
        "reason": "the workspace root",
        "bytes": 9,
        "truncated": False,
    }
    assert [(skill["name"], skill["description"]) for skill in found["skills"]] == [("pdf", "Reads PDF")]
    of_files = [command for command in found["commands"] if not command.get("builtin")]
    assert [(command["name"], command["argumentHint"]) for command in of_files] == [("review", "<file>")]
    [problem] = found["problems"]
    assert problem["uri"].endswith("/broken/SKILL.md")
    assert "has no end" in problem["reason"]


@pytest.mark.asyncio
async def test_a_prompt_gets_completions(client: RpcClient) -> None:
    session = await client.request("deputy/session/new", {})
    found = await client.request("deputy/context/complete", {**_id(session), "text": "see @MAI"})
    assert found == {"replace": "@MAI", "items": [{"text": "@main.py", "kind": "file"}]}
    found = await client.request("deputy/context/complete", {**_id(session), "text": "/rev"})
    assert found["items"] == [{"text": "/review", "kind": "command", "detail": "<file> Looks closely"}]


def _id(session: dict[str, object]) -> dict[str, object]:
    return {"sessionId": session["sessionId"]}


@pytest.mark.requirement("M7")
@pytest.mark.asyncio
async def test_usage_and_compaction_are_requests_and_commands_of_any_client(client: RpcClient) -> None:
    session = await client.request("deputy/session/new", {})
    found = await client.request("deputy/context/list", _id(session))
    builtin = [command["name"] for command in found["commands"] if command.get("builtin")]
    assert builtin == ["compact", "context", "clear", "model", "mode", "rewind", "fork"]
    assert all("uri" not in command for command in found["commands"] if command.get("builtin"))
    usage = await client.request("deputy/context/usage", _id(session))
    names = ["system", "tools", "mcp", "instructions", "messages", "results", "free"]
    assert [part["name"] for part in usage["parts"]] == names
    assert sum(part["tokens"] for part in usage["parts"]) == usage["window"]
    assert 0 < usage["used"] < usage["compactsAt"] < usage["window"]
    assert await client.request("deputy/context/usage", {**_id(session), "agentId": session["agentId"]}) == usage
    with pytest.raises(RpcFailure, match="-32008"):
        await client.request("deputy/context/usage", {**_id(session), "agentId": "nobody"})
    for text in ("Read AGENTS.md", "Read AGENTS.md again"):
        await client.request("deputy/session/prompt", {**_id(session), "prompt": [{"type": "text", "text": text}]})
    sizes = await client.request("deputy/session/compact", {**_id(session), "keep": "the tabs"})
    assert set(sizes) == {"before", "after"}
    ended = await client.request(
        "deputy/session/prompt", {**_id(session), "prompt": [{"type": "text", "text": "/context"}]}
    )
    assert ended["stopReason"] == "end_turn"
    loaded = await client.request("deputy/session/load", _id(session))
    texts = [entry["text"] for entry in loaded["transcript"] if entry["type"] == "message"]
    assert texts[-2] == "/context"
    assert "tokens used" in texts[-1]
    assert loaded["agents"][0]["context"]["used"] == sizes["after"]
    with pytest.raises(RpcFailure, match="-32602"):
        await client.request("deputy/session/compact", {**_id(session), "keep": "x" * 2001})
