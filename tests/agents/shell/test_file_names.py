"""Compares the expansion of patterns with that of bash: no name that bash finds is missed."""

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deputy_agents.shell.file_names import TooManyNames, expand, may_match
from deputy_agents.shell.word import read_word

NAMES = (
    ".env",
    ".Env",
    "-x",
    "a",
    "ab",
    "b]",
    "a-c",
    "d!",
    "^",
    "é",
    "x/.env",
    "x/a",
    "x/y/b",
    ".h/a",
    "[a]",
    "!",
    "_",
)
PIECES = (
    *(
        "*",
        "?",
        "[",
        "]",
        "!",
        "^",
        "-",
        "a",
        "b",
        "e",
        "n",
        "v",
        ".",
        "/",
        "x",
        "\\",
        "[!",
        "[^",
        "[a-c]",
        "[[:alpha:]]",
    ),
    *("[[:punct:]]", "[[.-.]]", "[[=a=]]", "'*'", '"."', "'['", "'!'", "**", "é", "[]a]", "[!a-c]", "\\[", "A", "_"),
)
patterns = st.lists(st.sampled_from(PIECES), min_size=1, max_size=6).map("".join)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("names")
    for name in NAMES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("")
    return folder


def expanded_by_bash(word: str, folder: Path) -> list[str]:
    bash = shutil.which("bash")
    assert bash is not None
    ran = subprocess.run(
        [bash, "--norc", "--noprofile", "-c", f"printf '%s\\0' {word}"],
        cwd=folder,
        env={"PATH": "/nowhere", "LC_ALL": "C.UTF-8"},
        capture_output=True,
        check=False,
        timeout=20,
    )
    names = ran.stdout.decode(errors="replace").split("\0")[:-1]
    return [name for name in names if os.path.lexists(folder / name)] if ran.returncode == 0 else []


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(source=patterns)
def test_every_name_that_bash_finds_is_found(source: str, folder: Path) -> None:
    word = read_word(source)
    if (
        word is None
        or word.computed
        or source.startswith("/")
        or "'" in source.replace("'*'", "").replace("'['", "").replace("'!'", "")
    ):
        return
    names = set(expand(word.pattern, folder)) if word.globs else {word.text}
    found = {os.path.normpath(name) for name in names}
    assert [name for name in expanded_by_bash(source, folder) if os.path.normpath(name) not in found] == []


def test_matching_takes_no_long_time() -> None:
    started = time.perf_counter()
    assert not may_match("*a" * 200 + "b", "a" * 5000)
    assert may_match("*a" * 10_000 + "b", "a" * 255)
    assert time.perf_counter() - started < 5


def test_expansion_reads_a_limited_number_of_entries(tmp_path: Path) -> None:
    for number in range(60):
        (tmp_path / f"{number}{'a' * 200}").write_text("")
    assert len(list(expand("*", tmp_path))) == 60
    with pytest.raises(TooManyNames):
        list(expand("*a" * 450, tmp_path))
    left = [130]
    assert len(list(expand("*", tmp_path, left))) == len(list(expand("?*", tmp_path, left))) == 60
    with pytest.raises(TooManyNames):
        list(expand("*", tmp_path, left))
