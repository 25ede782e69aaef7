"""The change that a call of a file tool makes, as lines of a diff, from what the model passed to the tool."""

from collections.abc import Mapping, Sequence
from difflib import unified_diff

from deputy_agents.domain.event import CallStatus, ToolKind
from deputy_agents.events.view import ToolCall
from deputy_agents.text import lines_without_ends, visible

MAX_LINES = 60
"""Lines of a diff that are shown."""


def edit_diff(call: ToolCall) -> str:
    """The diff of a completed edit; empty for any other call."""
    done = call.update is not None and call.update.status is CallStatus.COMPLETED
    if not done or call.started.kind is not ToolKind.EDIT:
        return ""
    lines = _lines(call.started.input)
    more = [f"… {len(lines) - MAX_LINES} more lines"] if len(lines) > MAX_LINES else []
    return "\n".join([*map(visible, lines[:MAX_LINES]), *more])


def _lines(input: Mapping[str, object]) -> Sequence[str]:
    match input:
        case {"old_string": str(old), "new_string": str(new)}:
            return list(unified_diff(lines_without_ends(old), lines_without_ends(new), lineterm="", n=3))[3:]
        case {"content": str(text)}:
            return [f"+{line}" for line in lines_without_ends(text)]
        case _:
            return ()
