"""``.gitignore`` files: the same files are excluded as by Git, and no pattern takes long."""

import os
import random
import subprocess
import time
from pathlib import Path

import pytest

from deputy_agents.files.ignore import MAX_LINES, is_ignored, list_unignored

FILES = [
    *("a", "b", "ab", "abc", "a.b", "x-y", "[a]", "a b", "#a", "!b", "a*b", "A", "ab\udc80", "-", "x]"),
    *("d/a", "d/ab", "d/d/a", "d/d/b", "d/e/f/a", "d/.a", "e/a.b", "e/[a]/b", "e/f/ab", "e/f/g/h", "f/a\\b"),
]
PIECES = [
    *("a", "b", "d", "e", "f", "*", "**", "**/", "/", "/**/", "?", "[ab]", "[!a]", "[^b]", "[a-f]", "[f-a]", "[]x]"),
    *("[[:alpha:]]", "[[:punct:]]", "[a-]", r"[\]a]", "[!", "[", "]", r"\*", r"\[", "\\", ".", "-", "a b", " ", "***"),
]


def git(cwd: Path, *args: str) -> bytes:
    env = {"PATH": os.environ["PATH"], "HOME": str(cwd), "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
    return subprocess.run(["git", *args], cwd=cwd, env=env, capture_output=True, check=True, timeout=30).stdout


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q")
    for name in FILES:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return tmp_path


def compare(repo: Path, lines: list[str]) -> None:
    (repo / ".gitignore").write_text("\n".join(lines) + "\n", "utf-8")
    listed = git(repo, "ls-files", "-z", "--others", "--exclude-standard").split(b"\0")
    kept = {os.fsdecode(name) for name in listed if name and name != b".gitignore"}
    assert {name for name in FILES if not is_ignored(repo, name.split("/"), 0)} == kept, lines


@pytest.mark.parametrize(
    "lines",
    [
        ["*", "!*/", "!a"],
        ["/a", "d/"],
        ["a/"],
        ["d/**/a"],
        ["**/a"],
        ["d/**"],
        ["d/**", "!d/a"],
        ["d", "!d/a"],
        ["a**b", "e**b"],
        [r"\#a", r"\!b"],
        ["#a"],
        ["a b  "],
        ["a\\ "],
        ["a\\"],
        ["[a]", "!a"],
        ["[[:alpha:]]"],
        ["[[:nonsense:]]", "x[]]"],
        ["[!a-c]"],
        ["d/*/a"],
        ["e/f/"],
        ["/"],
        ["!"],
        ["***/a"],
        ["ab?"],
        ["d/d\r", "e/\r"],
    ],
)
def test_the_same_files_are_excluded_as_by_git(repo: Path, lines: list[str]) -> None:
    compare(repo, lines)


@pytest.mark.parametrize("seed", range(5))
def test_random_patterns_exclude_the_same_files_as_by_git(repo: Path, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(60):
        lines = [
            chance.choice(["", "", "!"])
            + "".join(chance.choices(PIECES, k=chance.randint(1, 5)))
            + chance.choice(["", "/"])
            for _ in range(chance.randint(1, 3))
        ]
        compare(repo, lines)


EVIL = ["*a" * 99 + "*b", "**/" * 60 + "x", "*?" * 49 + "b", "[a]*" * 90 + "b", "a/**/" * 60 + "b", "*" * 4000 + "b"]


def test_no_pattern_takes_long(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("\n".join(EVIL * 20), "utf-8")
    for number in range(50):
        (tmp_path / ("a" * 250 + str(number))).touch()
    deep = ["a"] * 100 + ["a" * 250]
    started = time.process_time()
    assert len(list_unignored(tmp_path, [])) == 51
    assert not is_ignored(tmp_path, deep, 0)
    assert time.process_time() - started < 10


def test_lines_after_the_limit_are_not_applied(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("\n".join([*["x"] * MAX_LINES, "a"]), "utf-8")
    (tmp_path / "a").touch()
    assert [entry.name for entry in list_unignored(tmp_path, [])] == [".gitignore", "a"]
