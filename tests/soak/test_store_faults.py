"""The session file fails in random ways while a server works, and nothing is lost in silence."""

import asyncio
import json
import sys
from pathlib import Path

import pytest

from tests.soak.conftest import Record
from tests.soak.options import SEED
from tests.support.findings import Findings
from tests.support.small_disk import on_small_disk

FAULTS = 8
ROOT = Path(__file__).parents[2]

pytestmark = [pytest.mark.asyncio, pytest.mark.soak, pytest.mark.timeout(1200)]


@pytest.mark.parametrize("seed", range(SEED, SEED + 20))
async def test_what_a_client_has_seen_is_stored_or_the_client_is_notified(
    seed: int, workspace: Path, tmp_path: Path, record: Record
) -> None:
    (tmp_path / "disk").mkdir()
    command = (sys.executable, "-m", "tests.soak.store_faults", str(seed), str(FAULTS), str(tmp_path))
    command = await asyncio.to_thread(on_small_disk, tmp_path / "disk", command)
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=pipe, stderr=pipe)
    output, errors = await process.communicate()
    findings = Findings(**json.loads(output)) if output else Findings(tries=1)
    record(findings)
    findings.check()
    assert process.returncode == 0, errors.decode(errors="replace")
