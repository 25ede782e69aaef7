"""Lines with which an attacker who knows the gate gets a command to run that no word of an allowed command names."""

import shutil
import subprocess
import time

import pytest

from deputy_agents.domain.errors import ToolError
from deputy_agents.domain.permission_mode import PermissionMode
from deputy_agents.domain.rule import DecisionKind, Rule
from deputy_agents.permission.decide import Policy, decide, decide_all
from deputy_agents.permission.rule_patterns import lasting_rules
from deputy_agents.shell.access import required_access
from deputy_agents.shell.builtin import BUILTINS

pytestmark = pytest.mark.requirement("X8")

BROAD = (
    *(
        f"{name} *"
        for name in (
            "ok",
            "cat",
            "git status",
            "env",
            "bash",
            "sh",
            "zsh",
            "xargs",
            "find",
            "sleep",
            *BUILTINS,
            "[[",
            "time",
        )
    ),
    *(f"{name}=*" for name in ("x", "y", "a", "q", "i", "PATH", "HOME", "IFS", "RANDOM", "OPTIND", "PS4", "FOO")),
)
"""Rules that allow every builtin and assignment with any words: only the reading of the line can ask."""
ALLOWING = Policy(PermissionMode.DEFAULT, [Rule(pattern, "shell", DecisionKind.ALLOW, pattern) for pattern in BROAD])
DENYING = Policy(
    PermissionMode.BYPASS,
    [Rule(pattern, "shell", DecisionKind.DENY, pattern) for pattern in ("evil *", "git push *")],
)

EVALUATED = r"""
x='a[$(evil)]'; ok $((x))
x='a[`evil`]'; ok $((x))
x='a[$(evil)]'; (( x ))
x='a[$(evil)]'; ok $[x]
x='a[$(evil)]'; for ((x;0;)); do :; done
x='a[$(evil)]'; case $((x)) in *) ok;; esac
x='a[$(evil)]'; cat <<< $((x))
x='a[$(evil)]'; let x
x='a[$(evil)]'; y[x]=1
x='a[$(evil)]'; y=([x]=1)
x='a[$(evil)]'; ok ${y[x]}
x='a[$(evil)]'; ok ${PATH:x}
x='a[$(evil)]'; ok ${PATH:0:x}
x='a[$(evil)]'; ok ${!x}
x='$(evil)'; ok "${x@P}"
x='a[$(evil)]'; [[ x -eq 1 ]]
x='a[$(evil)]'; [[ $x -gt 1 ]]
x='a[$(evil)]'; [[ -v $x ]]
x='a[$(evil)]'; test -v "$x"
x='a[$(evil)]'; [ -v "$x" ]
y=-v; x='a[$(evil)]'; [ "$y" "$x" ]
x='-v a[$(evil)]'; [ $x ]
x='b -a -v a[$(evil)]'; [ -n $x ]
[ -v 'a[$(evil)]' ]
test -v 'a[1+$(evil)]'
[[ -v 'a[$(evil)]' ]]
[[ 'a[$(evil)]' -eq 1 ]]
printf -v 'x[$(evil)]' y
read 'x[$(evil)]' <<< a
unset 'x[$(evil)]'
declare 'x[$(evil)]=1'
declare -i x='a[$(evil)]'
declare -n x='a[$(evil)]'; ok $x
declare -a 'x=($(evil))'
y='($(evil))'; x=(1); declare x=$y
typeset -A 'x=([$(evil)]=1)'
readonly -a 'x=($(evil))'
let 'x[$(evil)]'
wait -n -p 'x[$(evil)]'
compgen -W '$(evil)'
RANDOM='a[$(evil)]'
OPTIND='a[$(evil)]'
for RANDOM in 'a[$(evil)]'; do :; done
for x in 'a[$(evil)]'; do ok $((x)); done
for x in '$(evil)'; do for y in "${x@P}"; do ok; done; done
select x in a; do ok $((REPLY)); break; done <<< 'a[$(evil)]'
: 'a[$(evil)]'; ok $((_))
[[ 'a[$(evil)]' =~ .* ]]; ok $((BASH_REMATCH))
bash -c 'ok $(($1))' _ 'a[$(evil)]'
set -- 'a[$(evil)]'; for x; do ok $((x)); done
x='a[$(evil)]' bash -c 'ok $((x))'
env x='a[$(evil)]' bash -c '((x))'
exec {x[$(evil)]}>/dev/null
PS4='$(evil)'; set -x; :
BASH_ENV='$(evil)' bash -c :
ok >& 'x$(evil)'
ok 1>& x\$\(evil\)
x='a[$(evil)]'; ok >& $x
i=0; read i <<< 'a[$(evil)]'; ok $((i))
i=0; for i in 'a[$(evil)]'; do ok $((i)); done
i=$((1))$(printf 'a[$(evil)]')$((2)); ok $((i))
ok ${ evil; }
ok "${| evil; }"
"""
"""bash runs ``evil``, which is part of a value."""

HIDDEN = r"""
hash -p /bin/evil ok; ok
BASH_CMDS[ok]=/bin/evil; ok
enable -f evil.so ok; ok
jobs -x evil
set -k; ok
set -o history -o histexpand
alias ok=evil
shopt -s expand_aliases
ok() { evil; }; ok
function ok { evil; }; ok
command_not_found_handle() { evil; }; nothing
coproc evil
trap evil DEBUG; ok
trap evil EXIT
trap evil 0
trap evil USR1
complete -C evil ok
compgen -C evil
mapfile -C evil -c 1 x < a
exec -a ok evil
bash -O expand_aliases -c ok
bash -ic ok
env 'BASH_FUNC_ok%%=() { evil; }' bash -c ok
sh -c '[[ a || evil ]]'
sh -c 'alias g=evil
g'
zsh -c 'ok *(e:evil:)'
echo '-exec evil {} ;' | xargs find .
fc -s
"""
"""The line runs ``evil`` in a way that allows and denials of ``ok`` do not show."""

UNCOVERED = r"""
export PATH=./x; ok
declare -x PATH=./x; ok
typeset PATH=./x; ok
builtin export PATH=./x; ok
command export PATH=./x; ok
\export PATH=./x; ok
PATH=./x; ok
PATH+=:./x; ok
PATH[0]=./x; ok
readonly PATH=./x; ok
read PATH <<< ./x; ok
printf -v PATH ./x; ok
mapfile PATH <<< ./x; ok
getopts a PATH -a; ok
for PATH in ./x; do ok; done
for npm_config_script_shell in ./x; do ok; done
select PATH in ./x; do ok; done
unset PATH; ok
unset HOME; ok
declare -n x=PATH; x=./x; ok
let PATH=1; ok
(( PATH = 1 )); ok
ok $((PATH = 1))
IFS=k; ok
set -a; x=1; ok
set -- a; ok
shopt -s nullglob; ok
exec < file; ok
exec 3> out; ok
. ./x; ok
source x; ok
PATH=./x ok
FOO= ok
env FOO=1 ok
sh -c 'PATH=./x :; ok'
ok {a,b}
ok a{},b}
ok $'a'
ok $"a"
ok <(ok)
ok $(ok)
ok "$(ok)"
"""
"""Something in the line changes what ``ok`` does, or is only known when it runs."""

HEREDOCS = (
    "cat <<E\n$(evil)\nE\n",
    "cat <<E\n`evil`\nE\n",
    "cat <<E\n${x:-$(evil)}\nE\n",
    "cat <<E\n$((a[$(evil)]))\nE\n",
    "cat <<E\nfoo \\\nE\n: '\nE\nevil\n: '",
    "cat <<E; : '\nE\nevil\n: '",
    "cat <<E \\\n; evil\nE\n",
    "cat <<'E' \\\n; evil\nE\n",
    "cat <<-E\n\tfoo \\\n\tE\n: '\n\tE\nevil\n: '",
    "cat <<E <<F\nE\nF\nevil\n",
    "cat <<'E' `evil`\nE\n",
    "cat <<'E' $x\nE\n",
    "cat <<'E' .env\nE\n",
    "ok <<'E' > /dev/null b\nE\n",
    "ok # \\\nevil",
)


def lines(text: str) -> list[str]:
    """One example per line; a line that begins a quoted text ends where the quotes do."""
    found: list[str] = []
    for line in text.strip("\n").split("\n"):
        if found and found[-1].count("'") % 2:
            found[-1] += f"\n{line}"
        else:
            found.append(line)
    return found


@pytest.mark.parametrize("line", [*lines(EVALUATED), *lines(HIDDEN), *lines(UNCOVERED), *HEREDOCS])
def test_broad_rules_do_not_allow_what_no_word_names(line: str) -> None:
    assert decide_all(ALLOWING, required_access(line).access).kind is DecisionKind.ASK


@pytest.mark.parametrize("line", [*lines(EVALUATED), *lines(HIDDEN), *HEREDOCS])
def test_denied_commands_in_values_are_not_allowed_in_bypass_mode(line: str) -> None:
    assert decide_all(DENYING, required_access(line).access).kind is not DecisionKind.ALLOW


@pytest.mark.parametrize(
    "line",
    [
        "uv run git push",
        "uv run -q git push origin main",
        "setarch x86_64 git push",
        "nice -5 git push",
        "busybox nice git push",
        "git --shallow-file x push",
        "/usr/bin/gi? push",
        "/usr/b?n/git push",
        "/usr/bin/$X push",
        "/usr/$X",
        "/usr/lib/git-core/git-push origin",
        "sort --compress-prog='git push' x",
        "sort --co 'git push' x",
        "npm install --script-shell='git push'",
        "git --unknown push origin",
        "git -c alias.p=push p",
        "GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=alias.p GIT_CONFIG_VALUE_0=push git p",
        "poetry run git push",
        "npx git push",
        "docker exec box git push",
        "ssh host git push",
        "ssh host 'cd x && git push'",
        "make SHELL='git push'",
        "python3 -c 'import os; os.system(\"git push\")'",
        'python3 -c \'subprocess.run(["git", "push"])\'',
        "python3 <<'E'\nos.system('git push')\nE\n",
        "python3 <<< 'os.system(\"git push\")'",
        "echo 'git push' | ssh host",
        "foo git push",
        "foo /usr/bin/git push",
        "foo 'git push'",
        "foo -c 'git  push'",
        "foo --run='git push'",
        "foo -- git push --force",
        "foo bar baz evil",
        "foo evil-not evil",
        "xargs foo git push",
        "find . -exec foo git push ;",
        "git bisect run git push",
        "git submodule foreach 'git push'",
        "git rebase -x 'git push' main",
        "rg --pre 'git push' x",
        "GIT_PAGER='git push' git log",
        "export GIT_EXTERNAL_DIFF='git push'",
        "awk 'BEGIN { system(\"git push\") }'",
        "sed '1e git push' file",
        "foo `echo git` push",
        "docker exec box $X",
        "uv run $X push",
        'ssh host "$X"',
    ],
)
def test_denied_command_in_the_words_of_another_asks_in_bypass_mode(line: str) -> None:
    assert decide_all(DENYING, required_access(line).access).kind is not DecisionKind.ALLOW


@pytest.mark.parametrize(
    "line",
    [
        "git commit -m 'Remove git push'",
        "git log --grep=pushed",
        "echo git push",
        "grep -rn 'git push' docs",
        "rg 'git push'",
        "cat <<'E' > notes.md\nRun git push.\nE\n",
        "npm install evil",
        "docker push",
        "git stash push",
        "foo git-push",
        "foo git pushed",
        "foo $X",
        "make $X",
        "cd sub && npm test 2>&1 | tail -20",
        "source .venv/bin/activate && pytest -q",
        "export PATH=$PATH:/opt/x && make",
        'for f in *.py; do python -m py_compile "$f"; done',
        "for i in $(seq 1 5); do echo $i; done",
        "i=0; while [ $i -lt 5 ]; do i=$((i+1)); echo $i; done",
        'n=$(wc -l < file); [ "$n" -gt 5 ] && echo many',
        '[ "$(git rev-parse HEAD)" = "x" ] && echo same',
        'case "$(uname)" in Linux) echo l;; *) echo o;; esac',
        "set -euo pipefail; make",
        "x=$(git rev-parse HEAD); echo $x",
        'cat <<< "$x"',
        "cat <<E\n$HOME ${x}\nE\n",
        "read -r x < file; echo $x",
        "command -v git && git --version",
        "trap 'kill 0' EXIT; npm start",
        "CI=1 npm test",
    ],
)
def test_usual_lines_run_in_bypass_mode_although_there_are_deny_rules(line: str) -> None:
    decision = decide_all(DENYING, required_access(line).access)
    assert decision.kind is DecisionKind.ALLOW, decision.reason


@pytest.mark.parametrize(
    "line",
    [
        "ok a; ok b | cat",
        "for x in a 'b c'; do ok; done",
        "while ok; do ok; break; done",
        "case a in a|b*) ok;; esac",
        "if [ -f x ] && [[ a == b ]]; then ok; fi",
        "select x in a b; do ok; break; done",
        "cat <<E\ntext\nE\n",
        "cat <<'E'\n$(evil) \\\nE\n",
        "bash -c 'ok a && ok b'",
        "sh -c 'ok a'",
        "sh -c 'ok > /dev/null 2>&1'",
        "command -v evil",
        "x=1; y='a b'; ok",
        "set -e; ok",
        "true 'a[0]'; printf '%s' 'a'",
        "ok 2>&1 >/dev/null",
        "ok {} x",
    ],
)
def test_rules_allow_lines_of_literals(line: str) -> None:
    decision = decide_all(ALLOWING, required_access(line).access)
    assert decision.kind is DecisionKind.ALLOW, decision.reason


@pytest.mark.parametrize(
    ("approved", "other"),
    [
        ("rm $x", "for x in / b; do rm $x; done"),
        ("for x in a b; do rm $x; done", "for x in / b; do rm $x; done"),
        ("f() { make; }; f", "f() { make; }; git status; f"),
        ("alias ll='ls -l'", "alias ll='ls -l'; ll"),
        ("export PATH=./x", "export PATH=./x; git status"),
        ("PATH=./x", "PATH=./x; git status"),
        ("x=$(cat f); echo ok", "x=$(cat f); [[ x -eq 1 ]]"),
        ("ls > $x", "x=/etc/passwd; ls > $x"),
        ("source activate", "source activate; git status"),
        ("set -a", "set -a; git status"),
        ("exec < file", "exec < file; git status"),
        ("eval 'odd (syntax'", "eval 'odd (syntax'; git status"),
        ("trap 'git status' DEBUG", "trap 'git status' DEBUG; git status"),
        ("FOO=1 make", "FOO=2 make"),
        ("FOO=1 make", "FOO=1 PATH=./x make"),
    ],
)
def test_lasting_approval_of_a_line_covers_no_other_line(approved: str, other: str) -> None:
    known = [
        Rule("git", "shell", DecisionKind.ALLOW, "git status *"),
        Rule("cat", "shell", DecisionKind.ALLOW, "cat *"),
    ]
    policy = Policy(PermissionMode.DEFAULT, known)
    asked = [need for need in required_access(approved).access if decide(policy, need).kind is DecisionKind.ASK]
    remembering = Policy(PermissionMode.DEFAULT, [*known, *lasting_rules(asked, DecisionKind.ALLOW)])
    assert decide_all(remembering, required_access(approved).access).kind is DecisionKind.ALLOW
    assert decide_all(remembering, required_access(other).access).kind is DecisionKind.ASK


def test_rule_about_an_assignment_does_not_cover_further_assignments() -> None:
    policy = Policy(
        PermissionMode.DEFAULT,
        [Rule(one, "shell", DecisionKind.ALLOW, one) for one in ("X=* ok *", "Y=1 ok *", "ok *")],
    )
    decisions = {
        line: decide_all(policy, required_access(line).access).kind
        for line in ("Y=1 ok", "Y=1 ok a", "X=1 ok", "X=1 PATH=./x ok", "Y=1 PATH=./x ok", "Y=2 ok", "X= ok")
    }
    assert [line for line, kind in decisions.items() if kind is DecisionKind.ALLOW] == ["Y=1 ok", "Y=1 ok a"]


@pytest.mark.parametrize("wrapper", ["env ", "nice ", "nohup env ", "bash -c ", "$(", "("])
def test_commands_within_commands_without_end_ask(wrapper: str) -> None:
    line = (wrapper * 5000)[:20_000] + "ok"
    assert decide_all(ALLOWING, required_access(line).access).kind is DecisionKind.ASK
    assert decide_all(DENYING, required_access(line).access).kind is DecisionKind.ASK


def test_find_within_find_without_end_asks() -> None:
    started = time.perf_counter()
    assert decide_all(ALLOWING, required_access("find -exec " * 40).access).kind is DecisionKind.ASK
    assert time.perf_counter() - started < 5


@pytest.mark.parametrize("line", ["a|" * 9_999 + "a", "a\n" * 9_999, "bash -c '" + "a;" * 9_000 + "'"])
def test_line_with_too_many_commands_is_refused(line: str) -> None:
    with pytest.raises(ToolError, match="more than 500 parts"):
        required_access(line)


def test_plus_after_other_words_is_an_argument_of_the_command_that_find_runs() -> None:
    assert decide_all(DENYING, required_access("find . -exec env + git push \\;").access).kind is not DecisionKind.ALLOW
    rules = [Rule("f", "shell", DecisionKind.ALLOW, one) for one in ("find *", "ok")]
    needed = required_access("find . -exec ok + a \\;").access
    assert decide_all(Policy(PermissionMode.DEFAULT, rules), needed).kind is DecisionKind.ASK


def test_every_builtin_of_bash_is_known() -> None:
    bash = shutil.which("bash")
    assert bash is not None
    found = subprocess.run([bash, "-c", "compgen -b"], capture_output=True, text=True, check=True, timeout=20)
    assert set(found.stdout.split()) <= BUILTINS


@pytest.mark.parametrize("line", ["exact a <<E b\nx\nE", "exact <<'E' a b\nx\nE", "exact a <<-E b c\n\tx\n\tE"])
def test_words_after_the_beginning_of_a_here_document_are_part_of_what_a_rule_names(line: str) -> None:
    subjects = {request.subject for request in required_access(line).access}
    assert subjects == {line}
