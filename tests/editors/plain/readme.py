"""The lines that ``editors/README.md`` tells people to write, as they stand there."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
README = (ROOT / "editors" / "README.md").read_text("utf-8")


def lines_for(heading: str, language: str) -> str:
    """The block of code below a heading, with the folder of this Deputy."""
    section = README.split(f"\n## {heading}", 1)[1].split("\n## ", 1)[0]
    (block,) = re.findall(rf"```{language}\n(.*?)```", section, re.DOTALL)
    return block.replace("/path/to/deputy", str(ROOT))
