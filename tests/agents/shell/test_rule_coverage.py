"""What a rule with a wildcard covers, from settings or from a lasting answer: known options, and the workspace."""

from pathlib import Path

import pytest

from deputy_agents.domain.permission_mode import PermissionMode
from deputy_agents.domain.rule import Rule
from deputy_agents.permission.decide import Policy, decide_all
from deputy_agents.permission.rule_patterns import escape_pattern, lasting_rule, lasting_rules, parse_rule, rule_text
from deputy_agents.shell.access import required_access
from deputy_agents.shell.known_commands import KNOWN_COMMANDS
from deputy_agents.tool.registry import Registry, command_tools
from tests.support.files import hands_on
from tests.support.shell_rules import ALLOW, ASK, DENY, allow, decision, lasting, sample_workspace


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return sample_workspace(tmp_path)


OPTIONS = r"""
make test | make test --eval=x | make --eval x test | make test --ev=x
make test | make -f x test | make -fx test | make -kf x test
make test | make test -C sub | make -Csub test | make SHELL=./x test | make test CC=./x | make -I x test | make -E x
make test | make test deploy | make test -- deploy | make test '$(shell x)' | make test ../x
go test ./... | go test -exec ./x ./... | go test -exec=./x | go test --exec ./x | go test -toolexec ./x | go test -o x
go test ./... | go vet ./... | go test -vettool=./x | go test -c
go test ./... | go test -args -x | go test -ldflags=-extld=x | go test -C ..
go test ./... | go test -mod=mod host.invalid/x
go vet ./... | go vet -vettool=./x ./... | go vet -vettool ./x | go vet ../other
go build ./... | go build -toolexec ./x | go build -overlay x | go build -o ../x | go build -modfile x
cargo test | cargo --config x test | cargo test --config x | cargo test --config=x | cargo test --manifest-path x
cargo test | cargo +x test | cargo test --target-dir x | cargo test -Zx | cargo test -- --x | cargo test -C ..
npm test | npm test --node-options=x | npm --node-options=x test | npm test --prefix x | npm test --script-shell=./x
npm test | npm test -- --x | npm test x | npm test --silent x | npm --script-shell ./x test | npm -C x test
npm run build | npm run build -- -x | npm run build --node-options x | npm run other | npm run -C x build
pnpm run build | pnpm run build x | pnpm -C x run build | pnpm run build --shell-emulator | yarn run build
yarn run build | yarn run build x | yarn --cwd x run build | yarn run build --inspect
mypy src | mypy --python-executable ./x src | mypy --python-executable=./x | mypy --config-file x | mypy --config-fi x
mypy src | mypy --cache-dir=x | mypy @x | mypy --custom-typeshed-dir x | mypy /etc | mypy --html-report x src
pytest -q | pytest -p x | pytest -px | pytest -qp x
pytest -q | pytest --basetemp=. | pytest -c x | pytest -cx | pytest --rootdir=/
pytest -q | pytest -o x=y | pytest -ox=y | pytest --override-ini=x | pytest @x | pytest --confcutdir=x | pytest ../x
pytest -q | pytest -W error::x.Y | pytest --pdbcls=x:y
pytest -q | pytest --junitxml=x | pytest --log-file=x | pytest --pyargs x -p y
uv run pytest | uv run --with x pytest | uv run --python ./x pytest | uv run pytest -p x | uv --project x run pytest
ctest | ctest -S x | ctest -SP x | ctest -T x | ctest -D x | ctest --build-and-test x | ctest -O x | ctest --script x
rg x | rg --pre ./x y | rg --pre=./x y | rg --pre-glob x y
rg x | rg --hostname-bin ./x y | rg -z x | rg -f ../x | rg --follow x
rg x | rg -g '.e*' x | rg -g '*' x | rg --glob='*.{txt,env}' x | rg --iglob=.ENV x | rg -g=* x
rg x | rg x /etc | rg x .. | rg x ~ | rg --hidden x | rg -uuu x | rg --ignore-file x y | rg --files /etc | rg -e x /etc
grep x a.txt | grep -f ../x a.txt | grep -r x . | grep -R x src | grep x /etc/passwd | grep -ex /etc/passwd
grep x a.txt | grep -ie x /etc/passwd | grep --regexp=x /etc/passwd
grep x a.txt | grep --file=x y | grep x -- ../y | grep x out/passwd
tree | tree -o x | tree -ao x | tree -ox | tree -R x | tree /etc | tree --fromfile x | tree -al
file a.txt | file -C -m x | file -Cm x | file -m x a.txt | file -f x | file -z x | file --compile | file /etc/passwd
git diff | git diff --output=x | git diff --output x | git diff --outp=x
git diff | git diff -Ox | git diff --ext-diff | git diff --ext
git diff | git diff --textconv | git diff --no-index /etc/passwd x | git diff --submodule=diff | git diff -- /etc/passwd
git log | git log --output=x | git -c core.pager=x log
git log | git --exec-path=x log | git -C sub log | git log --show-signature
git log | git --git-dir=x log | git --work-tree=/ log | git -p log | git log --stdin | git --config-env=a=b log
git show | git show --outpu x | git show --ext-diff | git --no-pager show --output=x
git fetch | git fetch --upload-pack=./x | git fetch --upload-pa ./x | git fetch ext::x | git fetch https://x.invalid/y
git fetch | git fetch ../x | git fetch host:x | git fetch -o x | git fetch --negotiation-tip=x | git fetch --stdin
git status | git status --x | git status -x | git -C sub status | git -c core.fsmonitor=x status | git status ../x
git add a.txt | git add --pathspec-from-file=../x | git add -p | git add ../x | git add -e
git blame a.txt | git blame --contents ../x a.txt | git blame -S x a.txt | git blame --ignore-revs-file=../x a.txt
tsc | tsc --outDir .. | tsc -p ../x | tsc @x | tsc --build | tsc --project x | tsc ../x.ts | tsc --rootDir /
npx tsc | npx -p x tsc | npx --package=x tsc | npx tsc --outDir x | npx ../x
eslint src | eslint --config x src | eslint -c x | eslint --rulesdir x
eslint src | eslint -o x src | eslint --output-file=x | eslint --fix
eslint src | eslint --plugin x | eslint -f ./x
eslint src | eslint --format=./x src | eslint --resolve-plugins-relative-to x | eslint /etc
prettier src | prettier --plugin x src | prettier --plugin=x
prettier src | prettier --config x src | prettier --write src | prettier -w src
ruff check | ruff check --config x | ruff check --config=x | ruff --config x check | ruff check --fix | ruff check -o x
ruff check | ruff check --cache-dir x | ruff check --output-file=x
ruff check | ruff check ../x | ruff format | ruff check --unsafe-fixes
gradle test | gradle -I x test | gradle test -I x | gradle test deploy | gradle test -Dx=y | gradle test -Px=y
mvn test | mvn test deploy | mvn test -Dx=y | mvn -f x test | mvn test -f x | mvn test -s x
dotnet test | dotnet test --logger x | dotnet test -p:x=y
dotnet test | dotnet test /p:x=y | dotnet test --settings x | dotnet test ../x
cat a.txt | cat /etc/passwd | cat ../x | cat ~/x | cat ~root/x
cat a.txt | cat out/passwd | cat docs/hosts | cat -x | cat src/../../x
cat a.txt | cat * | cat ?.txt | cat [a]* | cat docs/*
cat a.txt | cat out/* | cat ./*/../../x | cat .*/x | cat $HOME/x | cat a.txt /etc/x
head a.txt | head -n5 /etc/passwd | head --lines=5 ../x | head -- /etc/passwd | head -c 5 ~/x
ls | ls /etc | ls .. | ls ~ | ls src/../.. | ls *
wc a.txt | wc --files0-from=x | wc /etc/passwd | wc --files0 x
du | du --files0-from=x | du .. | du -X ../x
just test | just test x | just --justfile x test | just -f x test | just other | just --set a b test | just test -- x
"""
"""A command, and others that its lasting answer must not cover. Each line is one command and some of the others."""

CASES = [
    (usual.strip(), other.strip())
    for usual, *others in (line.split(" | ") for line in OPTIONS.strip().split("\n"))
    for other in others
    if other.strip() != "go vet ./..."
]


@pytest.mark.parametrize(("usual", "other"), CASES)
def test_lasting_answer_does_not_cover_other_options_and_places(root: Path, usual: str, other: str) -> None:
    rules = lasting(root, usual)
    assert decision(root, usual, *rules) is ALLOW
    assert decision(root, other, *rules) is ASK
    assert decision(root, other, *lasting(root, other)) is ALLOW, "the exact words can be allowed"


UNDER_ONE_RULE = [
    (usual, other)
    for usual, other in CASES
    if not usual.startswith(("npx", "uv", "just"))
    and other not in ("npm run other", "yarn run build", "ruff format", "git add -p")
    and not other.startswith("make test deploy")
    and other != "make test -- deploy"
]
"""Without those that a rule for the program covers, or that begin with a program that runs others."""


@pytest.mark.parametrize(("usual", "other"), UNDER_ONE_RULE)
def test_configured_wildcard_does_not_cover_other_options_and_places(root: Path, usual: str, other: str) -> None:
    assert decision(root, other, *allow(f"{usual.partition(' ')[0]} *")) is ASK
    assert decision(root, other, *allow(f"{usual} *")) is ASK


@pytest.mark.parametrize(
    ("rule", "line"),
    [
        ("git status *", "git status -sb --porcelain=v2 -- src a.txt"),
        ("git *", "git --no-pager status"),
        ("git log *", "git log --oneline -5 --grep=x main..feature -- src"),
        ("git diff *", "git diff HEAD~1 HEAD -- src/a.py"),
        ("git show *", "git show HEAD:src/a.py"),
        ("git fetch *", "git fetch origin main:main --prune"),
        ("git *", "git push -u origin feature/x"),
        ("git commit *", "git commit -m 'a message' --amend"),
        ("git rebase *", "git rebase main"),
        ("git -C sub *", "git -C sub status"),
        ("git diff --output=x", "git diff --output=x"),
        ("make *", "make -j4 -k lint test"),
        ("make -f x *", "make -f x test"),
        ("make *", "make -j 4"),
        ("go test *", "go test -run=TestX -count 1 -v ./..."),
        ("cargo test *", "cargo test -p crate --release tests::name"),
        ("npm run *", "npm run build --silent"),
        ("pytest *", "pytest -xvs -k 'a and b' tests/test_a.py::test_b --maxfail=1 -n 4"),
        ("pytest *", "pytest 'tests/a.py::test_b[1-2]'"),
        ("python -m pytest *", "python -m pytest -q src"),
        ("mypy *", "mypy --strict src"),
        ("rg *", "rg -n '/api/v1' src"),
        ("rg *", "rg -tpy -A3 -e x -- src"),
        ("rg *", "rg -g '*.{{ts,tsx}}' -g '!.git' x"),
        ("git clone *", "git clone --depth 1 https://host.invalid/x.git sub/x"),
        ("jq *", "jq '.imports[] | .include' a.txt"),
        ("grep *", "grep -n '^/' a.txt"),
        ("grep *", "grep -5 x a.txt src/a.py"),
        ("cat *", "cat a.txt src/a.py"),
        ("cat *", "cat ./*.txt"),
        ("cat *", "cat -- *.txt"),
        ("cat *", "cat src/*.py"),
        ("ls *", "ls -la src"),
        ("head *", "head -n 20 a.txt"),
        ("head *", "head -20 a.txt"),
        ("find *", "find / -name x"),
        ("mytool *", "mytool --exec=/bin/x ../y src/*"),
        ("cat *", "cat {root}/a.txt"),
        ("cat /etc/hosts", "cat /etc/hosts"),
        ("mkdir *", "mkdir -p /tmp/x"),
        ("just *", "just test"),
    ],
)
def test_wildcard_covers_known_options_inside_the_workspace(root: Path, rule: str, line: str) -> None:
    assert decision(root, line.format(root=root), *allow(rule)) is ALLOW


@pytest.mark.parametrize(
    "line", ["{ cd sub & } && make x", "{ { cd sub; } & } && make x", "{ true && cd sub & } && make x"]
)
def test_rule_that_names_a_folder_does_not_cover_a_command_after_entering_it_in_the_background(
    root: Path, line: str
) -> None:
    rules = allow("cd sub && make *", "true", "cd sub && true")
    assert decision(root, "cd sub && make x", *rules) is ALLOW
    assert decision(root, line, *rules) is ASK


@pytest.mark.parametrize(
    ("rule", "line"),
    [
        ("jq *", 'jq -n \'import "x" as $x {search: "/etc"}; $x\''),
        ("jq *", "jq -n 'include \"x\"; .'"),
        ("git clone *", "git clone https://host.invalid/x .vscode"),
        ("git clone *", "git clone https://host.invalid/x sub/.github"),
        ("git clone *", "git clone https://host.invalid/.deputy.git/"),
        ("git clone *", "git clone https://host.invalid/x gradle/wrapper"),
        ("git rebase *", "git rebase --continue"),
        ("git rebase *", "git rebase --skip"),
        ("git grep *", "git grep --no-index x"),
    ],
)
def test_configured_wildcard_does_not_cover_what_runs_code_or_reads_elsewhere(root: Path, rule: str, line: str) -> None:
    assert decision(root, line, *allow(rule)) is ASK
    assert decision(root, line, *lasting(root, line)) is ALLOW


INPUT = [
    "python3 <<E\nprint(1)\nE",
    "python3 - <<'E'\nprint(1)\nE",
    "echo 'print(1)' | python3",
    "cat a.txt | python3 -",
    "python3 < a.txt",
    "< a.txt python3",
    "python3 <<< 'print(1)'",
    "cat a.txt | tee src/b",
    "cat a.txt | psql",
    "psql < a.txt",
    "ssh host < a.txt",
    "cat a.txt | ssh host",
    "cat a.txt | patch",
    "patch -p1 < a.txt",
    "git apply < a.txt",
    "cat a.txt | git apply",
    "cat a.txt | make -f -",
    "echo x | node",
    "cat a.txt | python3 /dev/stdin",
    "{ cat a.txt; echo x; } | node",
    "(node) < a.txt",
    "{ node; } < a.txt",
    "echo x | if true; then node; fi",
    "cat a.txt | while true; do node; done",
    "cat a.txt | timeout 5 node",
    "cat a.txt | env node",
    "echo x | bash -c 'node'",
    "cat a.txt | sed e",
    "node 3< a.txt <&3",
    "node < src/dev/null",
    "node <<< 'x()//'/dev/null",
    "cat a.txt 2>&1 | node",
    "cd sub && cat key.txt 2>&1 | node",
    "echo a | cat | node",
    "eval 'node' < a.txt",
]
"""Programs whose input decides what they do."""
BROAD = allow(
    *(
        "python3 *",
        "tee *",
        "psql *",
        "ssh *",
        "patch *",
        "git *",
        "git apply *",
        "make *",
        "node *",
        "timeout *",
        "env *",
    ),
    *("sed *", "bash *", "cat *", "echo *", "cd *", "eval *", "cd sub && *", "true"),
)


@pytest.mark.parametrize("line", INPUT)
def test_wildcard_does_not_cover_input(root: Path, line: str) -> None:
    rules = (*BROAD, Rule("in", "read_file", ALLOW, "**"))
    assert decision(root, line, *rules) is ASK
    own = lasting(root, line)
    assert decision(root, line, *rules, *own) is ALLOW
    for other in (line.replace("x", "y"), line.replace("a.txt", "src/a.py"), line.replace("print", "exec")):
        if other != line:
            assert decision(root, other, *rules, *own) is ASK


@pytest.mark.parametrize("line", INPUT)
def test_rule_that_denies_a_command_also_denies_it_with_input(root: Path, line: str) -> None:
    words = ("python3", "tee", "psql", "ssh", "patch", "git apply", "make", "node", "sed")
    denied = [parse_rule(f"shell({word} *)", DENY) for word in words]
    assert decision(root, line, *denied, mode=PermissionMode.BYPASS) is DENY
    exact = [parse_rule(f"shell({word})", DENY) for word in ("python3", "psql", "node", "sed e", "git apply")]
    if not any(word in line for word in ("tee", "patch", "make", "ssh", "/dev/stdin", "python3 -")):
        assert decision(root, line, *exact, mode=PermissionMode.BYPASS) is DENY


def test_lasting_answer_names_the_input() -> None:
    [request] = required_access("python3 -u <<'E'\nprint(1)\nE").access
    assert rule_text(lasting_rule(request, ALLOW)) == "shell(python3 -u <<'E'\nprint(1)\nE)"
    _, request = required_access("echo x | python3").access
    assert rule_text(lasting_rule(request, ALLOW)) == "shell(echo x | python3)"


@pytest.mark.parametrize(
    "line",
    [
        "cat a.txt | grep x | sort -u | uniq -c | head -3 | wc -l",
        "echo '{}' | jq -r .a",
        "cat <<'E'\ntext\nE",
        "git log --oneline | grep fix | cut -d' ' -f1",
        "cat a.txt | timeout 5 grep x",
        "cat < /dev/null",
        "git diff | cat -",
        "cat a.txt | tr a-z A-Z",
    ],
)
def test_input_of_filters_is_data(root: Path, line: str) -> None:
    programs = (
        "cat",
        "grep",
        "sort",
        "uniq",
        "head",
        "wc",
        "jq",
        "git log",
        "git diff",
        "cut",
        "timeout",
        "tr",
        "echo",
    )
    assert decision(root, line, *allow(*(f"{program} *" for program in programs))) is ALLOW


@pytest.mark.parametrize(
    "line", ["cat a.txt | sort -o a.py", "cat a.txt | jq -f /dev/stdin", "cat a.txt | rg --pre x y"]
)
def test_filter_with_an_unknown_option_is_none(root: Path, line: str) -> None:
    exact = line.split(" | ")[1]
    assert decision(root, line, *allow("cat *", exact)) is ASK


@pytest.mark.parametrize(
    "line",
    [
        "cd sub && make test",
        "cd ./sub && make test",
        "cd sub/deep/ && make test",
        "cd sub && cd deep && make test",
        "cd sub; make test",
        "cd sub\nmake test",
        "cd sub || exit 1\nmake test",
        "(cd sub && make test)",
        "cd sub && make test 2>&1 | tail -5",
        "pushd sub && make test",
        "builtin cd sub && make test",
        "eval 'cd sub'; make test",
        "bash -c 'cd sub && make test'",
        "if cd sub; then make test; fi",
        "for i in 1 2; do make test; cd sub; done",
        "cd $X; make test",
        "cd; make test",
        "cd - && make test",
        "cd keys && make test",
        "trap 'make test' EXIT; cd sub",
        "find . -execdir make test {} +",
        "env -C sub make test",
        "env --chdir=sub make test",
        "sudo -D sub make test",
        "source x; make test",
        "cd sub && cd .. && make test",
        "cd .. && make test",
        "cd /etc && make test",
    ],
)
def test_rule_does_not_cover_a_command_in_another_folder(root: Path, line: str) -> None:
    others = (
        "cd *",
        "cd",
        "tail *",
        "exit *",
        "pushd *",
        "builtin *",
        "eval *",
        "bash -c *",
        "trap *",
        "find *",
        "env *",
        "sudo *",
    )
    rules = allow("make test", "make *", "make test *", *others, "source *")
    assert decision(root, line, *rules) is ASK
    denied = parse_rule("shell(make test)", DENY)
    assert decision(root, line, denied, mode=PermissionMode.BYPASS) in (DENY, ASK)


@pytest.mark.parametrize(
    ("rules", "line", "folder"),
    [
        (["cd sub && make *"], "make test", "sub"),
        (["cd sub && make test"], "cd sub && make test", "."),
        (["cd sub && make *"], "cd sub && make -j4 test", "."),
        (["cd sub && make *"], "cd ./sub/ && make test", "."),
        (["cd sub && make *", "make *"], "cd sub; make test", "."),
        (["cd sub/deep && make *"], "cd deep && make test", "sub"),
        (["make *"], "cd .. && make test", "sub"),
        (["make *"], "cd {root} && make test", "."),
        (["make *"], "cd {root} && make test", "sub"),
        (["git status *"], "cd {root} && git status -s", "."),
        (["cd sub && git status *"], "cd keys && git status", "."),
        (["echo *"], "cd sub && echo done", "."),
    ],
)
def test_rule_that_names_the_folder_covers_the_command(root: Path, rules: list[str], line: str, folder: str) -> None:
    assert decision(root, line.format(root=root), *allow(*rules), folder=folder) is ALLOW


@pytest.mark.parametrize("denied", ["make test", "make *", "cd sub && make *", "cd sub", "cd *", "* && make test"])
def test_deny_rule_matches_with_and_without_the_folder(root: Path, denied: str) -> None:
    rule = parse_rule(f"shell({denied})", DENY)
    assert decision(root, "cd sub && make test", rule, mode=PermissionMode.BYPASS) is DENY
    expected = PermissionMode.BYPASS
    if denied != "cd sub":
        assert decision(root, "make test", rule, folder="sub", mode=expected) is DENY


def test_lasting_answer_in_a_folder_holds_there_only(root: Path) -> None:
    rules = lasting(root, "git status", folder="sub")
    assert [rule_text(rule) for rule in rules] == ["shell(cd sub && git status *)"]
    assert decision(root, "git status -s", *rules, folder="sub") is ALLOW
    assert decision(root, "cd sub && git status", *rules) is ALLOW
    for folder in (".", "sub/deep", "src"):
        assert decision(root, "git status", *rules, folder=folder) is ASK


@pytest.mark.parametrize(
    ("literal", "expanded"),
    [
        ("rm -rf '{x,/home/u}'", "rm -rf {x,/home/u}"),
        ("echo '{1..3}'", "echo {1..3}"),
        ("rm '*'", "rm *"),
        ("rm a\\*", "rm a*"),
        ('rm "?"', "rm ?"),
        ("rm '[a-z]'", "rm [a-z]"),
        ("rm '~/x'", "rm ~/x"),
        ("rm 'a /home '$x", "rm a /home $x"),
        ("rm *' /home '$x", "rm * /home $x"),
        ("rm a\\ /home$x", "rm a /home$x"),
        ("rm '* /home'", "rm *' /home'"),
    ],
)
def test_lasting_answer_about_a_literal_does_not_cover_what_bash_expands(
    root: Path, literal: str, expanded: str
) -> None:
    rules = lasting(root, literal)
    assert decision(root, literal, *rules) is ALLOW
    assert decision(root, expanded, *rules) is ASK
    assert decision(root, literal, *lasting(root, expanded)) is ASK


def test_rule_that_denies_a_literal_needs_no_quotes(root: Path) -> None:
    denied = (parse_rule("shell(find . -name *.py)", DENY), parse_rule("shell(find . -path '*.md')", DENY))
    for line in ("find . -name '*.py'", r"find . -name \*.py", "find . -path '*.md'"):
        assert decision(root, line, *denied, mode=PermissionMode.BYPASS) is DENY


def test_documentation_lists_every_known_command() -> None:
    text = (Path(__file__).parents[3] / "docs" / "permissions.md").read_text()
    block = text.split("### What a wildcard covers")[1].split("```text\n")[1].split("```")[0]
    entries = [entry.split(" ") for entry in block.replace(",\n", ", ").replace("\n", " ").strip().split(", ")]
    listed = {" ".join((*words, last)) for *words, lasts in entries for last in lasts.split("|")}
    assert listed == {" ".join(words).removesuffix(" *") for words in KNOWN_COMMANDS}


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("line", "others"),
    [
        ("cat <<E\n# x ; y \\\nE\nrm -r src\nE\ntrue", ("rm -r src", "true; rm -r src", "cat < /etc/passwd")),
        ("for x in $(ls); do $x; done; make clean", ("make clean", "$x")),
        ("eval 'odd (syntax'; make > out.txt", ("make", "make > out.txt", "echo a > out.txt")),
        ("f() { rm -r src; }; f < a.txt; cat .env", ("rm -r src", "f", "cat .env", "f < a.txt")),
    ],
)
async def test_lasting_approval_of_a_line_that_is_not_understood_is_for_that_line_alone(
    root: Path, line: str, others: tuple[str, ...]
) -> None:
    hands = hands_on(root)
    hands.tools = Registry(command_tools())
    needs = await hands.access("shell", command=line)
    [rule] = lasting_rules(needs, ALLOW)
    assert rule_text(rule) == f"shell({escape_pattern(line)})"
    policy = Policy(PermissionMode.DEFAULT, [rule])
    assert decide_all(policy, needs).kind is ALLOW
    assert [
        decide_all(policy, await hands.access("shell", command=other)).kind for other in (*others, f"{line}; true")
    ] == [ASK] * (len(others) + 1)
    denied = Policy(PermissionMode.DEFAULT, [rule, *lasting_rules(needs, DENY)[:1]])
    assert decide_all(denied, needs).kind is DENY


@pytest.mark.asyncio
async def test_no_rule_for_a_line_that_is_not_understood_allows_a_change_of_the_configuration(root: Path) -> None:
    hands = hands_on(root)
    hands.tools = Registry(command_tools())
    needs = await hands.access("shell", command=f"f() {{ x; }}; f > {root}/.deputy/settings.json")
    policy = Policy(PermissionMode.DEFAULT, lasting_rules(needs, ALLOW))
    assert decide_all(policy, needs).kind is ASK
