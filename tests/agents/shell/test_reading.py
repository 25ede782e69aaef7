"""Commands that only read need no approval; whatever else does."""

import os
import subprocess
from pathlib import Path

import pytest

from deputy_agents.domain.permission_mode import PermissionMode
from deputy_agents.domain.rule import DecisionKind, Rule
from deputy_agents.permission.decide import Policy, decide_all
from deputy_agents.permission.rule_patterns import parse_rule
from deputy_agents.shell.access import required_access
from deputy_agents.tool import ripgrep
from deputy_agents.tool.registry import Registry, command_tools
from tests.support.files import hands_on

pytestmark = pytest.mark.requirement("Q2")
ALLOW, ASK, DENY = DecisionKind.ALLOW, DecisionKind.ASK, DecisionKind.DENY


def git(root: Path, *words: str) -> None:
    identity = ("-c", "user.name=x", "-c", "user.email=x@x", "-c", "commit.gpgSign=false")
    subprocess.run(["git", *identity, *words], cwd=root, check=True, capture_output=True, timeout=30)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with files, tracked secrets, and links to secrets and out of the workspace."""
    root = tmp_path_factory.mktemp("reading").resolve() / "root"
    for name in ("src", "sub/deep", "docs", "keys"):
        (root / name).mkdir(parents=True)
    for name in ("a.txt", "b.txt", "src/a.py", "sub/deep/b.py", "docs/x.md", "data.json"):
        (root / name).write_text("x\n")
    git(root, "init", "--quiet", "-b", "main")
    git(root, "add", ".")
    git(root, "commit", "--quiet", "-m", "first")
    (root / "keys" / "server.pem").write_text("SECRET\n")
    git(root, "add", ".")
    git(root, "commit", "--quiet", "-m", "with a key")
    (root / "a.txt").write_text("y\n")
    (root / ".env").write_text("SECRET\n")
    (root / "notes").symlink_to(".env")
    (root / "docs" / "hosts").symlink_to("/etc/hosts")
    (root / "out").symlink_to("/etc")
    return root


def decision(
    root: Path, line: str, *rules: Rule, mode: PermissionMode = PermissionMode.DEFAULT, reading: bool = True
) -> DecisionKind:
    needed = required_access(line, root, root, (root,), reading=reading)
    return decide_all(Policy(mode, rules), needed.access).kind


READS = """
ls
ls -la src
ls -l --color=never src docs
pwd
cat a.txt
cat a.txt src/a.py | head -20
cat -n src/a.py | sed -n '1,5p'
head -5 a.txt
head -n 5 -q a.txt b.txt
tail -n +3 a.txt
tail -20 a.txt
wc -l a.txt
nl a.txt
sort -u a.txt | uniq -c | sort -rn
sort -t: -k2 a.txt
cut -d, -f1 a.txt
cat a.txt | tr a-z A-Z
grep -n x a.txt
grep -c 'def .*(' src/a.py 2>/dev/null
grep -E "a|b" a.txt 2>&1 | wc -l
diff a.txt b.txt
cmp -s a.txt b.txt
stat a.txt
file a.txt
du -sh src
find . -name '*.py'
find src sub -type f -maxdepth 2
find . -type f -not -path './sub/*' -size +1k
find . \\( -name '*.py' -o -name '*.md' \\) -print
find . ! -name x -newer a.txt
sed -n 1p a.txt
sed -n '10,20p' src/a.py
sed -n '$p' a.txt
sed -n '2,+3p;7p' a.txt
date
date +%F
echo hello world
echo '---' && cat a.txt
printf '%s' text
which python3
command -v git
basename src/a.py
realpath a.txt
cd src && ls
cd src && cat a.py && pwd
git status
git status --short -b
git --no-pager status
git log --oneline -5
git log -n 3 --format=%H
git log --stat -2
git log --author=x -- src
git log main~1..main --oneline
git diff
git diff --stat
git diff HEAD -- a.txt
git diff HEAD^ --stat -- src
git diff --cached
git show --stat
git show --name-only HEAD~1
git show HEAD~1 -- src/a.py
git blame a.txt
git blame -L 1,1 src/a.py
git branch
git branch -a -vv
git branch --show-current
git branch --list
git tag
git stash list
git rev-parse --abbrev-ref HEAD
git rev-list --count HEAD
git ls-files src
git describe --always
ls --version
git --version
""".strip().split("\n")
ATTACKS = """
touch a.txt
cat /etc/passwd
cat ../x
cat ~/x
cat notes
cat .env
cat docs/hosts
cat out/hosts
cat keys/server.pem
cat *.txt
cat a.t?t
cat $HOME
cat "$X"
cat `x`
cat $(x)
cat <(x)
cat a.txt > b.txt
cat a.txt >> b.txt
cat < a.txt
cat a.txt | tee b.txt
cat a.txt | sh
cat a.txt; touch x
cat a.txt &
cat a.txt & touch x
cat a.txt || touch x
cat a.txt && touch x
cat a.txt 2>b.txt
cat a.txt 2>&1 > b.txt
cat a.txt 2>/dev/null/x
cat src
cat {a,b}.txt
cat \\a.txt
cat a.txt #x
FOO=1 cat a.txt
PATH=. ls
PATH=. && ls
export PATH=. && ls
./ls
/bin/ls
src/ls
\\ls
'l's --unknown
ls --hyperlink
ls -Z --dired
ls $(x)
tail -f a.txt
tail -F a.txt
tail --follow a.txt
tail --follow=name a.txt
head -f a.txt
wc --files0-from=a.txt
sort -o b.txt a.txt
sort -ob.txt a.txt
sort --output=b.txt a.txt
sort --outpu=b.txt a.txt
sort --compress-program=./x a.txt
sort -T . a.txt
sort --files0-from=a.txt
sort -uo b.txt a.txt
uniq a.txt b.txt
uniq -c a.txt b.txt
tree -o b.txt
grep -r x .
grep -R x src
grep -rn x .
grep --recursive x .
grep -f a.txt b.txt
grep --file=.env a.txt
grep -d recurse x .
grep x .env
grep x notes
grep x *
egrep -r x .
diff -r src sub
diff src sub
diff --to-file=a.txt b.txt
cmp .env a.txt
file -C -m a.txt
file -m a.txt b.txt
file -f a.txt
file -z a.txt
rg --pre ./x x
rg --pre=./x x
rg --hostname-bin ./x x
rg -z x
rg --search-zip x
rg -f a.txt
rg --ignore-file a.txt x
rg -uuu x
rg --hidden x
rg -. x
rg --no-ignore x
rg -L x
rg --follow x
rg -g '.env' x
rg x
rg x keys
jq . .env
jq -f a.txt data.json
jq --slurpfile x .env . data.json
jq --rawfile x .env . data.json
jq -L . 'import "x" as x; .' data.json
jq 'include "x"; .' data.json
jq -n env
jq -n '$ENV'
find . -delete
find . -exec rm {} +
find . -execdir x {} +
find . -ok x {} +
find . -fprint b.txt
find . -fprintf b.txt x
find . -fls b.txt
find . -name x -fprint0 b.txt
find -L . -name x
find / -name x
find .. -name x
find . -newer /etc/passwd
find . -files0-from a.txt
sed p a.txt
sed -i p a.txt
sed -n -i p a.txt
sed -n 1p -i a.txt
sed -n 'w b.txt' a.txt
sed -n '1w b.txt' a.txt
sed -n '1e touch x' a.txt
sed -n '1p;e touch x' a.txt
sed -n 's/x/y/w b.txt' a.txt
sed -n 's/x/touch y/e' a.txt
sed -n 1p --expression=e a.txt
sed -ne 1p -f a.txt
sed -n 1p .env
sed -n '1r .env' a.txt
date 010100002030
date -s x
date --set=x
date -f .env
date -r .env
printf -v PATH . && ls
echo x > b.txt
echo $(x)
tr a b > x
awk 1 a.txt
xargs cat
env
printenv
env ls
command ls
builtin cd
time ls
timeout 5 ls
exec ls
eval ls
source a.txt
. a.txt
alias ls=x
test -f a.txt
git
git push
git commit -m x
git add a.txt
git checkout a.txt
git stash
git stash drop
git stash pop
git branch new
git branch -d main
git branch -D main
git branch -m x
git branch -f main HEAD~1
git branch --edit-description
git branch -u x
git branch --list -d main
git tag new
git tag -d x
git config --get user.name
git remote -v
git reflog expire --all
git fetch
git -c core.pager=./x log
git -c alias.st=!./x st
git -C /etc status
git -C .. status
git --git-dir=x status
git --work-tree=x status
git --exec-path=. status
git -p log
git --paginate log
git log --output=b.txt
git log --output b.txt
git log -O a.txt
git log -p
git log -p -1
git log -U3 -2
git log -L1,1:keys/server.pem
git log --ext-diff -p
git log --textconv -p
git log --show-signature
git log --format=%GG
git log --format=%(describe)
git show HEAD
git show HEAD:.env
git show HEAD:keys/server.pem
git show HEAD:a.txt
git show HEAD^{tree}
git diff --output=b.txt
git diff --outpu=b.txt
git diff --ext-diff
git diff --textconv
git diff --no-index a.txt /etc/passwd
git diff --no-index .env a.txt
git diff a.txt .env
git diff HEAD~1
git diff HEAD~1 HEAD
git diff HEAD~1 -- keys
git diff -O.env
git diff --relative=keys HEAD~1
git diff ':(top)keys'
git blame keys/server.pem
git blame --contents .env a.txt
git blame -S .env a.txt
git grep x
git grep -O./x x
git grep --no-index x
git archive HEAD
git cat-file -p HEAD
git ls-files -s
git status -v -v --porcelain=v9 --unknown
git difftool
git help log
git lg
cargo --version
npm --version
go version
python3 -c x
python3 --version x
python3 -m x
bash --version -c x
bash
ls\\
cat a.txt | cat | xargs rm
less a.txt
more a.txt
vi a.txt
tar -tf a.txt
zcat a.txt
xxd a.txt b.txt
od a.txt
base64 a.txt
tee
cp a.txt b.txt
ln -s .env b.txt
cat a.txt 2>&1 >&2
cat a.txt >&2
cat a.txt <<< x
cat a.txt |& cat
! cat a.txt
{ cat a.txt; }
(cat a.txt)
if true; then cat a.txt; fi
cat 'a.txt
cat "a.txt
""".strip().split("\n")


@pytest.mark.parametrize("line", READS)
def test_a_command_that_only_reads_does_not_ask(root: Path, line: str) -> None:
    assert decision(root, line) is ALLOW
    assert decision(root, line, reading=False) is ASK
    assert decision(root, line, mode=PermissionMode.PLAN) is DENY


@pytest.mark.parametrize("line", ATTACKS)
def test_anything_else_asks(root: Path, line: str) -> None:
    assert decision(root, line) is ASK


@pytest.mark.parametrize(
    ("line", "denied", "kind"),
    [
        ("cat a.txt", "shell(cat *)", DENY),
        ("ls && cat a.txt", "shell(cat *)", DENY),
        ("cd src && cat a.py", "shell(cat *)", DENY),
        ("git --no-pager log", "shell(git log *)", DENY),
        ("cat src/a.py", "read_file(src/**)", DENY),
        ("cd src && cat a.py", "read_file(src/**)", DENY),
        ("head -5 a.txt src/a.py", "read_file(src/**)", DENY),
        ("cat a.txt | sed -n 1p", "read_file(a.txt)", DENY),
        ("cat src/a.py", "*(src/**)", DENY),
        ("git diff", "read_file(a.txt)", DENY),
        ("git show HEAD~1 -- src/a.py", "read_file(src/**)", DENY),
        ("git diff", "read_file(src/**)", ALLOW),
        ("cat a.txt", "read_file(src/**)", ALLOW),
        ("ls src", "read_file(src/**)", ALLOW),
    ],
)
@pytest.mark.asyncio
async def test_rules_that_deny_apply_to_the_command_and_to_the_files_that_it_shows(
    root: Path, line: str, denied: str, kind: DecisionKind
) -> None:
    hands = hands_on(root, reading=True)
    hands.tools = Registry(command_tools())
    needed = await hands.access("shell", command=line)
    assert decide_all(Policy(PermissionMode.DEFAULT), needed).kind is ALLOW
    assert decide_all(Policy(PermissionMode.DEFAULT, [parse_rule(denied, DENY)]), needed).kind is kind


def test_a_part_of_a_line_that_only_reads_needs_no_rule(root: Path) -> None:
    assert decision(root, "make test 2>&1 | tail -20", parse_rule("shell(make test)", ALLOW)) is ALLOW
    assert decision(root, "make test 2>&1 | tail -20") is ASK
    assert decision(root, "make test | sh", parse_rule("shell(make test)", ALLOW)) is ASK


@pytest.mark.parametrize("where", [".", "node_modules/.bin"])
def test_a_program_of_the_workspace_is_not_run_in_place_of_the_usual_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    programs = tmp_path / where
    programs.mkdir(parents=True, exist_ok=True)
    usual = os.environ["PATH"]
    monkeypatch.setenv("PATH", f"{programs}:{usual}")
    assert decision(tmp_path, "ls") is ALLOW
    (programs / "ls").write_text("#!/bin/sh\ntouch ran\n")
    assert decision(tmp_path, "ls") is ASK
    monkeypatch.setenv("PATH", f"{usual}:{programs}")
    assert decision(tmp_path, "ls") is ALLOW
    for relative in ("", ".", "bin"):
        monkeypatch.setenv("PATH", f"{relative}:{usual}")
        assert decision(tmp_path, "ls") is ASK
    outside = tmp_path.parent / f"{tmp_path.name}-bin"
    outside.mkdir(exist_ok=True)
    (outside / "ls").unlink(missing_ok=True)
    (outside / "ls").symlink_to(programs / "ls")
    (programs / "ls").chmod(0o755)
    monkeypatch.setenv("PATH", f"{outside}:{usual}")
    assert decision(tmp_path, "ls") is ASK


def test_git_asks_where_a_repository_names_a_program(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")
    (tmp_path / "a.txt").write_text("x\n")
    (tmp_path / ".gitattributes").write_text("*.txt filter=evil diff=evil\n")
    git(tmp_path, "add", "a.txt")
    git(tmp_path, "commit", "--quiet", "-m", "x")
    assert decision(tmp_path, "git diff") is ALLOW
    git(tmp_path, "config", "filter.evil.clean", f"touch {tmp_path}/ran; cat")
    (tmp_path / "a.txt").write_text("y\n")
    for line in ("git diff", "git status", "git show HEAD", "git log -p"):
        assert decision(tmp_path, line) is ASK, line
    assert not (tmp_path / "ran").exists()
    git(tmp_path, "config", "--unset", "filter.evil.clean")
    git(tmp_path, "config", "diff.evil.textconv", f"touch {tmp_path}/ran; cat")
    assert decision(tmp_path, "git diff") is ASK
    assert not (tmp_path / "ran").exists()


def test_git_shows_no_object_that_could_be_a_secret(root: Path) -> None:
    ids = subprocess.run(["git", "ls-files", "-s"], cwd=root, check=True, capture_output=True, text=True, timeout=30)
    blob = next(line.split()[1] for line in ids.stdout.splitlines() if line.endswith("server.pem"))
    for line in (f"git show {blob}", f"git show {blob[:8]}", f"git diff {blob} HEAD", f"git diff {blob}..{blob}"):
        assert decision(root, line) is ASK, line


def test_reading_leaves_the_index_alone(root: Path) -> None:
    needed = required_access("git status", root, root, (root,), reading=True)
    assert needed.variables["GIT_OPTIONAL_LOCKS"] == "0"


def test_a_search_asks_if_it_would_show_a_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "rg").symlink_to(ripgrep.binary())
    root = tmp_path / "root"
    (root / "src").mkdir(parents=True)
    (root / "src" / "a.py").write_text("x\n")
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    for line in ("rg", "rg x", "rg -n x src", "rg -tpy -C2 x", "rg --files", "rg -g '*.py' x", "cat src/a.py | rg x"):
        assert decision(root, line) is ALLOW, line
    (root / ".env").write_text("x\n")
    assert decision(root, "rg x") is ALLOW  # it skips hidden files
    (root / "src" / "server.pem").write_text("x\n")
    for line in ("rg x", "rg -n x src", "rg x src/server.pem", "rg -g '*.pem' x"):
        assert decision(root, line) is ASK, line
    assert decision(root, "rg -tpy x") is ALLOW
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", "x")
    needed = required_access("rg -tpy x", root, root, (root,), ("RIPGREP_*",), reading=True)
    assert decide_all(Policy(PermissionMode.DEFAULT), needed.access).kind is ASK


@pytest.mark.asyncio
async def test_a_search_asks_if_a_rule_may_apply_to_a_file_that_it_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "rg").symlink_to(ripgrep.binary())
    root = (tmp_path / "root").resolve()
    for name in ("src", "docs"):
        (root / name).mkdir(parents=True)
        (root / name / "a.py").write_text("x\n")
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    hands = hands_on(root, reading=True)
    hands.tools = Registry(command_tools())

    async def kind(line: str, denied: str) -> DecisionKind:
        needed = await hands.access("shell", command=line)
        return decide_all(Policy(PermissionMode.DEFAULT, [parse_rule(denied, DENY)]), needed).kind

    assert await kind("rg x", "read_file(docs/**)") is ASK
    assert await kind("rg x src", "read_file(docs/**)") is ALLOW
    assert await kind("rg x docs", "read_file(docs/**)") is not ALLOW
    assert await kind("rg x src", "read_file(**/secrets/**)") is ASK
    assert await kind("rg x src/a.py", "read_file(src/**)") is DENY
