"""Starts of processes that are cancelled. ``tests/soak`` cancels many more."""

import asyncio
import subprocess
from pathlib import Path

import anyio
import psutil
import pytest
from anyio.lowlevel import checkpoint

from deputy_agents.concurrency.owned_process import Finished, owned, owned_process, run_to_end, start_process
from deputy_agents.concurrency.uninterrupted import uninterrupted
from tests.support.process_cancels import ProcessCancels

pytestmark = pytest.mark.asyncio


async def test_cancels_at_random_moments_leave_no_process(workspace: Path) -> None:
    summary = await ProcessCancels(50, workspace).run(50)
    assert summary.orphans == [], summary


async def test_a_cancelled_start_completes_and_the_cancel_counts_afterwards() -> None:
    reached: list[int] = []

    async def start() -> None:
        process = await start_process(["sleep", "600"])
        try:
            reached.append(process.pid)
            await checkpoint()
            pytest.fail("the cancel was lost")
        finally:
            process.kill()
            await uninterrupted(process.wait)

    task = asyncio.create_task(start())
    await asyncio.sleep(0)  # the task has begun to start the process
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert len(reached) == 1


async def test_uninterrupted_step_counts_every_cancel_of_a_timeout() -> None:
    done = asyncio.Event()

    async def step() -> str:
        await asyncio.sleep(0.05)
        done.set()
        return "result"

    async def wait() -> None:
        async with asyncio.timeout(0.01):
            assert await uninterrupted(step) == "result"
            await asyncio.sleep(20)

    with pytest.raises(TimeoutError):
        await wait()
    assert done.is_set()
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    with anyio.move_on_after(0.01) as scope:
        assert await uninterrupted(step) == "result"
        await anyio.sleep(20)
    assert scope.cancelled_caught


async def test_errors_of_a_start_reach_the_caller() -> None:
    before = owned()
    with pytest.raises(FileNotFoundError):
        async with owned_process(["/nothing/of/that/name"]):
            pass
    assert owned() == before


async def test_leaving_the_context_kills_the_process() -> None:
    async with owned_process(["sleep", "600"]) as process:
        assert process.pid in (owned() or ())
    assert process.returncode == -9
    assert process.pid not in (owned() or ())


async def test_run_to_end_sends_input_and_limits_output() -> None:
    assert await run_to_end(["cat"], send=b"x" * 200_000, limit=1000) == Finished(0, b"x" * 1000)
    assert await run_to_end(["bash", "-c", "read -r a; echo got $a >&2; exit 3"]) == Finished(3, b"")
    with anyio.move_on_after(0.2) as scope:
        await run_to_end(["sleep", "611"])
    assert scope.cancelled_caught
    assert subprocess.run(["pgrep", "-f", "^sleep 611"], check=False, capture_output=True).stdout == b""  # noqa: ASYNC221


async def test_no_descriptor_is_left_by_cancelled_starts(workspace: Path) -> None:
    await ProcessCancels(51, workspace).run(8)
    before = psutil.Process().num_fds()
    await ProcessCancels(52, workspace).run(32)
    assert psutil.Process().num_fds() <= before + 2
