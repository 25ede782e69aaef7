"""A time limit counts running time only. The loop's own clock is moved by hand."""

import asyncio

import pytest

from deputy_agents.run.deadline import Deadline


class LoopTime:
    """Moves the time of the running loop, and lets it fire what is due."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: self.now)

    async def pass_(self, seconds: float) -> None:
        self.now += seconds
        for _ in range(3):
            await asyncio.sleep(0)


@pytest.mark.asyncio
async def test_it_passes_when_it_has_run_for_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    time = LoopTime(monkeypatch)
    deadline = Deadline(10)
    passed = asyncio.create_task(deadline.passed())
    deadline.run()
    await time.pass_(9.5)
    assert not passed.done()
    await time.pass_(0.5)
    assert passed.done()


@pytest.mark.asyncio
async def test_rest_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    time = LoopTime(monkeypatch)
    deadline = Deadline(10)
    passed = asyncio.create_task(deadline.passed())
    await time.pass_(1000)
    for _ in range(3):
        deadline.run()
        deadline.run()
        await time.pass_(3)
        deadline.pause()
        deadline.pause()
        await time.pass_(1000)
    assert not passed.done()
    deadline.run()
    await time.pass_(1)
    assert passed.done()


@pytest.mark.asyncio
async def test_what_has_passed_stays_so(monkeypatch: pytest.MonkeyPatch) -> None:
    time = LoopTime(monkeypatch)
    deadline = Deadline(1)
    deadline.run()
    await time.pass_(1)
    deadline.pause()
    async with asyncio.timeout(None):
        await deadline.passed()
