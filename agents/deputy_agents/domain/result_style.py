"""How the outcomes of sub-agents become one tool result."""

from dataclasses import dataclass
from typing import Literal, TypeAlias


@dataclass(frozen=True, slots=True)
class Template:
    """A text into which the answer of a child is put; see ``definition.template``."""

    text: str


ResultStyle: TypeAlias = Literal["bare", "aggregate"] | Template
"""How the outcomes of a door's children become its tool result."""
