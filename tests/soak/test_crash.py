"""The crash test of the suite, at many more moments."""

from pathlib import Path

import pytest

from tests.soak.conftest import Record
from tests.soak.options import SEED
from tests.support.crash import Crash

pytestmark = [pytest.mark.asyncio, pytest.mark.soak, pytest.mark.timeout(180)]


@pytest.mark.parametrize("seed", range(SEED, SEED + 500))
async def test_after_a_kill_at_a_random_moment_every_run_has_one_end_and_the_session_continues(
    seed: int, workspace: Path, tmp_path: Path, record: Record
) -> None:
    crash = Crash(seed, workspace, tmp_path / "state")
    record(crash.findings)
    await crash.run()
