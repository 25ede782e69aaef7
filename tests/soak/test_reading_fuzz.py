"""Commands that need no approval because they only read do nothing else."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from deputy_agents.shell import reading
from tests.soak.options import FUZZ_MINUTES, FUZZ_SEED
from tests.soak.reading_fuzz import ReadingFuzzer

pytestmark = pytest.mark.requirement("Q2")


@pytest.mark.soak
@pytest.mark.timeout(FUZZ_MINUTES * 60 + 300)
def test_commands_that_only_read_do_nothing_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fuzzer = ReadingFuzzer(tmp_path, FUZZ_SEED)
    until = time.monotonic() + FUZZ_MINUTES * 60
    while time.monotonic() < until and not fuzzer.report.faults:
        fuzzer.run(rounds=20)
    with capsys.disabled():
        print(f"\n{fuzzer.report}")
    assert fuzzer.report.faults == []


def test_a_few_commands_that_only_read_do_nothing_else(tmp_path: Path) -> None:
    fuzzer = ReadingFuzzer(tmp_path, 1)
    fuzzer.run(rounds=120)
    assert fuzzer.report.faults == []
    assert fuzzer.report.allowed > 15, str(fuzzer.report)


def names_are_not_checked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reading, "_check_names", lambda names: None)


def options_are_not_checked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reading.OperandReader, "read", lambda self: [])


@pytest.mark.parametrize(("weaken", "seed"), [(names_are_not_checked, 1), (options_are_not_checked, 1)])
def test_the_fuzzer_finds_a_weaker_gate(
    weaken: Callable[[pytest.MonkeyPatch], None], seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weaken(monkeypatch)
    fuzzer = ReadingFuzzer(tmp_path, seed)
    for _ in range(200):
        fuzzer.run(rounds=20)
        if fuzzer.report.faults:
            return
    pytest.fail(str(fuzzer.report))
