"""What a question is about, as lines of plain text. Whatever would not be seen is escaped: what is approved is what
is shown."""

from collections.abc import Sequence
from difflib import unified_diff

from deputy_agents.event import CommandPreview, DiffPreview, Preview, TextPreview
from deputy_agents.text import visible


def preview_lines(preview: Preview | None, *, context: int = 1) -> Sequence[str]:
    """A diff with ``context`` lines around each change, the whole command, or the text."""
    match preview:
        case DiffPreview(old_text=old_text, new_text=new_text):
            old, new = (old_text or "").splitlines(), new_text.splitlines()
            return [visible(line) for line in unified_diff(old, new, n=context, lineterm="")][2:]
        case CommandPreview(command, cwd):
            # All of it: nobody can say yes to a part that is cut off. It is escaped already.
            first, *others = command.split("\n")
            return [f"$ {first}", *(f"  {line}" for line in others), f"in {visible(cwd)}"]
        case TextPreview(text=text):
            return [visible(line) for line in text.splitlines()]
        case None:
            return []
