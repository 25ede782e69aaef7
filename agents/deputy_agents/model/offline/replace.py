"""An edit request step by step: search, read the files, edit each one, report."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from deputy_agents.domain.message import ToolUse
from deputy_agents.model.offline.edit_request import EditKind, EditRequest
from deputy_agents.model.offline.literal_edit import NotChanged, edited, search_pattern
from deputy_agents.model.offline.turn import Call, Hit, Move, Turn, hits_of, numbered_lines, use

_MAX_FILES = 20
_MAX_LINES = 8
_INSTRUCTIONS = "Find every occurrence, read the files, and edit each one. Report what was changed and what not."


def edit_instructions(wanted: EditRequest) -> str:
    """The instructions for a sub-agent. :func:`without_instructions` returns the request."""
    return f"{wanted}.\n\n{_INSTRUCTIONS}"


def without_instructions(task: str) -> str:
    return task.strip().removesuffix(_INSTRUCTIONS).strip()


def replace_step(turn: Turn, wanted: EditRequest) -> Move:
    """The next step of an edit request."""
    if "grep" not in turn.tools:
        return Move("I have no search tool, so I cannot change anything.")
    if not (searches := turn.made("grep")):
        where = {"path": wanted.path} if wanted.path else {}
        return Move(f"Searching for `{wanted.old}`.", (use("grep", pattern=search_pattern(wanted), **where),))
    hits = _by_file(searches)
    if not hits:
        return Move(_nothing(searches[-1], wanted))
    if not {"read_file", "edit_file"} <= turn.tools:
        return Move(_listed("I have no tool to edit files. These places would change:", hits))
    if not (reads := turn.made("read_file")):
        return Move("Reading the files.", tuple(use("read_file", path=path) for path in list(hits)[:_MAX_FILES]))
    plans = _plans(wanted, hits, reads, complete=not any(_is_cut(call) for call in searches))
    edits = turn.made("edit_file")
    if not edits and (steps := tuple(plan.step for plan in plans.values() if plan.step)):
        return Move(f"{wanted}.", steps)
    return Move(_report(wanted, hits, plans, edits))


def _by_file(searches: Sequence[Call]) -> dict[str, list[Hit]]:
    found: dict[str, list[Hit]] = {}
    for hit in dict.fromkeys(hit for call in searches for hit in hits_of(call)):
        found.setdefault(hit.path, []).append(hit)
    return found


def _is_cut(search: Call) -> bool:
    return search.result.rpartition("\n")[2].startswith("[cut here")


# -- plans ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Plan:
    """What happens to a file: a ``step``, or nothing because of ``reason``. ``idle``: there is nothing to do in it.
    ``lines`` change, counted from 1."""

    step: ToolUse | None = None
    reason: str = ""
    idle: bool = False
    lines: tuple[int, ...] = ()


def _plans(
    wanted: EditRequest, hits: Mapping[str, object], reads: Sequence[Call], *, complete: bool
) -> dict[str, _Plan]:
    """A plan for each file. A rename changes all of them or none: with half of its uses renamed, a name is broken."""
    plans = dict.fromkeys(hits, _Plan(reason="there are too many files for one request"))
    plans |= {call.text("path"): _plan(wanted, call) for call in reads if call.text("path") in plans}
    if wanted.kind is EditKind.RENAME and not (complete and all(plan.step or plan.idle for plan in plans.values())):
        held = _Plan(reason="a rename changes every file or none")
        plans = {path: held if plan.step else plan for path, plan in plans.items()}
    return plans


def _plan(wanted: EditRequest, read: Call) -> _Plan:
    if read.is_error:
        return _Plan(reason=read.result.strip().partition("\n")[0])
    path, text = read.text("path"), _whole_text(read)
    if text is None:
        return _Plan(reason="I cannot read it as a whole")
    try:
        after = edited(wanted, path, text)
    except NotChanged as error:
        return _Plan(reason=str(error), idle=error.idle)
    lines = tuple(
        number
        for number, (old, new) in enumerate(zip(text.split("\n"), after.split("\n"), strict=False), 1)
        if old != new
    )
    return _Plan(_edit(wanted, path, text, after), lines=lines)


def _whole_text(read: Call) -> str | None:
    """The text of a file; ``None`` if the result has only a part of it, or not exactly its text."""
    lines = numbered_lines(read)
    complete = list(lines) == list(range(1, len(lines) + 1))
    if not complete or re.search(r"^\[(lines \d|not UTF-8)|\[cut: \d+ characters\]$|\r", read.result, re.MULTILINE):
        return None
    return "\n".join(lines.values())


def _edit(wanted: EditRequest, path: str, before: str, after: str) -> ToolUse:
    """The call that turns ``before`` into ``after``: every occurrence, or the smallest block of lines that contains the
    changes and occurs once. Replacing a whole word everywhere would also change longer names that contain it."""
    if wanted.kind is not EditKind.SET and before.replace(wanted.old, wanted.new) == after:
        return use("edit_file", path=path, old_string=wanted.old, new_string=wanted.new, replace_all=True)
    old, new = before.split("\n"), after.split("\n")
    start = _common(old, new)
    rest = _common(old[:start:-1], new[:start:-1])
    while before.count(block := "\n".join(old[start : len(old) - rest])) > 1:
        start, rest = max(0, start - 1), max(0, rest - 1)
    return use("edit_file", path=path, old_string=block, new_string="\n".join(new[start : len(new) - rest]))


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    """How many items are the same at the beginning."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((index for index, (left, right) in pairs if left != right), min(len(one), len(other)))


# -- reports -------------------------------------------------------------------------------------------------------


def _nothing(search: Call, wanted: EditRequest) -> str:
    if search.is_error:
        return f"The search failed, nothing was changed: {search.result}"
    return f"There is no {_what(wanted)}, so there is nothing to change (rule-based search)."


def _what(wanted: EditRequest) -> str:
    what = f"literal assigned to `{wanted.old}`" if wanted.kind is EditKind.SET else f"`{wanted.old}`"
    return what + (f" in `{wanted.path}`" if wanted.path else "")


def _report(
    wanted: EditRequest, hits: Mapping[str, Sequence[Hit]], plans: Mapping[str, _Plan], edits: Sequence[Call]
) -> str:
    results = {call.text("path"): call for call in edits}
    shown = {path: plan for path, plan in plans.items() if not plan.idle} or plans
    done = sum(not call.is_error for call in edits)
    files = f"{done} of {len(shown)} file{'' if len(shown) == 1 else 's'} changed"
    lines = [f"{wanted}: {files} (by fixed rules, no language model).", ""]
    for path, plan in shown.items():
        numbers = plan.lines or [hit.line for hit in hits[path]]
        lines.append(f"- {_reference(path, numbers)} — {_result(plan, results.get(path))}")
    return "\n".join(lines)


def _result(plan: _Plan, call: Call | None) -> str:
    if call is None:
        return f"not changed: {plan.reason or 'the edit was not made'}"
    reason = call.result.strip().partition("\n")[0].removeprefix("Not run: ")
    return f"not changed: {reason}" if call.is_error else "changed"


def _reference(path: str, numbers: Sequence[int]) -> str:
    first, *others = sorted(numbers)
    shown = [str(number) for number in others[:_MAX_LINES]]
    if len(others) > len(shown):
        shown.append(f"{len(others) - len(shown)} more")
    also = ", ".join(shown[:-1]) + " and " + shown[-1] if len(shown) > 1 else "".join(shown)
    return f"`{path}:{first}`" + (f" (also line{'s' if len(shown) > 1 else ''} {also})" if also else "")


def _listed(heading: str, hits: Mapping[str, Sequence[Hit]]) -> str:
    references = (_reference(path, [hit.line for hit in places]) for path, places in hits.items())
    return "\n".join([heading, "", *(f"- {reference}" for reference in references)])
