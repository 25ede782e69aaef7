"""Hooks: commands of the user that run at events of a session, such as before and after tool calls."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from deputy_agents.domain.rule import names_tool
from deputy_agents.patterns.ecma import Pattern

MAX_TIMEOUT: Final = 600.0
"""In seconds."""


class When(StrEnum):
    """The event that runs a hook."""

    SESSION_START = "session_start"
    SESSION_END = "session_end"
    PROMPT_SUBMIT = "prompt_submit"
    BEFORE_TOOL = "before_tool"
    AFTER_TOOL = "after_tool"
    TURN_END = "turn_end"
    SUBAGENT_START = "subagent_start"
    SUBAGENT_STOP = "subagent_stop"
    PERMISSION_REQUEST = "permission_request"
    NOTIFICATION = "notification"
    BEFORE_COMPACTION = "before_compaction"


CLAUDE_EVENTS: Final = {
    When.SESSION_START: "SessionStart",
    When.SESSION_END: "SessionEnd",
    When.PROMPT_SUBMIT: "UserPromptSubmit",
    When.BEFORE_TOOL: "PreToolUse",
    When.AFTER_TOOL: "PostToolUse",
    When.TURN_END: "Stop",
    When.SUBAGENT_START: "SubagentStart",
    When.SUBAGENT_STOP: "SubagentStop",
    When.PERMISSION_REQUEST: "PermissionRequest",
    When.NOTIFICATION: "Notification",
    When.BEFORE_COMPACTION: "PreCompact",
}
"""The names of the events in hooks for Claude Code."""


@dataclass(frozen=True, slots=True)
class Hook:
    """``command`` is a line of bash. ``tools`` names the tools as rules do; empty means all. ``matcher`` restricts the
    hook to subjects that it matches, such as names of tools. ``timeout`` is in seconds. Every failure of a ``strict``
    hook counts as exit code 2. ``source`` is the path of the file that defines the hook, or ``settings``."""

    when: When
    command: str
    tools: tuple[str, ...] = ()
    timeout: float = 60
    source: str = "settings"
    matcher: Pattern | None = None
    strict: bool = True

    def applies_to(self, subjects: Sequence[str]) -> bool:
        """Whether it runs for an event about something with these names; without any, every hook does."""
        if not subjects:
            return True
        if self.matcher is not None and not any(map(self.matcher.linear.search, subjects)):
            return False
        return not self.tools or any(
            entry == "*" or names_tool(entry, subject) for entry in self.tools for subject in subjects
        )
