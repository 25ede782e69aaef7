"""The configurations in ``docs/any-editor.md``, used unchanged."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
DOCUMENT = (ROOT / "docs" / "any-editor.md").read_text("utf-8")


def lines_for(heading: str, language: str) -> str:
    """The code block below a heading. It starts ``deputy`` on the PATH."""
    section = DOCUMENT.split(f"\n### {heading}\n", 1)[1].split("\n### ", 1)[0]
    (block,) = re.findall(rf"```{language}\n(.*?)```", section, re.DOTALL)
    return block
