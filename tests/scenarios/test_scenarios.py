"""Each file is one requirement as a scenario: scripted model replies and user actions, and the expected events."""

from pathlib import Path

import pytest

from tests.requirements import REQUIREMENTS
from tests.support.scenario import Scenario

FILES = sorted(Path(__file__).parent.glob("*.yaml"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
@pytest.mark.asyncio
async def test_scenario_produces_expected_events(file: Path, workspace: Path) -> None:
    await Scenario.read(file).play(workspace)


def test_every_scenario_is_named_after_a_requirement() -> None:
    assert {file.stem for file in FILES} <= REQUIREMENTS.keys()
