"""A server can be killed at any moment without losing published events."""

from pathlib import Path

import pytest

from tests.support.crash import Crash

pytestmark = pytest.mark.asyncio


@pytest.mark.requirement("E7")
@pytest.mark.parametrize("seed", range(3))
async def test_after_a_kill_at_a_random_moment_every_run_has_one_end_and_the_session_continues(
    seed: int, workspace: Path, tmp_path: Path
) -> None:
    await Crash(seed, workspace, tmp_path / "state").run()
