"""Commands that only read, and the options with which they do: they run no program, write no file, send nothing, and
end by themselves. Every word that is not listed here makes a command one that needs approval."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from deputy_agents.shell.known_commands import KnownCommand, longest_beginning, read_table

HISTORY: Final = """
-# -n: -i -E -F -P -g -q --oneline --graph --all --decorate[ --no-decorate --max-count= --skip= --since= --after=
--until= --before= --author= --committer= --grep= --all-match --invert-grep --regexp-ignore-case --extended-regexp
--fixed-strings --perl-regexp --merges --no-merges --first-parent --follow --reverse --date= --format= --pretty[
--abbrev-commit --no-abbrev-commit --branches[ --tags[ --remotes[ --topo-order --date-order --author-date-order
--simplify-by-decoration --full-history --ancestry-path --left-right --left-only --right-only --cherry --cherry-pick
--cherry-mark --boundary --walk-reflogs --no-walk[ --parents --children --source --relative-date
"""
"""Options of Git about commits."""
NAMES_ONLY: Final = """
-S: -G: --pickaxe-all --pickaxe-regex --stat[ --compact-summary --numstat --shortstat --dirstat[ --summary --name-only
--name-status --color[ --no-color --no-renames --find-renames[ --abbrev[ --no-abbrev --diff-filter= --no-patch -s -M[
--no-ext-diff --no-textconv
"""
"""Options of Git about changes with which it shows no line of a file."""
SUMMARIES: Final = frozenset(
    "--stat --compact-summary --numstat --shortstat --dirstat --summary --name-only --name-status".split()  # noqa: SIM905
)
"""Those of them that replace the lines that Git would show."""
_CHANGES: Final = f"""
{NAMES_ONLY} -p -u -z -a -b -w -W -B[ -C[ -U: -m -c --cc --patch --unified= --patch-with-stat --minimal --patience
--histogram --diff-algorithm= --color-moved[ --no-color-moved --word-diff[ --color-words[ --full-index
--find-copies[ --text --ignore-cr-at-eol --ignore-space-at-eol --ignore-space-change --ignore-all-space
--ignore-blank-lines --function-context --src-prefix= --dst-prefix= --no-prefix --inter-hunk-context=
"""
_GREP: Final = """
-E -F -G -P -i -v -w -x -c -l -L -o -q -s -b -H -h -n -T -a -I -# -e: -m: -A: -B: -C: --extended-regexp
--fixed-strings --basic-regexp --perl-regexp --ignore-case --no-ignore-case --invert-match --word-regexp --line-regexp
--count --color[ --colour[ --files-without-match --files-with-matches --max-count= --only-matching --quiet --silent
--no-messages --byte-offset --with-filename --no-filename --line-number --initial-tab --text --after-context=
--before-context= --context= --regexp= --line-buffered
"""
_TABLE: Final = f"""
ls | paths | -a -A -b -B -c -C -d -f -F -g -G -h -i -k -l -m -n -N -o -p -q -Q -r -R -s -S -t -u -U -v -x -X -1 --all
  --almost-all --author --color[ --classify[ --directory --group-directories-first --human-readable --inode --recursive
  --reverse --size --sort= --time= --time-style= --full-time --no-group --si --width=
pwd | none | -L -P
cat | paths content | -A -b -e -E -n -s -t -T -u -v --show-all --number-nonblank --show-ends --number --squeeze-blank
  --show-tabs --show-nonprinting
head | paths content | -# -c: -n: -q -v --bytes= --lines= --quiet --silent --verbose
tail | paths content | -# -c: -n: -q -v --bytes= --lines= --quiet --silent --verbose
wc | paths content | -c -m -l -L -w --bytes --chars --lines --words --max-line-length
nl | paths content | -b: -n: -s: -v: -w:
tac | paths content |
rev | paths content |
fold | paths content | -b -s -w: --bytes --spaces --width=
cut | paths content | -b: -c: -d: -f: -n -s --bytes= --characters= --delimiter= --fields= --complement --only-delimited
  --output-delimiter=
tr | any |
sort | paths content | -b -d -f -g -h -i -M -n -R -r -u -V -s -c -C -m -k: -t: --ignore-leading-blanks
  --dictionary-order --ignore-case --general-numeric-sort --human-numeric-sort --numeric-sort --reverse --unique
  --version-sort --stable --check[ --merge --key= --field-separator= --sort=
uniq | one content | -c -d -D -i -u -f: -s: -w: --count --repeated --all-repeated[ --ignore-case --unique --skip-fields=
  --skip-chars= --check-chars= --group[
paste | paths content | -d: -s --delimiters= --serial
comm | paths content | -1 -2 -3 -i --check-order --nocheck-order --total --output-delimiter=
cmp | paths content | -b -i: -l -n: -s --print-bytes --ignore-initial= --verbose --bytes= --quiet --silent
diff | paths content | -q -s -c -C: -u -U: -e -n -y -i -E -b -w -B -a -t -T -d -p --brief --report-identical-files
  --context[ --unified[ --side-by-side --width= --ignore-case --ignore-space-change --ignore-all-space
  --ignore-blank-lines --text --minimal --color[ --suppress-common-lines --strip-trailing-cr
column | paths content | -t -s: -o: -c: -n -x --table --separator= --output-separator=
md5sum | paths content | -b -t
sha1sum | paths content | -b -t
sha256sum | paths content | -b -t
sha512sum | paths content | -b -t
grep | text+paths content | {_GREP}
egrep | text+paths content | {_GREP}
fgrep | text+paths content | {_GREP}
rg | text+paths folders | -i -s -S -n -N -l -c -w -x -v -F -o -q -H -I -U -P -p -e: -g: -t: -T: -A: -B: -C: -m: -M: -r:
  -d: --ignore-case --smart-case --case-sensitive --line-number --no-line-number --files-with-matches
  --files-without-match --count --count-matches --word-regexp --line-regexp --invert-match --fixed-strings
  --only-matching --quiet --with-filename --no-filename --heading --no-heading --multiline --multiline-dotall --pcre2
  --pretty --json --stats --trim --vimgrep --column --no-column --color= --context= --after-context= --before-context=
  --glob= --iglob= --type= --type-not= --max-count= --max-depth= --max-columns= --max-columns-preview --max-filesize=
  --sort= --sortr= --replace= --regexp= --files --type-list --no-config --no-messages --passthru --byte-offset
jq | text+paths content | -r -c -n -s -S -e -a -j -M -C -R --raw-output --compact-output --null-input --slurp
  --sort-keys --exit-status --ascii-output --join-output --monochrome-output --color-output --tab --indent=
  --raw-input
file | paths content | -b -i -h -k --brief --mime --mime-type --mime-encoding --no-dereference
stat | paths | -c: -f -t --format= --printf= --terse --file-system
du | paths | -s -h -a -c -d: -k -m -b -x -S --max-depth= --summarize --human-readable --apparent-size --total --si
tree | paths | -a -d -L: -I: -P: -f -i -s -h -D -F -C -n -p -u -g -r -t --dirsfirst --noreport --prune --gitignore --du
which | names | -a
command -v | names |
basename | any |
dirname | any |
realpath | paths | -e -m -L -P -q -s --relative-to= --relative-base=
readlink | paths | -f -e -m -n -q -s -v
echo | any |
printf | text+paths |
true | none |
false | none |
date | none |
sed | none |
find | none |
git status | paths | -s -b -v -z -u[ --short --branch --show-stash --porcelain[ --long --untracked-files[ --ignored[
  --no-column --ahead-behind --no-ahead-behind --renames --no-renames
git diff | paths changes | {_CHANGES} --cached --staged --merge-base
git log | paths changes | {HISTORY} {_CHANGES}
git show | paths changes | {HISTORY} {_CHANGES}
git blame | paths content | -b -c -l -t -s -e -w -f -n -L: --root --show-stats --date= --since= --show-name
  --show-number --show-email --abbrev=
git branch | none | -a -r -v -l --all --remotes --verbose --list --show-current --contains= --no-contains= --merged=
  --no-merged= --sort= --format= --no-color --no-column
git tag | none | -l --list --sort= --contains= --merged= --no-merged= --no-column
git stash list | none | -# -n:
git rev-parse | paths | -q --verify --short[ --abbrev-ref[ --show-toplevel --show-prefix --show-cdup --git-dir
  --absolute-git-dir --is-inside-work-tree --is-bare-repository --symbolic-full-name --quiet
git rev-list | paths | -# -n: --count --max-count= --all --since= --until= --author= --no-merges --merges --first-parent
git ls-files | paths | -t -v -f -c -d -m -o -i -u --cached --deleted --modified --others --ignored --exclude-standard
  --full-name --error-unmatch --deduplicate --directory
git describe | paths | --tags --always --all --long --abbrev= --exact-match --contains
git shortlog | paths | -s -n -e --summary --numbered --email
"""
"""``words | operands and properties | options``, as in the table of known commands. ``content``: the lines of the files
that the operands name are shown. ``folders``: so are those of the files below them. ``changes``: so are changes of
files. ``date``, ``sed`` and ``find`` have a syntax of their own, which ``reading.py`` reads."""

WITH_VERSION: Final = frozenset(
    """clang clang++ cmake find g++ gcc git grep jq ls make node python python3 rg sed
    """.split()  # noqa: SIM905 - a list of names
)
"""Programs that print their version with ``--version`` and then do nothing else, whatever is in their folder. Not those
that first look for another version of themselves there, such as ``cargo``, ``go``, ``npm`` and ``yarn``."""


@dataclass(frozen=True, slots=True)
class ReadingCommand:
    """``known`` has the words, options and operands. The others are the properties of the table."""

    known: KnownCommand
    content: bool
    folders: bool
    changes: bool


def find_reading_command(texts: tuple[str, ...]) -> ReadingCommand | None:
    """The command with which ``texts``, the words of a command, begin."""
    words = longest_beginning(texts, READING_COMMANDS)
    return None if words is None else READING_COMMANDS[words]


def _read() -> Iterable[ReadingCommand]:
    for known, properties in read_table(_TABLE, lasting=False):
        yield ReadingCommand(known, *(name in properties for name in ("content", "folders", "changes")))


READING_COMMANDS: Final[Mapping[tuple[str, ...], ReadingCommand]] = {one.known.words: one for one in _read()}
