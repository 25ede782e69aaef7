"""Recordings: their content, redaction and replay."""

import asyncio
import json
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deputy_agents.domain.errors import InvalidRequest, ModelError, ModelErrorKind
from deputy_agents.domain.event import MessageAdded, MessageDelta, ToolCallStarted
from deputy_agents.domain.message import Message, Reply, StopReason, Text, Usage
from deputy_agents.domain.turn import TurnResult
from deputy_agents.model.error_mapping import model_error
from deputy_agents.model.recording import Recorder, Replay, replay
from deputy_agents.model.scripted import ScriptedModel, call, say
from deputy_agents.ports.model import ModelEvent, ModelRequest, TextPart
from deputy_agents.redact import MASK, Redactor
from tests.support.core import BOUND, Cast, Core, Pause, StillClock, core, delegate

PLAIN = Redactor({})


async def replayed(path: Path) -> Replay:
    return await asyncio.to_thread(replay, path, {})


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


async def recorded(path: Path, answer: object, redactor: Redactor = PLAIN) -> None:
    recorder = Recorder(path, redactor)
    model = recorder.wrap(ScriptedModel(lambda _: answer))  # type: ignore[arg-type, return-value]
    _ = [event async for event in model.stream(ModelRequest("m", "Be brief.", (Message("user", (Text("hi"),)),)))]
    recorder.close()


@pytest.mark.asyncio
async def test_a_session_with_children_is_replayed_unchanged(workspace: Path, tmp_path: Path) -> None:
    (workspace / "a.txt").write_text("hello\n")
    path = tmp_path / "session.jsonl"
    cast = Cast(
        [delegate("first", "second"), model_error(ModelErrorKind.SERVER), say("all done", usage=Usage(9, 3))],
        {
            "first": [call("read_file", path="a.txt"), [TextPart("on"), TextPart("e"), say("one")]],
            "second": [say("two")],
        },
    )
    recorder = Recorder(path, PLAIN)
    async with core(workspace, cast, wrap=recorder.wrap, clock=StillClock()) as c:
        before = await _observed(c)
    recorder.close()
    again = await replayed(path)
    async with core(workspace, again.script, clock=StillClock()) as c:
        after = await _observed(c)
    assert after == before
    assert (await _error_of(again)).startswith("The recording has no reply")


async def _observed(c: Core) -> tuple[TurnResult, list[str], list[str], str]:
    outcome = await c.turn("go")
    await c.caught_up()
    said = sorted(body.text for body in c.bodies(MessageAdded))
    tools = sorted(body.title for body in c.bodies(ToolCallStarted))
    return outcome, said, tools, "".join(body.text for body in c.bodies(MessageDelta, c.child("first").info.agent_id))


async def _error_of(model: object) -> str:
    request = ModelRequest("m", "", (Message("user", (Text("something else"),)),), agent_id="new")
    with pytest.raises(ModelError) as caught:
        _ = [event async for event in model.stream(request)]  # type: ignore[attr-defined]
    return str(caught.value)


@pytest.mark.asyncio
async def test_a_cancelled_request_can_be_cancelled_again_in_a_replay(workspace: Path, tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    pause = Pause(say("never"), [TextPart("half an ans")])
    recorder = Recorder(path, PLAIN)
    async with core(workspace, Cast([pause]), wrap=recorder.wrap) as c:
        turn = c.start()
        async with asyncio.timeout(BOUND):
            await pause.asked.wait()
        await c.seen(MessageDelta)
        await c.session.turns.cancel()
        await c.finish(turn)
    recorder.close()
    (line,) = lines(path)
    assert "reply" not in line
    assert "failure" not in line
    async with core(workspace, (await replayed(path)).script) as c:
        turn = c.start()
        assert (await c.seen(MessageDelta)).text == "half an ans"
        await c.session.turns.cancel()
        assert (await c.finish(turn)).stop_reason == "cancelled"


@pytest.mark.asyncio
async def test_a_line_contains_only_what_is_new_in_a_request(workspace: Path, tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    recorder = Recorder(path, PLAIN)
    cast = Cast([call("list_dir", path="."), say("ok")])
    async with core(workspace, cast, wrap=recorder.wrap) as c:
        await c.turn("look")
    recorder.close()
    first, second = lines(path)
    assert (first["known"], len(first["messages"]), first["task"]) == (0, 1, "look")  # type: ignore[arg-type]
    assert (second["known"], len(second["messages"])) == (1, 2)  # type: ignore[arg-type]
    assert "system" in first
    assert "tools" in first
    assert not {"system", "tools"} & set(second)


@pytest.mark.asyncio
async def test_secrets_are_not_written_even_if_the_stream_splits_them(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    secret = "hunter2hunter2"
    parts: list[ModelEvent] = [TextPart("it is hunter2"), TextPart("hunter2, yes"), say(f"it is {secret}, yes")]
    await recorded(path, parts, Redactor({"DB_PASSWORD": secret}))
    assert secret not in path.read_text()
    assert "hunter2" not in path.read_text()
    events = [e async for e in (await replayed(path)).stream(ModelRequest("m", "", (Message("user", (Text("hi"),)),)))]
    assert events[0] == TextPart(f"it is {MASK}, yes")


@pytest.mark.asyncio
async def test_the_file_is_private_and_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    await recorded(path, say("ok"))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(FileExistsError):
        Recorder(path, PLAIN)


@pytest.mark.parametrize("text", ["", "\n", "{}", "not json", '{"agent": 1}'])
def test_an_invalid_recording_is_reported(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(text)
    with pytest.raises(InvalidRequest):
        replay(path, {})
    with pytest.raises(InvalidRequest):
        replay(tmp_path / "none", {})


@pytest.mark.parametrize(
    "secret",
    [
        "sk-" + 4 * "abc-123_",
        "ghp_abcdefghijklmnopqrstuvwxyz0123",
        "AKIAABCDEFGHIJKLMNOP",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NSJ9.abcdefghijklmnop",
        "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----",
    ],
)
def test_keys_are_recognized_by_their_format(secret: str) -> None:
    assert PLAIN.text(f"before {secret} after") == f"before {MASK} after"


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ('password = "correct horse"', f"password = {MASK}"),
        ("api_key: abcdef123", f"api_key: {MASK}"),
        ('{"client_secret": "abcdefg"}', f'{{"client_secret": {MASK}}}'),
        ("postgres://me:pass@host/db", f"postgres://{MASK}@host/db"),
        ("the token count is 5", "the token count is 5"),
        ("def password(self):", "def password(self):"),
    ],
)
def test_values_of_secret_names_are_removed(text: str, clean: str) -> None:
    assert PLAIN.text(text) == clean


def test_short_values_and_other_variables_stay() -> None:
    redactor = Redactor({"MY_TOKEN": "abc", "HOME": "/home/someone", "API_KEY": "abcdefghij"})
    assert redactor.json({"a": ["abc /home/someone", "x abcdefghij", 3]}) == {
        "a": ["abc /home/someone", f"x {MASK}", 3]
    }


@given(st.text(max_size=200))
def test_redaction_is_idempotent(text: str) -> None:
    once = PLAIN.text(text)
    assert PLAIN.text(once) == once


def test_a_reply_is_read_back_unchanged(tmp_path: Path) -> None:
    reply = Reply(Message("assistant", ()), StopReason.REFUSAL, Usage(1, 2, 3, 4))
    path = tmp_path / "x.jsonl"
    asyncio.run(recorded(path, reply))
    request = ModelRequest("m", "", (Message("user", (Text("hi"),)),))

    async def played() -> list[ModelEvent]:
        return [event async for event in (await replayed(path)).stream(request)]

    assert asyncio.run(played()) == [reply]
