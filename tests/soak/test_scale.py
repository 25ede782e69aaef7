"""Thousands of sub-agents in one session: memory stays flat, queues stay short, and nothing is lost."""

from pathlib import Path

import pytest

from tests.soak.conftest import Record
from tests.soak.options import MINUTES, SEED
from tests.soak.scale import Scale

pytestmark = [pytest.mark.asyncio, pytest.mark.soak, pytest.mark.timeout(MINUTES * 60 + 900)]


@pytest.mark.parametrize("seed", [SEED])
async def test_thousands_of_sub_agents_leave_memory_flat_and_nothing_behind(
    seed: int, workspace: Path, tmp_path: Path, record: Record
) -> None:
    scale = Scale(seed, MINUTES * 60, tmp_path, workspace)
    record(scale.findings)
    await scale.run()
    scale.findings.check()
    assert scale.is_flat, scale.memory
