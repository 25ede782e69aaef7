"""The preview of a permission request as lines of plain text. Invisible characters are escaped, so that users see
exactly what they approve."""

from collections.abc import Iterable, Iterator, Sequence
from difflib import unified_diff
from itertools import islice

from deputy_agents.domain.preview import CommandPreview, DiffHunk, DiffPreview, Preview, TextPreview
from deputy_agents.text import lines_with_ends, visible
from deputy_protocol import tool


def preview_lines(preview: Preview | None, *, context: int = 1) -> Sequence[str]:
    """A diff with ``context`` lines around each change, the full command, or the text."""
    match preview:
        case DiffPreview(_, old_text, new_text, hunks, truncated):
            if new_text is None:
                return list(hunk_lines(hunks, truncated=truncated))
            return list(_diff(old_text or "", new_text, context))
        case CommandPreview(command, cwd):
            # The full command, which is already escaped: users must not approve text that they cannot see.
            first, *others = command.split("\n")
            return [f"$ {first}", *(f"  {line}" for line in others), f"in {visible(cwd)}"]
        case TextPreview(text=text):
            return [visible(line) for line in text.split("\n")]
        case None:
            return []


def hunk_lines(hunks: Iterable[DiffHunk | tool.DiffHunk], *, truncated: bool) -> Iterator[str]:
    """A unified diff of a large file. ``truncated``: it is not all of the change."""
    for hunk in hunks:
        yield f"@@ -{hunk.old_start},{hunk.old_count} +{hunk.new_start},{hunk.new_count} @@"
        yield from map(visible, hunk.lines)
    if truncated:
        yield "\\ The change is too large to be shown completely."


def _diff(old: str, new: str, context: int) -> Iterator[str]:
    """A unified diff. Line ends are those of editors; a change of line ends is shown like any other change."""
    if "\n" not in f"{old}{new}".replace("\r\n", ""):
        old, new = old.replace("\r\n", "\n"), new.replace("\r\n", "\n")
    before, after = ([line for line in lines_with_ends(text) if line] for text in (old, new))
    for line in islice(unified_diff(before, after, n=context, lineterm=""), 2, None):
        yield visible(line.removesuffix("\n"))
        if line[0] in "+- " and not line.endswith(("\n", "\r")):
            yield "\\ No newline at end of file"
