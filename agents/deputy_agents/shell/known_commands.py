"""Known commands, and their options that neither run a program, nor read or write a file that the command does not name
as an operand, nor send data anywhere. A rule with a wildcard covers only these options."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final


class Operands(Enum):
    """What the further words of a command may be under a rule with a wildcard."""

    NONE = "none"
    ONE = "one"
    """One path inside the workspace."""
    PATHS = "paths"
    """Paths inside the workspace, or words that are no paths."""
    TEXT_AND_PATHS = "text+paths"
    """A text, such as a regular expression, and paths inside the workspace."""
    NAMES = "names"
    """Names without special characters, such as the targets of ``make``."""
    REMOTE = "remote"
    """The name of a Git remote, and names of branches."""
    URL = "url"
    """An address to clone from, and a path inside the workspace."""
    ANY = "any"
    """Anything, options too: the program only prints its words."""


@dataclass(frozen=True, slots=True)
class KnownCommand:
    """``words`` are the beginning of the command; ``*`` is any word that is not an option. ``flags`` are options
    without a value, ``valued`` those with one; ``optional`` those that can have one attached. ``is_filter``: its input
    is data that cannot change what it does. ``lasting``: a lasting approval covers further words. ``single_dash``: long
    options may have one dash."""

    words: tuple[str, ...]
    operands: Operands
    flags: frozenset[str]
    valued: frozenset[str]
    optional: frozenset[str]
    is_filter: bool
    lasting: bool
    single_dash: bool


_DIFF: Final = """
-p -u -s -z -a -b -w -W -R -B[ -M[ -C[ -D -U: -S: -G: -l: -c -m --cc --patch --no-patch --unified= --raw
--patch-with-raw
--minimal --patience --histogram --anchored= --diff-algorithm= --stat[ --compact-summary --numstat --shortstat
--dirstat[
--summary --patch-with-stat --name-only --name-status --color[ --no-color --color-moved[ --no-color-moved
--word-diff[ --word-diff-regex= --color-words[ --no-renames --check --full-index --binary --abbrev[ --no-abbrev
--find-renames[ --find-copies[ --find-copies-harder --text --ignore-cr-at-eol --ignore-space-at-eol
--ignore-space-change
--ignore-all-space --ignore-blank-lines --function-context --exit-code --quiet --no-ext-diff --no-textconv
--ignore-submodules[ --src-prefix= --dst-prefix= --no-prefix --diff-filter= --pickaxe-all --pickaxe-regex
--find-object=
--relative[ --no-relative --inter-hunk-context= --merge-base --cached --staged
"""
_LOG: Final = """
-# -n: -i -E -F -P -g -L: -q --oneline --graph --all --decorate[ --no-decorate --max-count= --skip= --since= --after=
--until= --before= --author= --committer= --grep= --all-match --invert-grep --regexp-ignore-case --extended-regexp
--fixed-strings --perl-regexp --merges --no-merges --first-parent --follow --reverse --date= --format= --pretty[
--abbrev-commit --no-abbrev-commit --branches[ --tags[ --remotes[ --topo-order --date-order --author-date-order
--simplify-by-decoration --full-history --ancestry-path --left-right --left-only --right-only --cherry --cherry-pick
--cherry-mark --boundary --walk-reflogs --no-walk[ --parents --children --notes --no-notes --source --relative-date
"""
_CARGO: Final = """
-q -v -r -j: -p: -F: --quiet --verbose --release --workspace --all --all-targets --lib --bins --tests --benches
--examples
--bin= --test= --example= --bench= --package= --exclude= --features= --all-features --no-default-features --jobs=
--keep-going --locked --offline --frozen --message-format= --color= --profile= --no-run --no-fail-fast --doc
"""
_GO: Final = """
-v -x -n -a -race -msan -cover -short -json -failfast -benchmem -trimpath -run: -skip: -count: -timeout: -parallel:
-p:
-bench: -benchtime: -tags: -cpu: -list: -shuffle: -covermode:
"""
_PYTEST: Final = """
-v -q -x -s -l -k: -m: -r: -n: --verbose --quiet --exitfirst --capture= --showlocals --tb= --maxfail= --lf
--last-failed --ff
--failed-first --nf --new-first --sw --stepwise --durations= --durations-min= --collect-only --co --no-header
--no-summary
--color= --strict-markers --strict-config --disable-warnings --runxfail --deselect= --ignore= --timeout=
--numprocesses=
--full-trace --show-capture= --verbosity= --exitfirst --markers --fixtures
"""
_GREP: Final = """
-E -F -G -P -i -v -w -x -c -l -L -o -q -s -b -H -h -n -T -Z -a -I -U -z -# -e: -m: -A: -B: -C: --extended-regexp
--fixed-strings --basic-regexp --perl-regexp --ignore-case --no-ignore-case --invert-match --word-regexp --line-regexp
--count --color[ --colour[ --files-without-match --files-with-matches --max-count= --only-matching --quiet --silent
--no-messages --byte-offset --with-filename --no-filename --line-number --initial-tab --null --text --binary-files=
--after-context= --before-context= --context= --regexp= --line-buffered
"""
_RG: Final = """
-i -s -S -n -N -l -c -w -x -v -F -o -q -H -I -U -P -0 -p -a -e: -g: -t: -T: -A: -B: -C: -m: -M: -j: -r: -d:
--ignore-case
--smart-case --case-sensitive --line-number --no-line-number --files-with-matches --files-without-match --count
--count-matches --word-regexp --line-regexp --invert-match --fixed-strings --only-matching --quiet --with-filename
--no-filename --heading --no-heading --multiline --multiline-dotall --pcre2 --null --pretty --text --json --stats
--trim
--vimgrep --column --no-column --color= --colors= --context= --after-context= --before-context= --glob= --iglob=
--type=
--type-not= --max-count= --max-depth= --max-columns= --max-columns-preview --max-filesize= --sort= --sortr= --threads=
--replace= --regexp= --files --type-list --no-config --no-messages --no-ignore-messages --passthru --byte-offset
--encoding= --engine= --crlf --null-data --one-file-system
"""
_RUFF: Final = """
-q -v -s -n -e --quiet --verbose --silent --no-cache --isolated --statistics --show-files --select= --ignore=
--extend-select= --exclude= --extend-exclude= --output-format= --target-version= --line-length= --no-fix --exit-zero
--diff
--check --preview --no-preview --respect-gitignore --force-exclude --color=
"""
_ESLINT: Final = "--ext= --quiet --max-warnings= --color --no-color --no-warn-ignored --no-inline-config --stats"
_TSC: Final = """
-w -v --noEmit --pretty --strict --watch --skipLibCheck --listFiles --listFilesOnly --traceResolution --showConfig
--diagnostics --extendedDiagnostics --explainFiles --version --noErrorTruncation --preserveWatchOutput
"""
_GIT_STATUS: Final = """
-s -b -v -z -u[ --short --branch --show-stash --porcelain[ --long --verbose --untracked-files[ --ignored[
--ignore-submodules[ --column[ --no-column --ahead-behind --no-ahead-behind --renames --no-renames --find-renames[
"""
_GIT_BLAME: Final = """
-b -c -l -t -s -e -w -f -n -p -L: -M[ -C[ --root --show-stats --porcelain --line-porcelain --incremental --date=
--since=
--show-name --show-number --show-email --abbrev= --color-lines --color-by-age --ignore-rev=
"""
_GIT_FETCH: Final = """
-p -P -t -n -f -v -q -j: -k -a -4 -6 --all --prune --prune-tags --tags --no-tags --depth= --deepen= --unshallow
--shallow-since= --dry-run --force --verbose --quiet --progress --jobs= --multiple --atomic --keep --append
--set-upstream
--no-recurse-submodules --ipv4 --ipv6 --no-auto-gc --no-auto-maintenance --refetch --update-shallow
"""
_GIT_ADD: Final = """
-A -u -n -v -f -N --all --no-all --ignore-removal --update --dry-run --verbose --force --intent-to-add --refresh
--ignore-errors --renormalize --chmod=
"""

_LASTING: Final = f"""
git status | paths filter | {_GIT_STATUS}
git diff | paths filter | {_DIFF}
git log | paths filter | {_LOG} {_DIFF}
git show | paths filter | {_LOG} {_DIFF}
git blame | paths filter | {_GIT_BLAME}
git fetch | remote | {_GIT_FETCH}
git add | paths | {_GIT_ADD}
npm test | none | -s --silent --if-present
npm run * | none | -s --silent --if-present
pnpm test | none | -s --silent --if-present
pnpm run * | none | -s --silent --if-present
yarn test | none | -s --silent
yarn run * | none | -s --silent
just * | none | -n -q --dry-run --quiet
npx tsc | paths | {_TSC}
tsc | paths | {_TSC}
npx eslint | paths | {_ESLINT}
eslint | paths | {_ESLINT}
prettier | paths | -c -l --check --list-different --log-level= --no-color --color
cargo build | none | {_CARGO}
cargo check | none | {_CARGO}
cargo test | names | {_CARGO}
cargo clippy | none | {_CARGO} --no-deps
cargo fmt | none | -q -v -p: --quiet --verbose --check --all --package=
go build | paths single | {_GO}
go test | paths single | {_GO}
go vet | paths single | {_GO}
go fmt | paths single | -n -x
pytest | paths | {_PYTEST}
python -m pytest | paths | {_PYTEST}
python3 -m pytest | paths | {_PYTEST}
uv run pytest | paths | {_PYTEST}
ruff check | paths | {_RUFF}
ruff format | paths | {_RUFF}
mypy | paths | -v -p: -m: --strict --pretty --no-color-output --show-error-codes --hide-error-codes
  --ignore-missing-imports
  --no-incremental --check-untyped-defs --python-version= --platform= --show-error-context --show-column-numbers
  --show-error-end --warn-unreachable --disallow-untyped-defs --follow-imports= --explicit-package-bases --package=
  --module= --exclude= --no-error-summary --verbose
pyright | paths | --stats --verbose --outputjson --warnings --level= --skipunannotated
gradle test | none | -q -s -i --quiet --info --offline --stacktrace --continue --parallel --no-daemon --console=
  --no-rebuild
mvn test | none | -q -B -o -e --batch-mode --offline --quiet --errors --no-transfer-progress
dotnet build | paths | --no-restore --nologo --verbosity= --configuration= --framework= --no-incremental
dotnet test | paths | -t --no-restore --no-build --nologo --verbosity= --configuration= --framework= --filter=
  --list-tests
ctest | none single | -N -V -VV -Q -j: -R: -E: -L: -LE: -I: -C: --output-on-failure --parallel= --timeout=
  --rerun-failed
  --stop-on-failure --progress --verbose --extra-verbose --show-only --no-tests= --tests-regex= --exclude-regex=
ls | paths filter | -a -A -b -B -c -C -d -f -F -g -G -h -H -i -k -l -L -m -n -N -o -p -q -Q -r -R -s -S -t -u -U -v
  -x -X -Z
  -1 -I: -w: -T: --all --almost-all --author --color[ --classify[ --directory --group-directories-first
  --human-readable
  --inode --recursive --reverse --size --sort= --time= --time-style= --full-time --no-group --si --indicator-style=
  --width=
  --ignore= --hide= --block-size=
wc | paths filter | -c -m -l -L -w --bytes --chars --lines --words --max-line-length
pwd | none filter | -L -P
rg | text+paths filter | {_RG}
grep | text+paths filter | {_GREP}
cat | paths filter | -A -b -e -E -n -s -t -T -u -v --show-all --number-nonblank --show-ends --number --squeeze-blank
  --show-tabs --show-nonprinting
head | paths filter | -# -c: -n: -q -v -z --bytes= --lines= --quiet --silent --verbose --zero-terminated
tail | paths filter | -# -c: -n: -q -v -z -f -F -s: --bytes= --lines= --quiet --silent --verbose --zero-terminated
  --follow[
  --retry
which | names filter | -a
file | paths | -b -i -h -k --brief --mime --mime-type --mime-encoding --no-dereference
stat | paths filter | -c: -f -t --format= --printf= --terse --file-system
du | paths filter | -s -h -a -c -d: -k -m -b -x -S --max-depth= --summarize --human-readable --apparent-size
  --exclude=
  --total --si
tree | paths filter | -a -d -L: -I: -P: -f -i -s -h -D -F -C -n -p -u -g -r -t --dirsfirst --noreport --prune
  --gitignore --du
"""
"""``words | operands and properties | options``. After an option, ``:`` or ``=`` stands for a value, ``[`` for a value
that is attached or absent; ``-#`` is any number. A lasting approval covers further words."""

_OTHERS: Final = f"""
make | names | -j[ -k -s -n -B -i -q -r -R -w -l[ -O[ --jobs[ --keep-going --silent --quiet --dry-run --just-print
  --always-make --ignore-errors --question --no-print-directory --print-directory --output-sync[ --load-average[
just | none | -l --list --summary --version
egrep | text+paths filter | {_GREP}
fgrep | text+paths filter | {_GREP}
git clone | url | -q -v -n -b: -s -l --quiet --verbose --progress --no-checkout --branch= --depth= --single-branch
  --bare
  --mirror --no-tags --shallow-since= --no-hardlinks
git pull | remote | {_GIT_FETCH} -r[ --rebase[ --no-rebase --ff --no-ff --ff-only --squash --no-squash --commit
  --no-commit
  --stat --no-stat --autostash --no-autostash --no-edit
git push | remote | -u -f -n -v -q -d --set-upstream --force --force-with-lease[ --force-if-includes --dry-run
  --verbose
  --quiet --all --mirror --tags --follow-tags --delete --atomic --prune --porcelain --progress --no-verify -4 -6
git ls-remote | remote | -h -t -q --heads --tags --refs --quiet --exit-code --get-url --sort= --symref
git rebase | names | -q -v -f --quiet --verbose --stat --no-stat --onto= --abort --quit --autosquash
  --no-autosquash --autostash --no-autostash --keep-base --root --force-rebase --no-ff --fork-point --rebase-merges[
git grep | text+paths filter | {_GREP} -p -W --cached --untracked --show-function --function-context
  --all-match
  --break --heading --and --or --not --name-only --full-name
git rev-parse | paths filter | -q --verify --short[ --abbrev-ref[ --show-toplevel --show-prefix --show-cdup --git-dir
  --absolute-git-dir --is-inside-work-tree --is-bare-repository --symbolic-full-name --quiet --show-current
git ls-files | paths filter | -z -t -v -f -c -d -m -o -i -s -u --cached --deleted --modified --others --ignored
  --stage
  --unmerged --exclude-standard --full-name --error-unmatch --abbrev[ --deduplicate --directory
sort | paths filter | -b -d -f -g -h -i -M -n -R -r -u -V -z -s -c -C -m -k: -t: --ignore-leading-blanks
  --dictionary-order
  --ignore-case --general-numeric-sort --human-numeric-sort --numeric-sort --reverse --unique --version-sort
  --zero-terminated --stable --check[ --merge --key= --field-separator= --parallel= --sort=
uniq | one filter | -c -d -D -i -u -z -f: -s: -w: --count --repeated --all-repeated[ --ignore-case --unique
  --skip-fields=
  --skip-chars= --check-chars= --zero-terminated --group[
cut | paths filter | -b: -c: -d: -f: -n -s -z --bytes= --characters= --delimiter= --fields= --complement
  --only-delimited
  --output-delimiter= --zero-terminated
tr | any filter |
jq | text+paths filter | -r -c -n -s -S -e -a -j -M -C -R --raw-output --compact-output --null-input --slurp
  --sort-keys
  --exit-status --ascii-output --join-output --monochrome-output --color-output --tab --indent= --raw-input --stream
  --seq
comm | paths filter | -1 -2 -3 -i -z --check-order --nocheck-order --total --zero-terminated --output-delimiter=
cmp | paths filter | -b -i: -l -n: -s --print-bytes --ignore-initial= --verbose --bytes= --quiet --silent
diff | paths filter | -q -s -c -C: -u -U: -e -n -y -r -N -i -E -b -w -B -a -t -T -d -p --brief
  --report-identical-files
  --context[ --unified[ --side-by-side --width= --recursive --new-file --ignore-case --ignore-space-change
  --ignore-all-space --ignore-blank-lines --text --minimal --color[ --suppress-common-lines --strip-trailing-cr
paste | paths filter | -d: -s -z --delimiters= --serial --zero-terminated
nl | paths filter | -b: -d: -f: -h: -i: -l: -n: -p -s: -v: -w:
tac | paths filter | -b -r -s:
rev | paths filter |
fold | paths filter | -b -s -w: --bytes --spaces --width=
expand | paths filter | -i -t:
unexpand | paths filter | -a -t:
column | paths filter | -t -s: -o: -c: -n -x --table --separator= --output-separator=
md5sum | paths filter | -b -t -z
sha1sum | paths filter | -b -t -z
sha256sum | paths filter | -b -t -z
sha512sum | paths filter | -b -t -z
basename | any filter |
dirname | any filter |
realpath | paths filter | -e -m -L -P -q -s -z --relative-to= --relative-base=
readlink | paths filter | -f -e -m -n -q -s -v -z
echo | any filter |
printf | any filter |
true | any filter |
false | any filter |
sleep | any filter |
date | names filter | -u -I[ -R -d: --utc --universal --date= --iso-8601[ --rfc-3339= --rfc-email
"""
"""As above; a lasting approval covers exactly the same words."""

WITH_SUBCOMMANDS: Final = frozenset({"git", "npm", "pnpm", "yarn", "cargo", "go", "dotnet", "gradle", "mvn", "ruff"})
"""Programs whose wildcard covers only known subcommands: a rule must name any other, as in ``git rebase *``."""


def find_command(texts: tuple[str, ...]) -> KnownCommand | None:
    """The known command with which ``texts``, the words of a command, begin: the longest one."""
    words = longest_beginning(texts, KNOWN_COMMANDS)
    return None if words is None else KNOWN_COMMANDS[words]


def longest_beginning(texts: tuple[str, ...], among: Collection[tuple[str, ...]]) -> tuple[str, ...] | None:
    """The longest of the beginnings ``among`` that ``texts`` have; ``*`` in one is any word that is not an option."""
    for length in range(min(len(texts), max(map(len, among))), 0, -1):
        start = texts[:length]
        if start in among:
            return start
        if length > 1 and not start[-1].startswith("-") and (wild := (*start[:-1], "*")) in among:
            return wild
    return None


def read_table(table: str, *, lasting: bool) -> Iterator[tuple[KnownCommand, Collection[str]]]:
    """The commands in the lines of ``table``, and the properties of each."""
    entries: list[str] = []
    for line in table.strip().split("\n"):
        if line.count("|") == 2:
            entries.append(line)
        else:
            entries[-1] += f" {line}"
    for entry in entries:
        words, properties, options = (part.split() for part in entry.split("|"))
        command = KnownCommand(
            tuple(words),
            Operands(properties[0]),
            frozenset(one for one in options if one[-1] not in ":=["),
            frozenset(one[:-1] for one in options if one[-1] in ":="),
            frozenset(one[:-1] for one in options if one[-1] == "["),
            "filter" in properties,
            lasting,
            "single" in properties,
        )
        yield command, properties


KNOWN_COMMANDS: Final[Mapping[tuple[str, ...], KnownCommand]] = {
    command.words: command for command, _ in (*read_table(_LASTING, lasting=True), *read_table(_OTHERS, lasting=False))
}
