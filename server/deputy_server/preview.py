"""What a question is about, as lines of plain text. Whatever would not be seen is escaped: what is approved is what
is shown."""

from collections.abc import Iterator, Sequence
from difflib import unified_diff
from itertools import islice

from deputy_agents.domain.event import CommandPreview, DiffPreview, Preview, TextPreview
from deputy_agents.text import lines_of, visible


def preview_lines(preview: Preview | None, *, context: int = 1) -> Sequence[str]:
    """A diff with ``context`` lines around each change, the whole command, or the text."""
    match preview:
        case DiffPreview(old_text=old_text, new_text=new_text):
            return list(_diff(old_text or "", new_text, context))
        case CommandPreview(command, cwd):
            # All of it: nobody can say yes to a part that is cut off. It is escaped already.
            first, *others = command.split("\n")
            return [f"$ {first}", *(f"  {line}" for line in others), f"in {visible(cwd)}"]
        case TextPreview(text=text):
            return [visible(line) for line in text.split("\n")]
        case None:
            return []


def _diff(old: str, new: str, context: int) -> Iterator[str]:
    """Lines end where editors say; how they end is a change like any other, and shown where it is one."""
    if "\n" not in f"{old}{new}".replace("\r\n", ""):
        old, new = old.replace("\r\n", "\n"), new.replace("\r\n", "\n")
    before, after = ([line for line in lines_of(text) if line] for text in (old, new))
    for line in islice(unified_diff(before, after, n=context, lineterm=""), 2, None):
        yield visible(line.removesuffix("\n"))
        if line[0] in "+- " and not line.endswith(("\n", "\r")):
            yield "\\ No line end at the end of the file"
