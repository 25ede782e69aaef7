"""Each file here is one row of the requirements as a story: what models say and people do, and the events of it."""

from pathlib import Path

import pytest

from tests.requirements import REQUIREMENTS
from tests.support.scenario import Scenario

FILES = sorted(Path(__file__).parent.glob("*.yaml"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
@pytest.mark.asyncio
async def test_it_happens_as_it_is_written(file: Path, workspace: Path) -> None:
    await Scenario.read(file).play(workspace)


def test_every_file_is_named_after_a_row() -> None:
    assert {file.stem for file in FILES} <= REQUIREMENTS.keys()
