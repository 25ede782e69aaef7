"""Forms of the tool result of a delegation call."""

from dataclasses import dataclass
from typing import Literal, TypeAlias


@dataclass(frozen=True, slots=True)
class Template:
    """A text with placeholders for the answer of a child; see ``definition.template``."""

    text: str


ResultStyle: TypeAlias = Literal["bare", "aggregate"] | Template
"""How the outcomes of the children become one tool result."""
