"""The table at the end of ``make soak``: one row for each kind of test."""

from collections.abc import Callable, Generator, Iterable
from dataclasses import asdict, dataclass, field
from typing import TypeAlias

import pytest

from tests.support.findings import Findings

Record: TypeAlias = Callable[[Findings], None]

_PROPERTY = "findings"
_COLUMNS = ("kind", "tries", "seeds", "orphans", "lost inputs", "invalid histories", "longest stall", "result")


@pytest.fixture
def record(record_property: Callable[[str, object], None]) -> Generator[Record]:
    """Puts findings into the table, as they are at the end of the test."""
    found: list[Findings] = []
    yield found.append
    for findings in found:
        record_property(_PROPERTY, asdict(findings))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest tests first, so that the others run beside them."""
    items.sort(key=lambda item: -max((mark.args[0] for mark in item.iter_markers("timeout")), default=0))


# -- the table -------------------------------------------------------------------------------------------------------


@dataclass
class _Row:
    """The tests of one file."""

    findings: list[Findings] = field(default_factory=list[Findings])
    seeds: set[int] = field(default_factory=set[int])
    ended: set[str] = field(default_factory=set[str])
    failed: set[str] = field(default_factory=set[str])

    def add(self, report: pytest.TestReport) -> None:
        _, _, parameters = report.nodeid.partition("[")
        self.seeds |= {int(text) for text in parameters.rstrip("]").split("-") if text.isdecimal()}
        if report.failed:
            self.failed.add(report.nodeid)
        if report.when == "teardown":
            self.ended.add(report.nodeid)
            self.findings += [Findings(**value) for name, value in report.user_properties if name == _PROPERTY]  # pyright: ignore[reportCallIssue]

    def cells(self, kind: str) -> list[str]:
        found = self.findings
        counts = [sum(map(len, lists)) for lists in zip(*((f.orphans, f.lost, f.invalid) for f in found), strict=True)]
        tries = sum(f.tries for f in found) or len(self.ended)
        result = f"{len(self.failed)} of {len(self.ended)} failed" if self.failed else f"{len(self.ended)} passed"
        return [kind, f"{tries:,}", _ranges(self.seeds), *map(str, counts or ("–",) * 3), _stall(found), result]


_rows: dict[str, _Row] = {}


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Called for every phase of every test, with several processes only in the one that reports."""
    _rows.setdefault(_kind(report.nodeid), _Row()).add(report)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    write = terminalreporter.write_line
    table = [list(_COLUMNS), *(row.cells(kind) for kind, row in sorted(_rows.items()))]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    terminalreporter.section("soak")
    for cells in table:
        write("  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip())
    for kind, row in sorted(_rows.items()):
        for note in sorted(note for found in row.findings for note in found.notes):
            write(f"{kind}: {note}")


def _kind(nodeid: str) -> str:
    return nodeid.partition("::")[0].rpartition("test_")[2].removesuffix(".py").replace("_", " ")


def _stall(found: Iterable[Findings]) -> str:
    """The longest time without an answer: on a processor, and by the clock."""
    measured = [(f.busy, f.stall) for f in found if f.busy is not None and f.stall is not None]
    if not measured:
        return "–"
    busy, stall = (max(times) * 1000 for times in zip(*measured, strict=True))
    return f"{busy:.0f} ms ({stall:.0f} ms by the clock)"


def _ranges(numbers: set[int]) -> str:
    """``{1, 2, 3, 7}`` as ``1–3, 7``."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(f"{run[0]}–{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs) or "–"
