"""Decisions of the gate about complete lines: each part must be allowed."""

from pathlib import Path

import pytest

from deputy_agents.domain.permission_mode import PermissionMode
from deputy_agents.domain.rule import AccessRequest, DecisionKind, Rule
from deputy_agents.permission.decide import Policy, decide_all
from deputy_agents.permission.rule_patterns import lasting_rule, parse_rule, rule_text
from deputy_agents.shell.access import required_access
from deputy_agents.tool.registry import Registry, command_tools
from tests.support.files import hands_on

pytestmark = pytest.mark.requirement("X8")

ALLOWED = (
    *("git status *", "git log *", "ls *", "cat *", "echo *", "grep *", "wc -l", "pytest *", "cd *", "true", "sort *"),
    *("timeout *", "nice *", "time *", "bash -c *", "env *", "command *", "nohup *", "xargs *", "find . -name *"),
)
DENIED = ("rm *", "git push *", "curl *")
RULES = [
    *(Rule(pattern, "shell", DecisionKind.ALLOW, pattern) for pattern in ALLOWED),
    *(Rule(pattern, "shell", DecisionKind.DENY, pattern) for pattern in DENIED),
    Rule("out", "write_file", DecisionKind.ALLOW, "out/**"),
    Rule("locked", "write_file", DecisionKind.DENY, "locked/**"),
]

ALLOW = r"""
git status
git status --short src
git   status	-s
"git" status
git \
  status
git log --oneline | grep fix | wc -l
ls && cat a.txt; echo done
ls -la ./*.py src
ls -- *.py
(ls; ls src) | sort
{ ls; echo x; } > out/list
if ls a; then echo yes; else echo no; fi
! ls
for x in a 'b c'; do git status; done
for x; do ls; done
case abc in a*|b) ls;; *) git status;; esac
cat <<< 'a b'
ls & echo started
echo "a; rm b" 'c && rm d' e\;rm
echo "# rm x" # rm y
ls 2>&1 >/dev/null
ls 2>/dev/null
echo text > out/a.txt
echo text >> out/deep/b.txt
cat < a.txt
cat <<'END' > out/c
$(rm x) `rm y`
END
nice -n 5 ls
timeout 10 pytest -q
timeout -k 5 --signal=KILL 10 pytest
time ls
bash -c 'ls && git status'
env ls
command ls
nohup ls
find . -name '*.py' -exec echo {} \; | xargs -0 echo
"""
"""A command that runs another command is allowed only if the other is allowed too."""

ASK = r"""
ls *.py
ls ~/x
find . -name '*.py' -exec ls {} \;
find . -name '*.py' | xargs -0 ls
for PATH in ./evil; do git status; done
for GIT_PAGER in ./evil; do git log; done
for http_proxy in evil; do git status; done
select HOME in ./evil; do git status; done
for x in '$(CMD)'; do for y in "${x@P}"; do git status; done; done
for x in 'a[$(CMD)]'; do case $((x)) in *) git status;; esac; done
for x in 'a[`CMD`]'; do git status; done
for x in $(CMD); do git status; done
for x in *.py; do git status; done
for x in {a,b}; do git status; done
case $x in *) git status;; esac
case "$(CMD)" in *) git status;; esac
case a in $x) git status;; esac
case a in a|"${x@P}") git status;; esac
for ((i=0;i<3;i++)); do git status; done
(( x )); git status
[[ x -eq 1 ]] && git status
cat <<< "${x@P}"
cat <<< $((x))
cat <<< *
bash /dev/stdin
. /dev/fd/0
source <(ls)
su -c ls
fish -c ls
setpriv ls
mapfile -C ls -c 1
xargs -I% ls %
echo 'a[$(x)]'
cd x; cat .en?
cd x; cat *.pem
make
git commit -m x
git status && make
git statusx
git
./git status
/tmp/git status
ls | python3
ls; sh
echo $(make)
echo `make`
echo $HOME
echo "$HOME"
echo $((1+1))
echo {a,b}
cat <(make)
ls $(git status)
$CMD x
"$CMD" x
l${x}s
FOO=1 git status
GIT_PAGER=evil git log
PATH=.
export PATH=.
alias ls=make
ls() { make; }; ls
eval ls $x
source ./x
. ./x
echo ls | sh
bash script.sh
bash -c "$X"
bash -s
env X=1 ls
env -S 'ls x'
timeout 10 make
timeout --odd 10 ls
timeout $T ls
sudo ls
xargs make
find . -delete
find . -name x -exec make {} +
echo `echo \`rm x\``
trap 'make' EXIT
coproc ls
ls > a.txt
ls > out/../a.txt
ls > /etc/passwd
ls > ~/.bashrc
ls > $F
ls &> a.txt
ls >& a.txt
ls <> a.txt
cd / && ls > out/a
echo x > .git/hooks/pre-commit
cat < /etc/shadow
cat < .env
cat .env
cat src/.env
grep KEY --file=.env
cat ~/.ssh/id_rsa
cat < /dev/tcp/example.com/80
echo x > /dev/tcp/example.com/80
[[ a == b ]]
[ -f x ]
(( x++ ))
for ((i=0;i<3;i++)); do ls; done
ls 'unfinished
ls "unfinished
ls &&
ls )
ls; }
cat <<END
$(ls)
END
exec ls > a
while true; do make; done
if make; then ls; fi
case x in x) make;; esac
# nothing
"""

DENY = r"""
bash -ce 'rm x; ls'
bash -cx 'rm x'
sh -c -e 'rm x'
bash -c -- 'rm x'
eval -- 'rm x'
trap -- 'rm x' EXIT
flock F -c 'rm x'
alias p='rm x'
/bin/rm x
"/usr/bin/git" push
git -c x=y push
git -C . --no-pager push origin
rm x
rm -rf /
rm
r\m x
'rm' x
r"m" x
ls; rm x
ls && rm x
ls || rm x
ls | rm x
ls |& rm x
ls & rm x
git status
rm x
(rm x)
{ rm x; }
! rm x
echo $(rm x)
echo `rm x`
echo "$(rm x)"
echo "${x:-$(rm x)}"
cat <(rm x)
ls > >(rm x)
if rm x; then ls; fi
while rm x; do ls; done
for i in $(rm x); do ls; done
case $(rm x) in a) ls;; esac
f() { rm x; }; f
X=1 rm x
X=$(rm x)
export X=$(rm x)
[[ -n $(rm x) ]]
bash -c 'rm x'
sh -ec "ls; rm x"
bash -c 'bash -c "rm x"'
eval 'rm x'
eval rm x
exec rm x
command rm x
command -p rm x
builtin rm x
nohup rm x
time rm x
nice -n 5 rm x
timeout 5 rm x
timeout -s KILL 5 rm x
env rm x
env -i A=b rm x
sudo -u root rm x
xargs rm
xargs -n 1 rm
find . -exec rm {} \;
find . -name '*.o' -execdir rm -f {} +
stdbuf -oL rm x
setsid rm x
trap 'rm x' EXIT
cat <<END
$(rm x)
END
cat <<END | rm x
text
END
rm *.py
git push
git push --force origin main
ls > locked/a
echo x >> locked/b
ls 2> locked/c
"""


def lines(text: str, terminators: tuple[str, ...] = ()) -> list[str]:
    """The examples in ``text``, one per line; a heredoc, or lines up to one of ``terminators``, is one example."""
    found: list[str] = []
    until = ""
    for line in text.strip("\n").split("\n"):
        if until or (found and (found[-1].endswith("\\") or found[-1] in terminators)):
            found[-1] += f"\n{line}"
            until = "" if line == until else until
        else:
            found.append(line)
            until = "END" if "<<" in line and "END" in line else ""
    return found


CASES = [
    *((line, DecisionKind.ALLOW) for line in lines(ALLOW)),
    *((line, DecisionKind.ASK) for line in lines(ASK)),
    *((line, DecisionKind.DENY) for line in lines(DENY, terminators=("git status",))),
]


async def access(line: str, workspace: Path) -> list[AccessRequest]:
    hands = hands_on(workspace)
    hands.tools = Registry(command_tools())
    return await hands.access("shell", command=line)


def test_there_are_more_than_sixty_examples_of_each_danger() -> None:
    assert len(CASES) > 150
    assert all(sum(1 for _, expected in CASES if expected is one) >= 25 for one in DecisionKind)


@pytest.mark.asyncio
@pytest.mark.parametrize(("line", "expected"), CASES, ids=[line for line, _ in CASES])
async def test_decision_about_a_line_covers_all_of_its_parts(
    line: str, expected: DecisionKind, workspace: Path
) -> None:
    policy = Policy(PermissionMode.DEFAULT, RULES)
    decision = decide_all(policy, await access(line, workspace))
    assert decision.kind is expected, decision.reason


@pytest.mark.asyncio
async def test_denied_lines_are_denied_in_every_mode_and_every_line_in_plan_mode(workspace: Path) -> None:
    for line, expected in CASES:
        needed = await access(line, workspace)
        assert decide_all(Policy(PermissionMode.PLAN, RULES), needed).kind is DecisionKind.DENY, line
        if expected is DecisionKind.DENY:
            assert decide_all(Policy(PermissionMode.BYPASS, RULES), needed).kind is DecisionKind.DENY, line


@pytest.mark.asyncio
async def test_bypass_mode_asks_if_a_deny_rule_may_apply(workspace: Path) -> None:
    policy = Policy(PermissionMode.BYPASS, RULES)
    for line, expected in [
        ("$X y", DecisionKind.ASK),
        ("echo `a \\`b\\``", DecisionKind.ASK),
        ("r* y", DecisionKind.ASK),
        ("git $X", DecisionKind.ASK),
        ("make $X", DecisionKind.ALLOW),
    ]:
        assert decide_all(policy, await access(line, workspace)).kind is expected, line


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("git status", "shell(git status *)"),
        ("git status --short", "shell(git status *)"),
        ("npm run test", "shell(npm run test *)"),
        ("npm run test -- -x", "shell(npm run test -- -x)"),
        ("make test", "shell(make test)"),
        ("cat /etc/passwd", "shell(cat /etc/passwd)"),
        ("npm run", "shell(npm run)"),
        ("pytest -q tests", "shell(pytest *)"),
        ("rm -rf build", "shell(rm -rf build)"),
        ("git push", "shell(git push)"),
        ("git -C x status", "shell(git -C x status)"),
        ("python -c 'print(1)'", "shell(python -c 'print(1)')"),
        ("echo *", r"shell(echo \*)"),
        ("$X y", "shell($X y)"),
    ],
)
def test_lasting_approval_covers_the_words_that_were_shown(line: str, rule: str) -> None:
    asked = required_access(line).access[0]
    remembered = lasting_rule(asked, DecisionKind.ALLOW)
    assert rule_text(remembered) == rule
    assert decide_all(Policy(PermissionMode.DEFAULT, [remembered]), [asked]).kind is DecisionKind.ALLOW


@pytest.mark.parametrize("line", ["git statusx", "git", "git status && make", "git status > a", "$(git status)"])
def test_lasting_approval_covers_no_other_commands(line: str) -> None:
    remembered = lasting_rule(required_access("git status").access[0], DecisionKind.ALLOW)
    needed = required_access(line)
    asked = decide_all(Policy(PermissionMode.DEFAULT, [remembered]), needed.access).kind is DecisionKind.ASK
    assert asked or needed.targets


@pytest.mark.parametrize(
    ("usual", "other"),
    [
        ("git diff", "git diff --output=../x"),
        ("git log -3", "git log -3 --output x"),
        ("git diff", "git diff --ext-d"),
        ("git fetch", "git fetch --upload-pack=./x"),
        ("rg x", "rg --pre ./x y"),
        ("tree", "tree -ao x"),
        ("file x", "file -C -m x"),
    ],
)
def test_lasting_approval_does_not_cover_unsafe_options(usual: str, other: str) -> None:
    remembered = lasting_rule(required_access(usual).access[0], DecisionKind.ALLOW)
    policy = Policy(PermissionMode.DEFAULT, [remembered])
    assert decide_all(policy, required_access(f"{usual} -- a").access).kind is DecisionKind.ALLOW
    asked = required_access(other).access
    assert decide_all(policy, asked).kind is DecisionKind.ASK
    own = Policy(PermissionMode.DEFAULT, [lasting_rule(asked[0], DecisionKind.ALLOW)])
    assert decide_all(own, asked).kind is DecisionKind.ALLOW
    assert decide_all(own, required_access(f"{other} more").access).kind is DecisionKind.ASK


def test_reason_is_that_of_the_gravest_action() -> None:
    decision = decide_all(Policy(PermissionMode.DEFAULT), required_access("make; cat .env").access)
    assert "may hold secrets" in decision.reason


def test_lasting_denial_covers_further_words() -> None:
    denied = lasting_rule(required_access("rm -rf").access[0], DecisionKind.DENY)
    policy = Policy(PermissionMode.BYPASS, [denied])
    for line in ("rm -rf", "rm -rf /", "ls; rm  -rf x"):
        assert decide_all(policy, required_access(line).access).kind is DecisionKind.DENY
    assert decide_all(policy, required_access("rm -rfx").access).kind is DecisionKind.ALLOW


def test_rule_without_a_pattern_or_with_a_star_allows_every_command() -> None:
    for rule in ("shell", "shell(*)"):
        policy = Policy(PermissionMode.DEFAULT, [parse_rule(rule, DecisionKind.ALLOW)])
        assert decide_all(policy, required_access("$X; make `y`").access).kind is DecisionKind.ALLOW
