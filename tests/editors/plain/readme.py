"""The configurations in ``editors/README.md``, used unchanged."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
README = (ROOT / "editors" / "README.md").read_text("utf-8")


def lines_for(heading: str, language: str) -> str:
    """The code block below a heading, with the path of this repository."""
    section = README.split(f"\n## {heading}", 1)[1].split("\n## ", 1)[0]
    (block,) = re.findall(rf"```{language}\n(.*?)```", section, re.DOTALL)
    return block.replace("/path/to/deputy", str(ROOT))
