"""What the gate allows is what bash does."""

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from deputy_agents.shell import access, line, parse
from deputy_agents.shell.builtin import Effect
from tests.soak.options import FUZZ_MINUTES, FUZZ_SEED
from tests.soak.shell_fuzz import Fuzzer, Mode


@pytest.fixture
def fuzzer(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Fuzzer]:
    found = Fuzzer(
        tmp_path, getattr(request, "param", 0), seconds_to_shrink=0 if "weaken" in request.fixturenames else 10
    )
    yield found
    found.close()


@pytest.mark.soak
@pytest.mark.timeout(FUZZ_MINUTES * 60 + 300)
@pytest.mark.parametrize("fuzzer", [FUZZ_SEED], indirect=True, ids=["random"])
def test_bash_does_nothing_that_the_gate_has_not_allowed(fuzzer: Fuzzer, capsys: pytest.CaptureFixture[str]) -> None:
    fuzzer.run(rounds=10**9, until=time.monotonic() + FUZZ_MINUTES * 60)
    with capsys.disabled():
        # Workers of pytest-xdist show only what is written to the error output.
        print(f"\nshell fuzzer: {fuzzer.report}", file=sys.stderr)
    assert fuzzer.report.bypasses == []
    assert fuzzer.report.never_ran == []


def test_a_few_lines_do_nothing_that_the_gate_has_not_allowed(fuzzer: Fuzzer) -> None:
    fuzzer.run(rounds=60)
    assert fuzzer.report.bypasses == []
    assert all(fuzzer.report.allowed[mode] > 5 for mode in Mode)


def literal_words_are_not_checked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(parse._Reader, "_own_words", lambda self, node: ())


def effects_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(line, "_effect", lambda part: Effect.NONE)


def mentions_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(access, "mentioned_in_command", lambda command: ())


def evaluations_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(parse, "is_plain_expansion", lambda text: True)
    patch.setattr(parse, "calculated_names", lambda text: frozenset())
    patch.setattr(line, "_effect", lambda part: Effect.NONE)


def here_documents_are_not_read(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(parse._Reader, "_heredoc", lambda self, node: ())


def inner_commands_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(line, "inner", lambda command: ())


def only_parts_are_decided(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        access, "parts_of", lambda text: [part for part in line.parts_of(text) if not isinstance(part, line.Line)]
    )


@pytest.mark.parametrize(
    ("weaken", "mode", "fuzzer"),
    [
        (literal_words_are_not_checked, Mode.RULES, 4),
        (effects_are_forgotten, Mode.RULES, 0),
        (evaluations_are_forgotten, Mode.BYPASS, 7),
        (mentions_are_forgotten, Mode.BYPASS, 5),
        (here_documents_are_not_read, Mode.RULES, 4),
        (inner_commands_are_forgotten, Mode.RULES, 6),
        (only_parts_are_decided, Mode.LASTING, 7),
    ],
    indirect=["fuzzer"],
)
def test_a_weaker_gate_lets_bash_do_what_was_not_allowed(
    weaken: Callable[[pytest.MonkeyPatch], None], mode: Mode, fuzzer: Fuzzer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fuzzer would find these faults. The seeds are ones that find them soon."""
    weaken(monkeypatch)
    fuzzer.run(rounds=20_000, modes=[mode], most_bypasses=1)
    assert fuzzer.report.bypasses
