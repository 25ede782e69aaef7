"""``deputy acp``, used by the protocol's own library over real pipes."""

import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import acp
import anyio
import pytest
from acp import helpers, schema

pytestmark = pytest.mark.anyio


@dataclass
class Editor:
    """A client that answers each permission request with ``kind``, and records all updates."""

    kind: str
    told: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    asked: list[schema.ToolCallUpdate] = field(default_factory=list[schema.ToolCallUpdate])
    unknown: list[str] = field(default_factory=list[str])
    """Calls whose permission request came before the call."""

    async def session_update(self, session_id: str, update: object, **_: object) -> None:
        if isinstance(update, schema.ToolCallStart | schema.ToolCallProgress):
            self.told.append((update.tool_call_id, update.status or ""))

    async def request_permission(
        self,
        session_id: str,
        tool_call: schema.ToolCallUpdate,
        options: list[schema.PermissionOption],
        **_: object,
    ) -> schema.RequestPermissionResponse:
        self.asked.append(tool_call)
        if tool_call.tool_call_id not in [one for one, _ in self.told]:
            self.unknown.append(tool_call.tool_call_id)
        chosen = next((one.option_id for one in options if one.kind == self.kind), "no such option")
        return schema.RequestPermissionResponse(outcome=schema.AllowedOutcome(outcome="selected", option_id=chosen))

    def on_connect(self, conn: object) -> None: ...


@asynccontextmanager
async def connected(editor: Editor, tmp_path: Path) -> AsyncGenerator[acp.Agent]:
    env = {**os.environ, "DEPUTY_STATE": str(tmp_path / "state"), "DEPUTY_MODEL": "offline"}
    command = (sys.executable, "-P", "-m", "deputy_server", "acp")
    with anyio.fail_after(60):
        async with acp.spawn_agent_process(editor, *command, env=env) as (agent, _):  # type: ignore[arg-type]
            await agent.initialize(protocol_version=acp.PROTOCOL_VERSION)
            yield agent


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("allow_once", "the color\n"),
        ("reject_once", "the colour\n"),
        ("not offered", "the colour\n"),
    ],
)
async def test_an_edit_of_a_sub_agent_is_requested_with_its_diff_and_made_only_when_approved(
    tmp_path: Path, kind: str, text: str
) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "a.txt").write_text("the colour\n")
    editor = Editor(kind)
    async with connected(editor, tmp_path) as agent:
        session = await agent.new_session(cwd=str(folder), mcp_servers=[])
        prompt = [helpers.text_block('replace "colour" with "color" in a.txt')]
        ended = await agent.prompt(session_id=session.session_id, prompt=prompt)  # type: ignore[arg-type]
    assert ended.stop_reason == "end_turn"
    assert (folder / "a.txt").read_text() == text
    asked = editor.asked[0]
    assert (asked.title or "").startswith("[Replace")
    assert "edit_file(a.txt)" in (asked.title or "")
    assert [type(one) for one in asked.content or ()] == [schema.FileEditToolCallContent]
    assert editor.unknown == []
    last = dict(editor.told)
    assert set(last.values()) <= {"completed", "failed"}
    assert last[asked.tool_call_id] == ("completed" if kind == "allow_once" else "failed")


async def test_an_unknown_session_and_an_unknown_mode_are_rejected_with_a_message(tmp_path: Path) -> None:
    async with connected(Editor("reject_once"), tmp_path) as agent:
        with pytest.raises(acp.RequestError, match="Session nowhere is not open"):
            await agent.prompt(session_id="nowhere", prompt=[helpers.text_block("hello")])
        session = await agent.new_session(cwd=str(tmp_path), mcp_servers=[])
        with pytest.raises(acp.RequestError):
            await agent.set_session_mode(session_id=session.session_id, mode_id="everything")
        await agent.set_session_mode(session_id=session.session_id, mode_id="plan")
