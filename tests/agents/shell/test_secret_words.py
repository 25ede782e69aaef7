"""Words of commands that bash turns into names of files that may hold secrets."""

from pathlib import Path

import pytest

from deputy_agents.domain.rule import Rule
from deputy_agents.shell.access import required_access
from tests.support.shell_rules import ALLOW, ASK, allow, decision, sample_workspace


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return sample_workspace(tmp_path)


SECRETS = [
    *(".env", "./.env", "src/../.env", "{root}/.env", ".[^x]nv", ".[!x]nv", ".[[:alpha:]]nv", ".[d-f]nv", ".[D-F]nv"),
    *(".?nv", ".e*", ".[e]n[v]", "./.e??", ".en[!a-u]", ".en[]v]", "'.'e*", ".e'n'*", '".e"*', ".e\\nv", ".[^\\]]nv"),
    *("notes", "n*", "not[e]s", "./notes", "?otes", "**/key.pem", "sub/*.pem", "s*/key.*", "keys/key.pem", "k*/*"),
    *(".aws", "./.ssh/", "docs/.git", ".AWS", "--dir=.kube"),
    *("--file=.env", "-f.env", "HEAD:.env", "@notes", "a=notes", ".[[=e=]]nv", ".[[.e.]]nv", ".e[n]v", "*/*.p[!a]m"),
]


@pytest.mark.parametrize("word", SECRETS)
def test_word_that_bash_makes_a_secret_is_asked_about(root: Path, word: str) -> None:
    word = word.format(root=root)
    rules = (*allow("mytool *"), Rule("all", "read_file", ALLOW, "src/**"))
    assert decision(root, f"mytool {word}", *rules) is ASK
    assert decision(root, f"mytool {word}", *rules, Rule("any", "read_file", ALLOW)) is ALLOW


@pytest.mark.parametrize(
    "word", ["a.txt", "*.txt", "*", "src/*", ".[!e]nv", ".[^e]nv", "'.e*'", "\\*", "[a]*", "docs/*.md"]
)
def test_other_words_are_no_secrets(root: Path, word: str) -> None:
    (root / "notes").unlink()
    assert decision(root, f"mytool {word}", *allow("mytool *")) is ALLOW


@pytest.mark.parametrize("word", [".[^x]nv", ".e*", "*.pem", "id_*", "[!a]*", ".[[:alpha:]]nv", "?*"])
def test_patterns_in_an_unknown_folder_are_compared_with_known_names(root: Path, word: str) -> None:
    needed = required_access(f"cd $X; cat {word}", root, root, (root,)).access
    assert "read_file" in {request.tool for request in needed}


@pytest.mark.parametrize("word", [r".[\e]nv", r".[\!e]nv", "@(.env)", "*(.)env", "+([.])env", "{.env,x}", "$X"])
def test_words_that_are_not_understood_ask(root: Path, word: str) -> None:
    assert decision(root, f"mytool {word}", *allow("mytool *"), Rule("any", "read_file", ALLOW)) is ASK
