"""Requests in the queue: reported waits, cancellation, and many agents at a strict server."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

import pytest

from deputy_agents.domain.errors import ModelError, ModelErrorKind
from deputy_agents.domain.event import StatusChanged
from deputy_agents.domain.message import Message, Reply, Text
from deputy_agents.domain.settings import AgentSettings, RetrySettings, Settings
from deputy_agents.model import fair_queue
from deputy_agents.model.endpoint import ApiSettings
from deputy_agents.model.error_mapping import model_error
from deputy_agents.model.factory import Models
from deputy_agents.model.fair_queue import FairQueue, QueuedModel
from deputy_agents.model.scripted import ScriptedModel, say
from deputy_agents.ports.model import ModelEvent, ModelRequest, RequestAccepted, RequestDelayed, TextPart
from deputy_agents.session.runtime import Runtime
from deputy_agents.store.memory import MemoryStore
from tests.support import model_replies
from tests.support.messages_api import messages_api
from tests.support.model_replies import Json, Play
from tests.support.shared_server import is_child

SOON = RetrySettings(base=0.01, cap=0.05)


def request(session_id: str = "s", depth: int = 1) -> ModelRequest:
    return ModelRequest("m", "", (Message("user", (Text("hi"),)),), session_id=session_id, depth=depth)


async def events(model: QueuedModel) -> list[ModelEvent]:
    async with aclosing(model.stream(request())) as stream:
        return [event async for event in stream]


@pytest.fixture
def report_immediately(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fair_queue, "REPORT_AFTER", 0)


@pytest.mark.asyncio
async def test_a_request_that_need_not_wait_passes_through_unchanged() -> None:
    async def stream(_: ModelRequest) -> AsyncGenerator[ModelEvent]:
        yield RequestAccepted()
        yield TextPart("a")
        yield say("a")

    answer = await events(QueuedModel(ScriptedModel(stream), FairQueue()))
    assert [type(event) for event in answer] == [TextPart, Reply]


@pytest.mark.requirement("X11")
@pytest.mark.asyncio
@pytest.mark.usefixtures("report_immediately")
async def test_a_pause_is_shared_reported_and_ends_automatically() -> None:
    failures = [model_error(ModelErrorKind.RATE_LIMITED, retry_after=0.05)]
    model = QueuedModel(ScriptedModel(lambda _: _raise(failures.pop()) if failures else say("ok")), FairQueue(SOON))
    with pytest.raises(ModelError) as caught:
        await events(model)
    assert caught.value.retry_after == pytest.approx(0.05, abs=0.01)  # pyright: ignore[reportUnknownMemberType]
    first, over, *answer = await events(model)
    assert isinstance(first, RequestDelayed)
    assert (first.reason or "").startswith("the model service is busy: all requests wait")
    assert over == RequestDelayed(None)
    assert isinstance(answer[-1], Reply)


def _raise(error: ModelError) -> Reply:
    raise error


@pytest.mark.asyncio
async def test_other_failures_cause_no_pause() -> None:
    failures = [model_error(kind) for kind in ModelErrorKind if kind.value not in ("rate_limited", "overloaded")]
    model = QueuedModel(ScriptedModel(lambda _: _raise(failures.pop()) if failures else say("ok")), FairQueue())
    while failures:
        with pytest.raises(ModelError):
            await events(model)
    assert isinstance((await events(model))[-1], Reply)


@pytest.mark.requirement("X11")
@pytest.mark.asyncio
@pytest.mark.usefixtures("report_immediately")
async def test_a_cancelled_wait_leaves_the_queue_and_a_cancelled_request_frees_its_place() -> None:
    gate, queue = asyncio.Event(), FairQueue()
    queue.limiter.limit = 1.0

    sent = asyncio.Event()

    async def stream(_: ModelRequest) -> AsyncGenerator[ModelEvent]:
        sent.set()
        await gate.wait()
        yield say("ok")

    model = QueuedModel(ScriptedModel(stream), queue)
    async with asyncio.timeout(10):
        running = asyncio.create_task(events(model))
        await sent.wait()
        waits, last = asyncio.create_task(events(model)), asyncio.create_task(events(model))
        await asyncio.sleep(0)
        waits.cancel()
        running.cancel()
        gate.set()
        assert isinstance((await last)[-1], Reply)
        assert {task.cancelled() for task in (waits, running) if task.done()} == {True}
    assert queue.limiter.running == 0
    assert queue.limiter.waiting == ()


class Strict:
    """A server's script that answers ``allowed`` sub-agents at once and rejects the others."""

    def __init__(self, allowed: int, children: int) -> None:
        self.busy = 0
        self.peak = 0
        self._allowed = allowed
        self._children = children

    async def __call__(self, body: Json, n: int) -> Play:
        if not is_child(body):
            tasks = [{"task": f"Child {index}"} for index in range(self._children)]
            spoken = len(body["messages"]) > 1
            return (
                model_replies.say("done")
                if spoken
                else model_replies.calls(model_replies.call("spawn_agents", tasks=tasks))
            )
        if self.busy >= self._allowed:
            return model_replies.failing(429, "rate_limit_error", retry_after_ms="20")
        self.busy += 1
        self.peak = max(self.peak, self.busy)
        try:
            await asyncio.sleep(0.01)  # the duration of an answer
        finally:
            self.busy -= 1
        return model_replies.say("I am done.")


@pytest.mark.requirement("X11")
@pytest.mark.asyncio
async def test_32_children_at_a_server_that_accepts_4_all_finish_with_few_extra_requests(tmp_path: Path) -> None:
    script = Strict(4, 32)
    settings = Settings(model="m", agents=AgentSettings(max_parallel=32, max_parallel_per_parent=32))
    async with asyncio.timeout(50), messages_api(script) as api:
        models = Models({"ANTHROPIC_API_KEY": "k"})
        async with Runtime(store=MemoryStore()) as runtime:
            client = runtime.clients.connect(settings, models.of(ApiSettings(api.url)))
            session = await runtime.new_session(client, cwd=tmp_path, roots=[tmp_path])
            outcome = await session.turns.accept([Text("go")]).result()
            statuses = [node.status.value for node in session.agents() if node.info.depth]
        await models.aclose()
    assert outcome.stop_reason == "end_turn"
    assert statuses == ["completed"] * 32
    assert len(api.requests) <= 1.3 * (32 + 2)
    assert api.violations == []


@pytest.mark.requirement("X11")
@pytest.mark.asyncio
@pytest.mark.usefixtures("report_immediately")
async def test_an_agent_that_waits_in_a_pause_shows_it_uses_no_attempt_and_can_be_cancelled(tmp_path: Path) -> None:
    queue = FairQueue()
    scripted = ScriptedModel(lambda _: say("never"))
    queued_model = QueuedModel(scripted, queue)
    ahead = queue.join(request("other"))
    queue.reject(ahead, 100.0)
    async with asyncio.timeout(20):
        async with Runtime(store=MemoryStore()) as runtime:
            client = runtime.clients.connect(Settings(model="m"), lambda _: queued_model)
            session = await runtime.new_session(client, cwd=tmp_path, roots=[tmp_path])
            subscription = session.log.subscribe(0)
            turn = session.turns.accept([Text("go")])
            async for event in subscription:
                if isinstance(event.body, StatusChanged) and event.body.detail:
                    break
            assert event.body.detail == "the model service is busy: all requests wait 100 s"
            assert await session.turns.cancel()
            assert (await turn.result()).stop_reason == "cancelled"
    assert scripted.requests == []
