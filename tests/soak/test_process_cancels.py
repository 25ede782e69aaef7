"""A thousand cancels of commands, hooks and programs at random moments leave no process."""

from pathlib import Path

import pytest

from tests.soak.conftest import Record
from tests.soak.options import SEED
from tests.support.process_cancels import ProcessCancels

pytestmark = [pytest.mark.asyncio, pytest.mark.soak, pytest.mark.timeout(1200)]

CANCELS = 250


@pytest.mark.parametrize("seed", range(SEED, SEED + 4))
async def test_cancels_at_random_moments_leave_no_process(seed: int, workspace: Path, record: Record) -> None:
    cancels = ProcessCancels(seed, workspace)
    record(cancels.findings)
    summary = await cancels.run(CANCELS)
    ways = ", ".join(f"{count} {way}" for way, count in sorted(summary.cancels.items()))
    cancels.findings.notes.append(f"seed {seed}: cancelled {ways}; slowest {summary.slowest:.2f} s")
    cancels.findings.check()
