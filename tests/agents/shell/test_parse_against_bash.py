"""Compares the commands that bash runs with those found by the parser: bash must not run any other."""

import itertools
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deputy_agents.shell.inner import inner
from deputy_agents.shell.parse import parse
from deputy_agents.shell.part import Command, Opaque, Part

PIECES = (
    *(
        "one",
        "two",
        "three",
        "one",
        "two",
        " ",
        " ",
        " ",
        " ",
        ";",
        "\n",
        "|",
        "||",
        "&&",
        "&",
        "(",
        ")",
        "$(",
        ")",
        "`",
        "`",
    ),
    *(
        "'",
        "'",
        '"',
        '"',
        "\\",
        "#",
        "{ ",
        "; }",
        "<<E\n",
        "\nE\n",
        "<<'E'\n",
        "<<-E\n",
        "\t",
        "if ",
        "; then ",
        "; fi",
    ),
    *("for i in ", "; do ", "; done", "case x in ", " esac", ";;", "$x", "${x:-", "}", "<(", "[[ ", " ]]", "((", "))"),
    *("! ", "=", "a=", "function f ", "f() ", "~", "*", "\\\n", "<<<", "2>&1", ">/dev/null", "$'", '$"', "coproc "),
    *("time ", "eval ", "exec ", "command ", "\r", "é", "\u00a0", "\u2028", "{a,b}", "x*", "$((", "\x0c", "-", "|&"),
)
FORMS = (
    *(
        "{0}; {1}",
        "{0} && {1}",
        "{0} || {1}",
        "{0} | {1}",
        "{0} |& {1}",
        "{0} & {1}",
        "{0}\n{1}",
        "! {0}",
        "({0})",
        "{{ {0}; }}",
    ),
    *("if {0}; then {1}; else {2}; fi", "for i in 1 2; do {0}; done", "case x in x|y) {0};; *) {1};; esac", "time {0}"),
    *(
        "while {0}; do {1}; break; done",
        "until ! {0}; do {1}; break; done",
        "f() {{ {0}; }}; f",
        "function g {{ {0}; }}; g {1}",
    ),
    *(
        "{0} $({1})",
        "{0} `{1}`",
        '{0} "$({1}) x"',
        "{0} ${{x:-$({1})}}",
        "{0} <({1})",
        "x=$({0}) {1}",
        "eval '{0}'",
        "{0} 'a\nb'",
    ),
    *(
        "{0} <<E\ntext\nE\n{1}",
        "{0} <<'E' && {1}\n$({2})\nE\n",
        "{0} <<E\n$({1})\nE",
        "{0} <<-E\n\tx\n\tE\n{1}",
        "{0} <<<$({1})",
    ),
    *(
        "{0} >/dev/null",
        "{0} 2>&1",
        "{0} # {1}",
        "{0} \\\n{1}",
        "[ -n x ] && {0}",
        "[[ -n $({0}) ]] || {1}",
        "x=1; {0}",
        "{0} a\\ b",
    ),
    *(
        "command {0}",
        "exec {0}",
        "cat <<E\nfoo \\\nE\n: '\nE\n{0}\n: '",
        "cat <<E; {0}\n\\\nE\nE\n{1}",
        "{0} # \\\n{1}",
        "{0} >& 'x$({1})'",
        "for i in $({0}) x; do {1}; done",
        "case $({0}) in x|$({1})) ;; *) {2};; esac",
        "select i in a; do {0}; break; done <<<1",
        "{0} ${{x@P}} ${{ {1}; }}",
        "x='a[$({0})]'; {1} $((x)) ${{!x}}",
        "[[ -v 'a[$({0})]' ]] && {1}",
        "echo $(( 1 + $({0}) ))",
        "{0} {{a,b}} *",
        "$({0}) {1}",
        "trap '{0}' EXIT",
        '{0} "a\'b" {1}',
    ),
)
names = st.sampled_from(["one", "two", "three", "o'n'e", '"two"', "\\three", "one two"])
jumbles = st.lists(st.sampled_from(PIECES), min_size=1, max_size=14).map("".join)
scripts = st.recursive(
    names, lambda inner: st.builds(str.format, st.sampled_from(FORMS), inner, inner, inner), max_leaves=10
)
lines = jumbles | scripts

_numbers = itertools.count()

RECORDER = '() { printf \'%s\\0\' "$1" >> "$RECORD.$BASHPID"; }'
"""bash calls this function for each command that it does not find, which here is every command."""


def environment(record: Path) -> Mapping[str, str]:
    return {
        "PATH": "/nowhere",
        "LC_ALL": "C.UTF-8",
        "RECORD": str(record),
        "BASH_FUNC_command_not_found_handle%%": RECORDER,
    }


def ran(line: str, folder: Path) -> list[str]:
    """The names of the commands in ``line`` that bash runs, without builtins."""
    record = folder / f"record-{next(_numbers)}"
    bash = shutil.which("bash")
    assert bash is not None, "bash runs the commands of agents, and these tests"
    subprocess.run(
        [bash, "--norc", "--noprofile", "-c", line],
        cwd=folder,
        env=environment(record),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=20,
        check=False,
    )
    records = folder.glob(f"{record.name}.*")
    return [name for one in records for name in one.read_text(errors="replace").split("\0")[:-1]]


def is_found(parts: tuple[Part, ...], name: str) -> bool:
    """Whether one of ``parts`` runs ``name`` or may run anything."""
    for part in parts:
        if isinstance(part, Opaque):
            return True
        if isinstance(part, Command):
            if part.words and (part.words[0].text == name or not part.words[0].plain):
                return True
            if is_found(inner(part), name):
                return True
    return False


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bash")


@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(line=lines)
def test_parser_finds_every_command_that_bash_runs(line: str, folder: Path) -> None:
    parts = parse(line)
    assert [name for name in ran(line, folder) if not is_found(parts, name)] == []
