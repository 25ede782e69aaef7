"""Replacing a text: search, read the files, edit each one, report."""

import re
from collections.abc import Iterator, Sequence

from deputy_agents.domain.message import ToolUse
from deputy_agents.model.offline.turn import Call, Hit, Move, Turn, hits_of, numbered_lines, use
from deputy_agents.model.offline.words import Replacement, escaped

_MAX_FILES = 20
_MAX_LINES = 8


def edit_instructions(wanted: Replacement) -> str:
    """The instructions for a sub-agent."""
    return (
        f"{wanted}.\n\nFind every occurrence, read the files, and edit each one. Report what was changed and what not."
    )


def replace_step(turn: Turn, wanted: Replacement) -> Move:
    """The next step of a replacement."""
    if "grep" not in turn.tools:
        return Move("I have no search tool, so I cannot replace anything.")
    if not (searches := turn.made("grep")):
        where = {"path": wanted.path} if wanted.path else {}
        return Move(f"Searching for `{wanted.old}`.", (use("grep", pattern=_pattern(wanted), **where),))
    hits = _by_file(searches)
    if not hits:
        return Move(_nothing(searches[-1], wanted))
    if not {"read_file", "edit_file"} <= turn.tools:
        return Move(_listed("I have no tool to edit files. These places would change:", hits))
    if not (reads := turn.made("read_file")):
        return Move("Reading the files.", tuple(use("read_file", path=path) for path in list(hits)[:_MAX_FILES]))
    edits = turn.made("edit_file")
    if not edits and (steps := tuple(_edits(reads, wanted))):
        return Move(f"{wanted}.", steps)
    return Move(_report(wanted, hits, reads, edits))


def _pattern(wanted: Replacement) -> str:
    literal = escaped(wanted.old)
    return rf"\b{literal}\b" if wanted.whole_words else literal


def _by_file(searches: Sequence[Call]) -> dict[str, list[Hit]]:
    found: dict[str, list[Hit]] = {}
    for hit in dict.fromkeys(hit for call in searches for hit in hits_of(call)):
        found.setdefault(hit.path, []).append(hit)
    return found


def _edits(reads: Sequence[Call], wanted: Replacement) -> Iterator[ToolUse]:
    for call in reads:
        lines = numbered_lines(call)
        if not lines:
            continue
        path, text = call.text("path"), "\n".join(lines[number] for number in sorted(lines))
        words = len(re.findall(_pattern(wanted), text))
        if not wanted.whole_words or words == text.count(wanted.old):
            yield use("edit_file", path=path, old_string=wanted.old, new_string=wanted.new, replace_all=True)
        elif words:
            old, new = _block(text, wanted)
            yield use("edit_file", path=path, old_string=old, new_string=new)


def _block(text: str, wanted: Replacement) -> tuple[str, str]:
    """The smallest block of lines that contains all whole words and occurs once, as old and new text. Replacing only
    the word would also change longer names that contain it."""
    pattern = re.compile(_pattern(wanted))
    lines = text.split("\n")
    places = [index for index, line in enumerate(lines) if pattern.search(line)]
    start, end = places[0], places[-1] + 1
    while text.count(old := "\n".join(lines[start:end])) > 1:
        start, end = max(0, start - 1), min(len(lines), end + 1)
    return old, pattern.sub(lambda match: wanted.new, old)


# -- reports -------------------------------------------------------------------------------------------------------


def _nothing(search: Call, wanted: Replacement) -> str:
    if search.is_error:
        return f"The search failed, nothing was changed: {search.result}"
    where = f" in `{wanted.path}`" if wanted.path else ""
    return f"There is no `{wanted.old}`{where}, so there is nothing to change (rule-based search)."


def _report(wanted: Replacement, hits: dict[str, list[Hit]], reads: Sequence[Call], edits: Sequence[Call]) -> str:
    results = {call.text("path"): call for call in (*reads, *edits)}
    done = [call for call in edits if not call.is_error]
    lines = [f"{wanted}: {len(done)} of {len(hits)} files changed (by fixed rules, no language model).", ""]
    for path, places in hits.items():
        lines.append(f"- {_reference(path, places)} — {_outcome(results.get(path))}")
    return "\n".join(lines)


def _outcome(call: Call | None) -> str:
    if call is None:
        return "not changed: there are too many files for one request"
    if not call.is_error:
        return "changed" if call.name == "edit_file" else "not changed: no exact match in its text"
    return f"not changed: {call.result.strip().partition(chr(10))[0]}"


def _reference(path: str, hits: Sequence[Hit]) -> str:
    numbers = sorted(hit.line for hit in hits)
    others = ", ".join(str(number) for number in numbers[1:_MAX_LINES])
    return f"`{path}:{numbers[0]}`" + (f" (also lines {others})" if others else "")


def _listed(heading: str, hits: dict[str, list[Hit]]) -> str:
    return "\n".join([heading, "", *(f"- {_reference(path, places)}" for path, places in hits.items())])
