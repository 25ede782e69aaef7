"""Hooks: commands of the user that run before and after tool calls, and at the end of a turn."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from deputy_agents.domain.rule import names_tool

MAX_TIMEOUT: Final = 600.0
"""In seconds."""


class When(StrEnum):
    """The event that runs a hook."""

    BEFORE_TOOL = "before_tool"
    AFTER_TOOL = "after_tool"
    TURN_END = "turn_end"


@dataclass(frozen=True, slots=True)
class Hook:
    """``command`` is a line of bash. ``tools`` names the tools as rules do; empty means all. ``timeout`` is in seconds.
    ``source`` is the path of the file that defines the hook, or ``settings``."""

    when: When
    command: str
    tools: tuple[str, ...] = ()
    timeout: float = 60
    source: str = "settings"

    def applies_to(self, tool: str) -> bool:
        return not self.tools or any(entry == "*" or names_tool(entry, tool) for entry in self.tools)
