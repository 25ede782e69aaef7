"""The test with a failing model of the suite, for a thousand failures."""

from pathlib import Path

import pytest

from tests.soak.conftest import Record
from tests.soak.options import SEED
from tests.support.model_faults import ModelFaults

pytestmark = [pytest.mark.asyncio, pytest.mark.soak, pytest.mark.timeout(1200)]

FAULTS = 100


@pytest.mark.parametrize("seed", range(SEED, SEED + 10))
async def test_every_prompt_is_answered_and_every_request_valid_however_the_model_fails(
    seed: int, workspace: Path, record: Record
) -> None:
    faults = ModelFaults(seed, FAULTS, workspace)
    record(faults.findings)
    await faults.run()
    ends = ", ".join(f"{count} {end}" for end, count in faults.summary.most_common())
    faults.findings.notes.append(f"seed {seed}: prompts ended with {ends}")
