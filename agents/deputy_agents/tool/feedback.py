"""What an edit has broken, as the editor's language servers see it: told with the result of the edit.

Only what was not there before is told, and only of documents that are open in the editor: of others its language
servers see the old text. An editor that does not answer holds up an edit or two, and no more.
"""

from collections import Counter
from collections.abc import Sequence

from deputy_agents.domain.errors import ToolError
from deputy_agents.files.workspace import Place
from deputy_agents.ports.editor import Ability, Diagnostic, Severity
from deputy_agents.text import cut, visible
from deputy_agents.tool.base import ToolContext

WAIT = 1.5
"""Seconds that the editor's language servers get to look at the new text."""
MAX_NEWS = 20
MAX_MESSAGE = 500

_Kinds = Counter[tuple[Severity, str, str]]
"""Problems without their lines, which an edit moves."""


async def before_edit(place: Place, context: ToolContext) -> _Kinds | None:
    """The problems in the file at ``place`` now; ``None`` where nobody can tell."""
    if not (context.editors.can(Ability.DIAGNOSTICS) and await context.workspace.is_open(place)):
        return None
    try:
        return _kinds(await context.editors.able(Ability.DIAGNOSTICS).diagnostics([place.path]))
    except ToolError:
        return None


async def after_edit(place: Place, context: ToolContext, before: _Kinds | None) -> str:
    """What is to be told of problems that came with an edit; ``before`` is what :func:`before_edit` has found."""
    if before is None:
        return ""
    try:
        found = await context.editors.able(Ability.DIAGNOSTICS).diagnostics([place.path], WAIT)
    except ToolError:
        return ""
    bad = [problem for problem in found if problem.severity <= Severity.WARNING]
    news = _kinds(bad) - before
    lines = [_told(problem) for problem in sorted(bad, key=_order) if news[_kind(problem)] > 0]
    if not lines:
        return ""
    more = [f"  and {len(lines) - MAX_NEWS} more"] if len(lines) > MAX_NEWS else []
    return "\n".join(["\nThe editor finds problems there that were not there before:", *lines[:MAX_NEWS], *more])


def _kinds(problems: Sequence[Diagnostic]) -> _Kinds:
    return Counter(map(_kind, problems))


def _kind(problem: Diagnostic) -> tuple[Severity, str, str]:
    return problem.severity, problem.message, problem.source


def _order(problem: Diagnostic) -> tuple[Severity, int]:
    return problem.severity, problem.line


def _told(problem: Diagnostic) -> str:
    return f"  line {problem.line}: {told(problem)}"


def told(problem: Diagnostic) -> str:
    """A problem in one line, without its place."""
    source = f" [{cut(visible(problem.source), 100)}]" if problem.source else ""
    return f"{problem.severity.word}: {cut(visible(problem.message), MAX_MESSAGE)}{source}"
