"""Thinking over the life of a session, with the adapter and a service that checks what comes back."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from deputy_agents.domain.event import ThoughtAdded
from deputy_agents.domain.message import Text
from deputy_agents.domain.model_card import ThinkingMode
from deputy_agents.domain.settings import Settings
from deputy_agents.model import card_file
from deputy_agents.model.endpoint import ApiSettings
from deputy_agents.model.factory import Models
from deputy_agents.session.runtime import Runtime
from deputy_agents.session.session import Session
from deputy_agents.store.memory import MemoryStore
from tests.support.api_rules import blocks_of
from tests.support.messages_api import MessagesApi, messages_api
from tests.support.model_replies import Json, Play, call, calls, say, text, think

pytestmark = pytest.mark.asyncio

CARDS = card_file.built_in()


def script(body: Json, number: int) -> Play:
    """Thinks, lists a folder and answers, in every turn."""
    last = blocks_of(body["messages"][-1])
    if any(block["type"] == "tool_result" for block in last):
        return calls(think(f"thought {number}", f"c2ln{number:04d}"), text("Found it."))
    return calls(think(f"thought {number}", f"c2ln{number:04d}"), call("list_dir", path="."))


@asynccontextmanager
async def session_at(root: Path, model: str) -> AsyncGenerator[tuple[Session, MessagesApi, Runtime]]:
    async with asyncio.timeout(50), messages_api(script) as api:
        models = Models({"ANTHROPIC_API_KEY": "key"})
        try:
            async with Runtime(store=MemoryStore(), home=root.parent / "home") as runtime:
                client = runtime.clients.connect(Settings(model=model, cards=CARDS), models.of(ApiSettings(api.url)))
                yield await runtime.new_session(client, cwd=root, roots=[root]), api, runtime
        finally:
            await models.aclose()


async def prompt(session: Session) -> None:
    assert (await session.turns.accept([Text("go")]).result()).stop_reason == "end_turn"


def thoughts(body: Json) -> list[str]:
    return [block["thinking"] for m in body["messages"] for block in blocks_of(m) if block["type"] == "thinking"]


@pytest.mark.requirement("M1")
@pytest.mark.parametrize("model", ["claude-sonnet-5-5", "claude-haiku-4-5"])
async def test_thinking_survives_tool_loops_and_a_restart_and_is_dropped_with_the_model(
    tmp_path: Path, model: str
) -> None:
    async with session_at(tmp_path, model) as (session, api, runtime):
        await prompt(session)
        await prompt(session)
        assert [thoughts(body) for body in api.bodies] == [
            [f"thought {number}" for number in range(count)] for count in range(4)
        ]
        await runtime.unload(session.id)
        again = await runtime.load(session.settings.client, session.id, roots=[tmp_path])
        await prompt(again)
        assert thoughts(api.bodies[4]) == [f"thought {number}" for number in range(4)]
        again.model_choice.change("claude-opus-5-5")
        await prompt(again)
        assert [thoughts(body) for body in api.bodies[6:]] == [[], ["thought 6"]]
        again.model_choice.change(thinking=ThinkingMode.OFF)
        await prompt(again)
        assert "thinking" not in api.bodies[8]
        assert api.violations == []


@pytest.mark.requirement("M1")
async def test_what_a_model_thought_stays_in_the_transcript_before_its_message(tmp_path: Path) -> None:
    async with session_at(tmp_path, "claude-sonnet-5-5") as (session, _, runtime):
        await prompt(session)
        kinds = ["MessageAdded", "ThoughtAdded", "ToolCall", "ThoughtAdded", "MessageAdded"]
        page = await session.transcript(session.primary_id)
        assert [type(entry.body).__name__ for entry in page.entries] == kinds
        await runtime.unload(session.id)
        again = await runtime.load(session.settings.client, session.id, roots=[tmp_path])
        page = await again.transcript(session.primary_id)
        shown = [entry.body.text for entry in page.entries if isinstance(entry.body, ThoughtAdded)]
        assert shown == ["thought 0", "thought 1"]


@pytest.mark.requirement("M1")
async def test_a_tool_loop_goes_on_after_a_change_of_the_model_in_its_middle(tmp_path: Path) -> None:
    """A service that thinks within a budget rejects a loop that began without its thinking."""
    async with session_at(tmp_path, "claude-sonnet-5-5") as (session, api, _):
        plays = iter([calls(think("a", "c2lnQQ=="), call("list_dir", path=".")), say("done")])

        def switching(body: Json, number: int) -> Play:
            if number == 0:
                session.model_choice.change("claude-haiku-4-5")
            return next(plays)

        api.script = switching
        await prompt(session)
        assert [body["model"] for body in api.bodies] == ["claude-sonnet-5-5", "claude-haiku-4-5"]
        assert "thinking" not in api.bodies[1]
        assert api.violations == []
