"""Pages of large files: the same lines as from reading the whole file, also after the file has changed."""

import os
import random
from itertools import islice
from pathlib import Path

import pytest

from deputy_agents.files import line_index
from deputy_agents.files.disk import read_lines

OLD = 1_500_000_000


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_index, "PART", 7)
    line_index._known.clear()  # pyright: ignore[reportPrivateUsage]


def naive(path: Path, first: int, count: int) -> tuple[list[str], bool]:
    with path.open("rb") as file:
        lines = list(islice(file, first - 1, first + count))
    return [line.decode() for line in lines[:count]], len(lines) <= count


def read(path: Path, first: int, count: int = 3) -> tuple[list[str], bool]:
    lines = read_lines(path.parent, [path.name], first, count)
    return lines.lines, lines.last


def write(path: Path, data: bytes, *, settled: bool = True) -> None:
    path.write_bytes(data)
    if settled:
        os.utime(path, (OLD, OLD))


@pytest.fixture(params=["kept", "not kept"])
def kept(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether counts are kept. The time of the metadata cannot be set, so a test decides how long ago a change was."""
    is_kept = request.param == "kept"
    monkeypatch.setattr(line_index, "_SETTLED", -1.0 if is_kept else 1e9)
    return is_kept


def test_pages_are_those_of_a_naive_reader(tmp_path: Path, kept: bool) -> None:
    chance = random.Random(7)
    for number in range(40):
        path = tmp_path / f"{number}.txt"
        write(path, bytes(chance.choices(b"ab\n", weights=[3, 3, chance.choice((1, 9))], k=chance.randrange(60))))
        for _ in range(30):
            first, count = chance.randrange(1, 40), chance.randrange(1, 6)
            assert read(path, first, count) == naive(path, first, count)
    assert bool(line_index._known) is kept  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize("change", ["appended", "shortened", "in place", "replaced", "set back"])
def test_a_changed_file_is_counted_again(tmp_path: Path, change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_index, "_SETTLED", -1.0)
    path = tmp_path / "a.txt"
    lines = [b"line %d\n" % number for number in range(30)]
    write(path, b"".join(lines))
    assert read(path, 20) == naive(path, 20, 3)
    before = path.stat()
    match change:
        case "appended":
            with path.open("ab") as file:
                file.write(b"more\n" * 5)
        case "shortened":
            os.truncate(path, 100)
        case "replaced":
            write(tmp_path / "b.txt", b"".join(lines[::-1]))
            (tmp_path / "b.txt").replace(path)
        case _:
            with path.open("r+b") as file:
                file.write(b"\n" * 40)
            if change == "set back":
                os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    for first in (1, 3, 20, 29, 33, 60):
        assert read(path, first) == naive(path, first, 3)


def test_counts_of_a_file_that_has_just_changed_are_not_kept(tmp_path: Path) -> None:
    """A second change could leave the times as they are."""
    path = tmp_path / "a.txt"
    write(path, b"a\n" * 50, settled=False)
    assert read(path, 40) == naive(path, 40, 3)
    assert not line_index._known  # pyright: ignore[reportPrivateUsage]


def test_later_pages_read_only_what_was_not_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_index, "_SETTLED", -1.0)
    parts: list[int] = []
    read_part = line_index._read  # pyright: ignore[reportPrivateUsage]

    def counted(file: object, part: int, size: int) -> bytes:
        parts.append(part)
        return read_part(file, part, size)  # type: ignore[arg-type]

    monkeypatch.setattr(line_index, "_read", counted)
    path = tmp_path / "a.txt"
    write(path, b"abcdef\n" * 100)
    read(path, 50)
    assert parts == [*range(49), 48]
    parts.clear()
    read(path, 51)
    assert parts == [49, 49]
    parts.clear()
    read(path, 20)
    assert parts == [18]


def test_kept_files_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_index, "_SETTLED", -1.0)
    for number in range(line_index.MAX_FILES + 10):
        path = tmp_path / f"{number}.txt"
        write(path, b"a\n" * 20)
        read(path, 10)
    assert len(line_index._known) == line_index.MAX_FILES  # pyright: ignore[reportPrivateUsage]


def test_a_line_longer_than_is_kept_counts_as_one(tmp_path: Path, kept: bool) -> None:
    path = tmp_path / "a.txt"
    write(path, b"x" * 200_000 + b"\nsecond\nthird")
    assert read(path, 2) == (["second\n", "third"], True)
    lines, last = read(path, 1, 1)
    assert (len(lines[0]), last) == (64 * 1024, False)
