"""The complete text that agents of each built-in definition start with, compared with the files in ``prompts/``.

A file that is missing is written by the test, which then fails once: look at the difference before you commit it.
"""

import platform
from pathlib import Path

import pytest

from deputy_agents.domain.message import Reply, Text, text_of
from deputy_agents.model.scripted import calls, say, use
from deputy_agents.ports.model import ModelRequest
from tests.support.core import StillClock, core

PROMPTS = Path(__file__).parent / "prompts"
TYPED = {"code_review": {"target": "src"}, "code_search": {"query": "main"}, "planner": {"task": "Add a test"}}

pytestmark = [pytest.mark.requirement("M8"), pytest.mark.asyncio]


def shown(request: ModelRequest, workspace: Path) -> str:
    parts = request.system, *(f"## {message.role}\n\n{text_of(message.content)}" for message in request.messages)
    return "\n\n".join(parts).replace(str(workspace), "/workspace") + "\n"


@pytest.mark.parametrize("name", ["primary", "general", *sorted(TYPED)])
async def test_the_first_request_is_as_recorded(workspace: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    for part, value in (("system", "Linux"), ("release", "6.1"), ("machine", "x86_64")):
        monkeypatch.setattr(platform, part, lambda value=value: value)
    (workspace / "src").mkdir()
    (workspace / "src" / "main.py").write_text("")
    delegation = use(name, **TYPED[name]) if name in TYPED else use("spawn_agent", instructions="Look around.")

    def script(request: ModelRequest) -> Reply:
        return calls([delegation]) if request.depth == 0 and len(request.messages) == 1 else say("Done.")

    async with core(workspace, script, clock=StillClock()) as c:
        turn = await c.session.prompts.accept([Text("Please look around.")])
        await c.finish(turn)
        request = next(one for one in c.model.requests if (one.depth == 0) == (name == "primary"))
    text = shown(request, workspace)
    path = PROMPTS / f"{name}.md"
    if not path.exists():
        path.write_text(text, "utf-8")
    assert text == path.read_text("utf-8")
