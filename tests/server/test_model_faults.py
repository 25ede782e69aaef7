"""A model service that fails in random ways: the soak test does this much longer."""

from pathlib import Path

import pytest

from tests.support.model_faults import ModelFaults

pytestmark = pytest.mark.asyncio


@pytest.mark.parametrize("seed", range(1))
async def test_every_prompt_is_answered_and_every_request_valid_however_the_model_fails(
    seed: int, workspace: Path
) -> None:
    faults = ModelFaults(seed, 15, workspace)
    await faults.run()
    assert sum(faults.summary.values()) > 3
