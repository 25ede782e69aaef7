"""Problems that an edit introduced according to the editor's language servers, reported with the result of the edit.

Only new problems are reported, and only for documents that are open in the editor: for other files the language servers
see the old text. An editor that does not respond delays one or two edits at most.
"""

from collections import Counter
from collections.abc import Sequence

from deputy_agents.domain.errors import ToolError
from deputy_agents.files.place import Place
from deputy_agents.ports.editor import Ability, Diagnostic, Severity
from deputy_agents.text import cut, visible
from deputy_agents.tool.base import ToolContext

WAIT = 1.5
"""Seconds that the editor's language servers get to check the new text."""
MAX_NEW_PROBLEMS = 20
MAX_MESSAGE = 500

_ProblemCounts = Counter[tuple[Severity, str, str]]
"""Counts of problems, without their lines, which an edit moves."""


async def before_edit(place: Place, context: ToolContext) -> _ProblemCounts | None:
    """The current problems in the file at ``place``; ``None`` if no editor can report them."""
    if not (context.editors.supports(Ability.DIAGNOSTICS) and await context.workspace.is_open(place)):
        return None
    try:
        return _counts(await context.editors.editor_for(Ability.DIAGNOSTICS).diagnostics([place.path]))
    except ToolError:
        return None


async def after_edit(place: Place, context: ToolContext, before: _ProblemCounts | None) -> str:
    """The text to append to the result of an edit about new problems; ``before`` is from :func:`before_edit`."""
    if before is None:
        return ""
    try:
        found = await context.editors.editor_for(Ability.DIAGNOSTICS).diagnostics([place.path], WAIT)
    except ToolError:
        return ""
    serious = [problem for problem in found if problem.severity <= Severity.WARNING]
    new = _counts(serious) - before
    lines = [
        f"  line {problem.line}: {describe(problem)}"
        for problem in sorted(serious, key=_order)
        if new[_without_line(problem)] > 0
    ]
    if not lines:
        return ""
    more = [f"  and {len(lines) - MAX_NEW_PROBLEMS} more"] if len(lines) > MAX_NEW_PROBLEMS else []
    return "\n".join(["\nThe editor reports new problems in this file:", *lines[:MAX_NEW_PROBLEMS], *more])


def _counts(problems: Sequence[Diagnostic]) -> _ProblemCounts:
    return Counter(map(_without_line, problems))


def _without_line(problem: Diagnostic) -> tuple[Severity, str, str]:
    return problem.severity, problem.message, problem.source


def _order(problem: Diagnostic) -> tuple[Severity, int]:
    return problem.severity, problem.line


def describe(problem: Diagnostic) -> str:
    """A problem in one line, without its location."""
    source = f" [{cut(visible(problem.source), 100)}]" if problem.source else ""
    return f"{problem.severity.word}: {cut(visible(problem.message), MAX_MESSAGE)}{source}"
