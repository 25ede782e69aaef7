"""Hooks as values: commands of the user that run before and after tools, and at the end of a turn."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from deputy_agents.domain.rule import names_tool

MAX_TIMEOUT: Final = 600.0
"""Seconds."""


class When(StrEnum):
    """What a hook waits for."""

    BEFORE_TOOL = "before_tool"
    AFTER_TOOL = "after_tool"
    TURN_END = "turn_end"


@dataclass(frozen=True, slots=True)
class Hook:
    """``command`` is a line of bash. ``tools`` names those that it is about, as rules do; empty: all. ``timeout`` is in
    seconds. ``source`` is the path of the file that names it, or ``settings``."""

    when: When
    command: str
    tools: tuple[str, ...] = ()
    timeout: float = 60
    source: str = "settings"

    def is_about(self, tool: str) -> bool:
        return not self.tools or any(entry == "*" or names_tool(entry, tool) for entry in self.tools)
