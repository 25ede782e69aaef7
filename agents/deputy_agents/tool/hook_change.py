"""Changes that hooks make to a file right after an edit of it, such as those of a formatter. They belong to the edit:
they are reverted with it, and the agent does not have to read the file again."""

from collections.abc import Iterator, Sequence
from difflib import unified_diff
from itertools import islice

from anyio import to_thread

from deputy_agents.domain.errors import ToolError
from deputy_agents.text import cut, lines_without_ends, visible, well_formed
from deputy_agents.tool.base import ToolContext, Written

MAX_LINES = 100
"""Lines of the difference that the agent reads."""
MAX_LINE = 300
MAX_COMPARED = 20_000
"""Lines of a file whose difference is computed."""


async def adopt_hook_change(written: Written, context: ToolContext) -> str:
    """Record what hooks have changed in a file since it was ``written``, and return the text to append to the result of
    the edit; empty if they have not changed it. Not if another agent has changed the file meanwhile."""
    place = written.place
    shown = context.workspace.shown(place, context.cwd)
    try:
        file = await context.workspace.read(place)
    except ToolError as error:
        return f"\n[After the hooks, the file cannot be read: {error}]"
    if file is None:
        return f"\n[After the hooks, {shown} does not exist any more.]"
    if file.text == written.text or context.workspace.writes(place) != written.writes:
        return ""
    async with context.record_change(place.path, written.text, file.text):
        pass  # it is made already
    await context.marks.record(place, file.text)
    difference = await to_thread.run_sync(_difference, written.text, file.text)
    return f"\n[Hooks have changed {shown} after the edit:]\n{difference}"


def _difference(before: str, after: str) -> str:
    old, new = lines_without_ends(well_formed(before)), lines_without_ends(well_formed(after))
    if max(len(old), len(new)) > MAX_COMPARED:
        return "[the file is too long to show the difference; read the parts that you need]"
    lines = list(islice(_changed_lines(old, new), MAX_LINES + 1))
    more = ["[cut here: read the file to see all]"] if len(lines) > MAX_LINES else []
    return "\n".join([*lines[:MAX_LINES], *more]) or "[only line ends]"


def _changed_lines(old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    for line in islice(unified_diff(old, new, lineterm="", n=1), 2, None):
        yield cut(line if line.startswith("@@") else "\t".join(map(visible, line.split("\t"))), MAX_LINE)
