"""Instructions, skills and commands: listed, and completed in prompts."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.support.rpc import EVERYTHING, RpcClient, serving


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
    assert [(command["name"], command["argumentHint"]) for command in found["commands"]] == [("review", "<file>")]
    [problem] = found["problems"]
    assert problem["uri"].endswith("/broken/SKILL.md")
    assert "closing line" in problem["reason"]


@pytest.mark.asyncio
async def test_a_prompt_gets_completions(client: RpcClient) -> None:
    session = await client.request("deputy/session/new", {})
    found = await client.request("deputy/context/complete", {**_id(session), "text": "see @MAI"})
    assert found == {"replace": "@MAI", "items": [{"text": "@main.py", "kind": "file"}]}
    found = await client.request("deputy/context/complete", {**_id(session), "text": "/r"})
    assert found["items"] == [{"text": "/review", "kind": "command", "detail": "<file> Looks closely"}]


def _id(session: dict[str, object]) -> dict[str, object]:
    return {"sessionId": session["sessionId"]}
