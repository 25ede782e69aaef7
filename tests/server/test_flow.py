"""Slow clients: their traffic neither blocks the server nor makes its memory grow."""

import asyncio
import signal
from pathlib import Path

import psutil
import pytest

from tests.support.model_replies import Json, say
from tests.support.rpc import serving
from tests.support.shared_server import Deputies, is_quiet, spawning

pytestmark = pytest.mark.asyncio(loop_scope="module")

MIB = 2**20


async def test_a_client_that_stops_reading_catches_up_later(deputy: Deputies, workspace: Path) -> None:
    """The turn continues meanwhile, the client's cancel is handled, and no durable event is lost."""
    words = "word " * 20_000
    gate = asyncio.Event()

    def child(body: Json, _: int) -> object:
        return say(words, piece=50) if "first" in str(body["messages"][0]) else say("late", gate=gate)

    async with deputy(spawning("first", "second", child=child), workspace) as (client, api):  # type: ignore[arg-type]
        session_id, _ = await client.session()
        client.stop_reading()
        before = psutil.Process(client.process.pid).memory_info().rss
        prompt = client.start_prompt(session_id, "go")
        await api.until(lambda: len(api.requests) == 3)
        await api.until(lambda: sum(r.ended_at is not None for r in api.requests) == 2)
        client.notify("$/cancelRequest", {"id": prompt})
        await api.until(lambda: is_quiet(api))
        assert psutil.Process(client.process.pid).memory_info().rss - before < 100 * MIB
        client.go_on_reading()
        assert (await client.result(prompt))["stopReason"] == "cancelled"
        durable = [event["seq"] for event in client.events() if "seq" in event]
        assert durable == list(range(1, len(durable) + 1))
        said = [event["text"] for event in client.events("message") if event["role"] == "assistant"]
        assert len(said) == 1
        assert words.startswith(said[0])


@pytest.mark.requirement("X12")
@pytest.mark.parametrize(
    ("number", "code"), [(None, 0), (signal.SIGTERM, 143), (signal.SIGINT, 130)], ids=["end of input", "TERM", "INT"]
)
async def test_a_client_that_does_not_read_does_not_delay_shutdown(
    workspace: Path, number: signal.Signals | None, code: int
) -> None:
    async with serving() as client:
        await client.initialize(workspace, initializationOptions={"model": "offline"})
        client.stop_reading()
        for _ in range(3000):
            client.start("deputy/session/list", {})
        await client.drain()  # most requests are read by now, and their responses exceed the pipe's capacity
        if number is None:
            client.close_input()
        else:
            client.process.send_signal(number)
        await client.gone()
        client.go_on_reading()
        assert await client.exit_code() == code


async def test_every_request_of_a_flood_is_answered(deputy: Deputies, workspace: Path) -> None:
    async with deputy(lambda *_: say("hello"), workspace) as (client, _):
        asked = [client.start("deputy/session/list", {}) for _ in range(3000)]
        for request_id in asked:
            assert "sessions" in await client.result(request_id)
        answers = [m["id"] for m in client.received if "method" not in m and m["id"] in set(asked)]
        assert sorted(answers) == asked


async def test_long_requests_do_not_prevent_cancelling_others(deputy: Deputies, workspace: Path) -> None:
    gate = asyncio.Event()
    async with deputy(lambda *_: say("late", gate=gate), workspace) as (client, _):
        session_id, _ = await client.session()
        first = client.start_prompt(session_id, "go")
        await client.event("turn_started")
        others = [client.start_prompt(session_id, "next", queue=True) for _ in range(40)]
        refused = [await client.answer(other) for other in others[32:]]
        assert {answer["error"]["code"] for answer in refused} == {-32005}
        for prompt in (first, *others[:32]):
            client.notify("$/cancelRequest", {"id": prompt})
        for prompt in (first, *others[:32]):
            assert (await client.result(prompt))["stopReason"] == "cancelled"
