"""Answering a question: search, read around the best hits, cite them."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import dropwhile, islice, takewhile

from deputy_agents.domain.message import ToolUse
from deputy_agents.model.offline.turn import Call, Hit, Move, Turn, hits_of, names_of, numbered_lines, use
from deputy_agents.model.offline.words import escaped, is_path, keywords, loosened, quoted, search_names

RULE_BASED = "rule-based search, no language model"

_DEFINES = (
    r"\b(class|def|fn|func|function|struct|enum|interface|trait|type|const|let|var|val|module|namespace|macro)\s+\w*"
)
_DEFINITION = re.compile(
    r"\s*(@|(?:async |export |public |static |pub )*(class|def|fn|func|function|struct|enum|type)\b)"
)
_IMPORT = re.compile(r"\s*(from|import|use|using|require|include|#include)\b")
_ASSIGNS = r"^\s*(export\s+|public\s+|static\s+|final\s+|self\.)*\w*"
_DOCS = "*.{md,rst,txt,adoc}"
_MANIFESTS = "{pyproject.toml,setup.py,package.json,Cargo.toml,go.mod,Makefile,pom.xml,build.gradle,CMakeLists.txt}"
_ENTRY = r"__main__|\bfn main\b|\bfunc main\b|\bint main\b|\bdef main\b|\bpublic static void main\b|createServer\("
_ASIDE = re.compile(
    r"(^|/)(tests?|specs?|docs?|examples?)(/|$)|test|spec|\.(md|rst|txt|adoc|json|toml|ya?ml|cfg|ini)$", re.IGNORECASE
)
_README = re.compile(r"(^|/)readme[^/]*$", re.IGNORECASE)
_STARTS = re.compile(
    r"\s*+((pub |async |export )*(def|fn|func|int) main\b|if __name__ *==|public static void main\b|.*createServer\()"
)
_NOISE = re.compile(
    r"(^|/)(licen[cs]e|copying|notice|authors)[^/]*$|\.(lock|svg|map|snap|csv|min\.\w+)$"
    r"|(^|/)(dist|build|vendor|node_modules)/|-lock\.json$",
    re.IGNORECASE,
)

_MAX_READS = 3
_MAX_CITED = 8
_MAX_LISTED = 20
_BEFORE, _WINDOW = 2, 12
_QUOTE_LENGTH = 100
_PROSE_LENGTH = 240


@dataclass(frozen=True, slots=True)
class SearchKind:
    """A kind of search. Instructions start with ``title`` and continue with ``task``; ``first`` returns the first tool
    calls, and hits for which ``fits`` is true are ranked first."""

    title: str
    task: str
    first: Callable[[Sequence[str]], Iterable[ToolUse]]
    fits: Callable[[Hit], bool] = lambda hit: True


def _alternatives(words: Sequence[str]) -> str:
    return "(" + "|".join(escaped(word) for word in words) + ")"


def _definitions(words: Sequence[str]) -> Iterable[ToolUse]:
    either = _alternatives(words)
    yield use("grep", pattern=rf"(?i){_DEFINES}{either}")
    yield use("grep", pattern=rf"(?i){_ASSIGNS}{either}\w*\s*(:[^=]+)?=[^=]")


def _usages(words: Sequence[str]) -> Iterable[ToolUse]:
    yield use("grep", pattern=rf"(?i){_alternatives(words)}")


def _tests_and_docs(words: Sequence[str]) -> Iterable[ToolUse]:
    for files in ("*test*", "**/tests/**", _DOCS):
        yield use("grep", pattern=rf"(?i){_alternatives(words)}", glob=files)


def _anywhere(words: Sequence[str]) -> Iterable[ToolUse]:
    yield from _definitions(words)
    yield from _usages(words)


def _layout(_words: Sequence[str]) -> Iterable[ToolUse]:
    yield use("list_dir", path=".")
    yield use("glob", pattern=f"**/{_MANIFESTS}")


def _documentation(_words: Sequence[str]) -> Iterable[ToolUse]:
    yield use("grep", pattern=r"^#{1,2} \S", glob="*.md")


def _entry_points(_words: Sequence[str]) -> Iterable[ToolUse]:
    yield use("grep", pattern=_ENTRY)


def is_noise(path: str) -> bool:
    """Whether the file ``path`` seldom answers a question: a licence, or generated."""
    return _NOISE.search(path) is not None


def _in_code(hit: Hit) -> bool:
    return _ASIDE.search(hit.path) is None


def _defines(hit: Hit) -> bool:
    return _in_code(hit) and _DEFINITION.match(hit.text) is not None


def _uses(hit: Hit) -> bool:
    return _in_code(hit) and _DEFINITION.match(hit.text) is None and _IMPORT.match(hit.text) is None


def _in_readme(hit: Hit) -> bool:
    return _README.search(hit.path) is not None


def _starts(hit: Hit) -> bool:
    return _in_code(hit) and _STARTS.match(hit.text) is not None


DEFINITIONS = SearchKind("Definitions", "Find where these are defined.", _definitions, _defines)
USAGES = SearchKind("Usages", "Find where these are used or called.", _usages, _uses)
TESTS_AND_DOCS = SearchKind(
    "Tests and docs", "Find tests and documentation that mention these.", _tests_and_docs, lambda hit: not _in_code(hit)
)
LAYOUT = SearchKind("Layout", "List the contents of the workspace.", _layout)
DOCUMENTATION = SearchKind("Documentation", "Find the documentation of the workspace.", _documentation, _in_readme)
ENTRY_POINTS = SearchKind("Entry points", "Find where the program starts.", _entry_points, _starts)
_GENERAL = SearchKind("Places", "", _anywhere, _in_code)
_SEARCH_KINDS = (DEFINITIONS, USAGES, TESTS_AND_DOCS, LAYOUT, DOCUMENTATION, ENTRY_POINTS)


def search_instructions(kind: SearchKind, words: Sequence[str], request: str) -> str:
    """The instructions for a sub-agent, in a form that :func:`search_step` parses."""
    about = ", ".join(f'"{word}"' for word in words) or "the workspace"
    return f"{kind.title} of {about}. {kind.task} Cite files with line ranges.\n\nThe question: {request}"


def search_step(turn: Turn) -> Move:
    """The next step of a search."""
    kind, words = _parse_task(turn.task)
    hits = _ranked(turn, kind, words)
    if turn.rounds == 0:
        steps = _available(turn, _first(kind, words))
    elif turn.rounds == 1 and not hits and kind is not LAYOUT:
        steps = _available(turn, _wider(words))
    elif not turn.made("read_file"):
        steps = _available(turn, _reads(turn, hits))
    else:
        steps = ()
    if steps:
        return Move(_announcement(steps, words), steps)
    return Move(_answer(turn, kind, words, hits))


def _first(kind: SearchKind, words: Sequence[str]) -> Iterable[ToolUse]:
    """The first tool calls. A path among the words limits the search for others, and is read if there are none."""
    names, paths = search_names(words), [word for word in words if is_path(word)]
    if len(paths) != 1 or kind not in {DEFINITIONS, USAGES, _GENERAL}:
        yield from kind.first(names)
    elif len(words) > 1:
        for step in kind.first(names):
            yield use(step.name, **step.input, path=paths[0])
    elif kind is USAGES:
        yield from kind.first(names)
    else:
        yield use("grep", pattern=rf"(?i){_DEFINES}", path=paths[0])


def _parse_task(task: str) -> tuple[SearchKind, tuple[str, ...]]:
    """The kind of search and its words, from :func:`search_instructions` or any other text."""
    line = task.partition("\n")[0]
    for kind in _SEARCH_KINDS:
        if line.startswith(f"{kind.title} of "):
            return kind, quoted(line)
    words = keywords(task)
    return (_GENERAL if words else LAYOUT), words


def _available(turn: Turn, steps: Iterable[ToolUse]) -> tuple[ToolUse, ...]:
    return tuple(step for step in steps if step.name in turn.tools)


def _announcement(steps: Sequence[ToolUse], words: Sequence[str]) -> str:
    if steps[0].name == "read_file":
        return "Reading the best matches."
    about = ", ".join(f"`{word}`" for word in words)
    return f"Searching for {about}." if about else "Listing the workspace."


def _wider(words: Sequence[str]) -> Iterable[ToolUse]:
    if stems := loosened(tuple(words)):
        yield use("grep", pattern=rf"(?i){_alternatives(stems)}")
        for stem in stems[:2]:
            yield use("glob", pattern=f"**/*{stem}*")
    yield use("list_dir", path=".")


def _reads(turn: Turn, hits: Sequence[Hit]) -> Iterable[ToolUse]:
    best: dict[str, Hit] = {}
    for hit in [hit for hit in hits if not is_noise(hit.path)] or hits:
        best.setdefault(hit.path, hit)
    for hit in islice(best.values(), _MAX_READS):
        yield use("read_file", path=hit.path, offset=max(1, hit.line - _BEFORE), limit=_WINDOW)
    if not best:
        found = [name for call in turn.made("glob") for name in names_of(call)]
        for path in found[:_MAX_READS]:
            yield use("read_file", path=path, offset=1, limit=_WINDOW)


def _ranked(turn: Turn, kind: SearchKind, words: Sequence[str]) -> list[Hit]:
    """All hits, the best first: those that fit the kind of search, in sources and the README before tests and
    documents, in files with more of the words, near the top of the tree."""
    hits = list(dict.fromkeys(hit for call in turn.made("grep") for hit in hits_of(call)))
    words_in: dict[str, set[str]] = {}
    for hit in hits:
        words_in.setdefault(hit.path, set()).update(_contained(f"{hit.path} {hit.text}", words))

    def rank(hit: Hit) -> tuple[bool | int, ...]:
        here = sum(re.search(rf"\b{re.escape(word)}\b", hit.text, re.IGNORECASE) is not None for word in words)
        aside = not (_in_code(hit) or _in_readme(hit))
        depth = hit.path.count("/")
        return is_noise(hit.path), not kind.fits(hit), aside, -here, -len(words_in[hit.path]), depth

    return sorted(hits, key=rank)


def _contained(text: str, words: Sequence[str]) -> set[str]:
    text = text.casefold()
    return {word for word in words if word.casefold() in text}


# -- the answer ----------------------------------------------------------------------------------------------------


def _answer(turn: Turn, kind: SearchKind, words: Sequence[str], hits: Sequence[Hit]) -> str:
    about = ", ".join(f"`{word}`" for word in words) or "the workspace"
    cited = _cited(turn, hits)
    listing = _listing(turn)
    if not turn.calls:
        return "I have no search tool, so I cannot answer."
    if kind is LAYOUT:
        return "\n".join([f"Layout of the workspace ({RULE_BASED}):", f"- {listing}", *cited])
    if cited:
        opening = f"Nothing found for {about} itself, but for parts of it" if listing else f"{kind.title} for {about}"
        return "\n".join([f"{opening} ({RULE_BASED}):", "", *cited])
    failed = next((call.result.partition("\n")[0] for call in turn.made("grep") if call.is_error), "")
    reason = f" The search failed: {failed}" if failed else ""
    return f"{kind.title} for {about}: nothing found ({RULE_BASED}).{reason} {listing}".rstrip()


def _cited(turn: Turn, hits: Sequence[Hit]) -> list[str]:
    lines: list[str] = []
    covered: set[Hit] = set()
    for call in turn.made("read_file"):
        path, text = call.text("path"), numbered_lines(call)
        hit = next((hit for hit in hits if hit.path == path and hit.line in text), None)
        hit = hit or next((Hit(path, number, line) for number, line in text.items() if line.strip()), None)
        if hit is None:
            continue
        covered.add(hit)
        headed = hit.text.startswith("#") and _README.search(path) is not None
        end, prose = _below(text, hit.line) if headed else (hit.line, "")
        lines.append(_bullet(hit, end) + prose)
    rest = [hit for hit in hits if hit not in covered]
    return lines + [_bullet(hit, hit.line) for hit in rest[: _MAX_CITED - len(lines)]]


def _below(text: Mapping[int, str], heading: int) -> tuple[int, str]:
    """The first paragraph below a heading, and its last line: in a README, the description of the project."""
    after = dropwhile(lambda number: not text[number].strip(), (number for number in sorted(text) if number > heading))
    paragraph = list(takewhile(lambda number: text[number].strip(), after))
    prose = _cut(" ".join(text[number].strip() for number in paragraph), _PROSE_LENGTH)
    return (paragraph[-1], f" — {prose}") if prose[:1].isalnum() else (heading, "")


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[:most].rstrip() + "…"


def _bullet(hit: Hit, end: int) -> str:
    quote = _cut(hit.text.strip().replace("`", "'"), _QUOTE_LENGTH)
    reference = f"{hit.path}:{hit.line}" + (f"-{end}" if end > hit.line else "")
    return f"- `{reference}` — `{quote}`" if quote else f"- `{reference}`"


def _listing(turn: Turn) -> str:
    listed: list[Call] = turn.made("list_dir")
    if not listed:
        return ""
    names = names_of(listed[-1])
    if not names:
        return "The workspace is empty."
    more = f" and {len(names) - _MAX_LISTED} more" if len(names) > _MAX_LISTED else ""
    return "The top level contains " + ", ".join(f"`{name}`" for name in names[:_MAX_LISTED]) + f"{more}."
