"""Temporary files of killed processes are removed by the next write in their folder; no other file is."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from deputy_agents.files.disk import write_text
from deputy_agents.files.leftovers import spare_name

KILLED = """
import os, signal, sys
from pathlib import Path
from deputy_agents.files.disk import write_text
os.fsync = lambda descriptor: os.kill(os.getpid(), signal.SIGKILL)
write_text(Path(sys.argv[1]), ["a.txt"], "new", expected="old")
"""


def aged(path: Path, seconds: float) -> Path:
    at = time.time() - seconds
    os.utime(path, (at, at), follow_symlinks=False)
    return path


def ended_process() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def spare_of(process: int) -> str:
    return spare_name().replace(f"-{os.getpid()}-", f"-{process}-")


def test_what_a_killed_write_leaves_is_removed_by_the_next_one(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("old")
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False)
    (left,) = tmp_path.glob(".deputy-*.tmp")
    assert (tmp_path / "a.txt").read_text() == "old"
    write_text(tmp_path, ["a.txt"], "older", expected="old")
    assert left.exists()  # another machine may be writing it
    aged(left, 60)
    write_text(tmp_path, ["a.txt"], "new", expected="older")
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


@pytest.mark.parametrize(
    ("name", "age", "is_left"),
    [
        ("of an ended process", 60, True),
        ("of an ended process", 1, False),
        ("of this process", 60, False),
        ("of this process", 7200, True),
        (".deputy-0123456789abcdef.tmp", 7200, True),
        (".deputy-0123456789abcdef.tmp", 60, False),
        (".deputy-notes.tmp", 7200, False),
        ("x.deputy-0123456789abcdef.tmp", 7200, False),
        (".deputy-0123456789abcdef.tmp.md", 7200, False),
    ],
)
def test_only_files_of_ended_processes_are_removed(tmp_path: Path, name: str, age: float, is_left: bool) -> None:
    name = {"of an ended process": spare_of(ended_process()), "of this process": spare_name()}.get(name, name)
    (tmp_path / name).write_text("kept?")
    aged(tmp_path / name, age)
    write_text(tmp_path, ["new.txt"], "new", expected=None)
    assert (tmp_path / name).exists() is not is_left


def test_folders_and_links_with_such_a_name_stay(tmp_path: Path) -> None:
    folder, link = tmp_path / spare_of(1), tmp_path / ".deputy-0123456789abcdef.tmp"
    folder.mkdir()
    aged(folder, 7200)
    link.symlink_to(tmp_path / "nowhere")
    aged(link, 7200)
    write_text(tmp_path, ["new.txt"], "new", expected=None)
    assert folder.exists()
    assert link.is_symlink()
