"""Compares the folder and the input of commands in bash with what the parser finds."""

import itertools
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deputy_agents.shell.line import Line, parts_of
from deputy_agents.shell.part import Command, Opaque

FORMS = (
    *("{0}; {1}", "{0} && {1}", "{0} || {1}", "{0} | {1}", "{0} & {1}", "{0}\n{1}", "! {0}", "({0})", "{{ {0}; }}"),
    *("{0} >&2 && {1}", "{0} && {1} 2>&1 | {2}", "{0} 2>&1 | {1} && {2}", "({0} && {1}) | {2}", "{0} >/dev/null"),
    *("cd x && {0}", "cd x; {0}", "cd x || {0}", "(cd x && {0}); {1}", "cd y && {0} | {1}", "cd ./x && {0} >&2 | {1}"),
    *("cd nowhere && {0}", "cd nowhere; {0}", "cd x/y && {0}; {1}", "cd .. && {0}", "pushd x && {0}", "! cd x && {0}"),
    *("if {0}; then {1}; else {2}; fi", "if cd x; then {0}; fi; {1}", "for i in 1 2; do {0}; {1}; done"),
    *("for i in 1 2; do {0}; cd x; done; {1}", "while {0}; do {1}; break; done", "until {0}; do {1}; break; done"),
    *("f() {{ {0}; }}; cd x && f", "f() {{ cd x; {0}; }}; f; {1}", "case x in x) {0};; *) {1};; esac; {2}"),
    *("{0} $({1})", "{0} `{1}`", "x=$(cd x && {0}); {1}", "{0} <({1})", "{0} > >({1})", "f() {{ {0}; }}; f"),
    *("{0} < x/f", "{{ {0}; {1}; }} < f", "({0}) < f", "< f {0}", "{0} <<E\nhi\nE\n{1}", "{0} <<'E' | {1}\nhi\nE\n"),
    *("{0} <<< hi", "while read l; do {0}; done < f", "echo hi | while read l; do {0}; done; {1}"),
    *("echo hi | {{ {0}; {1}; }}", "eval 'cd x'; {0}", "command cd x; {0}", "bash -c 'cd x && {0}'; {1}", "eval '{0}'"),
    *("echo hi | bash -c '{0}'", "echo hi | (cd x && {0} && {1})", "exec < f; {0}", "{0}; exec < f; {1}"),
    *("{0} 3< f <&3", "trap '{0}' EXIT; cd x; {1}", "{0} && {1} >&2 | {2} && cd x; {0}", "builtin cd x && {0}"),
    *("{0} || cd x >&2 | {1}; {2}", "time {0}", "{0} < /dev/null", "echo hi | cat | {0}", "cd x && {0} &\n{1}"),
)
NAMES = ("one", "two", "three")
leaves = st.sampled_from((*NAMES, "cd x", "true", "false", "cat", "echo hi"))
lines = st.recursive(leaves, lambda part: st.builds(str.format, st.sampled_from(FORMS), part, part, part), max_leaves=7)

RECORDER = """() {
    local input=; [[ $1 == one || $1 == two || $1 == three ]] || return 127
    IFS= read -r -t 0.5 -d '' input
    printf '%s\\t%s\\t%s\\0' "$1" "$PWD" "${input:+input}" >> "$RECORD.$BASHPID"
    [[ $1 == two ]]
}"""
"""Records a command, its folder and whether it has input. ``two`` succeeds."""
_numbers = itertools.count()


def ran(line: str, folder: Path) -> set[tuple[str, str, bool]]:
    """The name, the folder and whether there is input, of the commands in ``line`` that bash runs."""
    record = folder / f"record-{next(_numbers)}"
    bash = shutil.which("bash")
    assert bash is not None, "bash runs the commands of agents, and these tests"
    functions = {"command_not_found_handle": RECORDER, "cat": "() { while read -r l; do echo $l; done; }"}
    environment = {f"BASH_FUNC_{name}%%": text for name, text in functions.items()}
    subprocess.run(
        [bash, "--norc", "--noprofile", "-c", line],
        cwd=folder / "start",
        env=environment | {"PATH": "/nowhere", "RECORD": str(record)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=60,
        check=False,
    )
    records = [one.read_text() for one in folder.glob(f"{record.name}.*")]
    fields = [entry.split("\t") for text in records for entry in text.split("\0")[:-1]]
    return {(name, os.path.relpath(cwd, folder / "start"), bool(has)) for name, cwd, has in fields}


def is_found(line: str, name: str, cwd: str, has_input: bool) -> bool:
    """Whether the gate knows that ``name`` may run in ``cwd`` with such an input, or that it does not know."""
    for part in parts_of(line):
        if isinstance(part, Opaque | Line):
            return True
        if isinstance(part, Command) and part.words and part.words[0].text in (name, "trap", "exec"):
            here = any(folder is None or os.path.normpath(folder or ".") == cwd for folder in part.at.folders)
            if part.words[0].text != name or (here and (part.at.has_input or not has_input)):
                return True
    return False


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bash").resolve()
    for name in ("x/x/x", "x/y", "y/x"):
        (folder / "start" / name).mkdir(parents=True)
    for name in ("f", "x/f", "y/f", "x/x/f", "x/y/f"):
        (folder / "start" / name).write_text("text\n")
    return folder


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(line=lines)
def test_every_folder_and_input_of_a_command_is_found(line: str, folder: Path) -> None:
    assert [entry for entry in ran(line, folder) if not is_found(line, *entry)] == []


@pytest.mark.parametrize(
    "line", ["cd x && two >&2 | two >&2 | one", "cd x && cd x && two 2>&1 | two 2>&1 | two 2>&1 | one"]
)
def test_stages_of_a_pipeline_run_in_the_folder_of_its_first_whatever_is_redirected(line: str, folder: Path) -> None:
    entries = ran(line, folder)
    assert {name for name, *_ in entries} == {"one", "two"}
    assert [entry for entry in entries if not is_found(line, *entry)] == []
