"""The crash test of the suite, at many more moments."""

from pathlib import Path

import pytest

from tests.support.crash import Crash

pytestmark = [pytest.mark.asyncio, pytest.mark.soak]


@pytest.mark.parametrize("seed", range(1000, 1200))
async def test_after_a_kill_at_a_random_moment_every_run_has_one_end_and_the_session_continues(
    seed: int, workspace: Path, tmp_path: Path
) -> None:
    await Crash(seed, workspace, tmp_path / "state").run()
