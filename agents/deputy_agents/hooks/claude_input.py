"""Tool calls as hooks for Claude Code expect them: by that program's names of tools and fields."""

from collections.abc import Mapping
from typing import Final

_CALLS: Final[Mapping[str, tuple[str, Mapping[str, str]]]] = {
    "shell": ("Bash", {"background": "run_in_background"}),
    "read_file": ("Read", {"path": "file_path"}),
    "write_file": ("Write", {"path": "file_path"}),
    "edit_file": ("Edit", {"path": "file_path"}),
    "list_dir": ("LS", {}),
    "glob": ("Glob", {}),
    "grep": ("Grep", {}),
    "web_fetch": ("WebFetch", {}),
    "web_search": ("WebSearch", {}),
    "todo": ("TodoWrite", {"entries": "todos"}),
    "skill": ("Skill", {"name": "skill"}),
    "task": ("Task", {}),
    "spawn_agent": ("Task", {"instructions": "prompt"}),
    "spawn_agents": ("Task", {}),
    "ask_user": ("AskUserQuestion", {}),
}
"""The name of each tool there, and of its fields that have other names. Tools of MCP servers have the same names."""
MODES: Final = {"accept_edits": "acceptEdits", "bypass": "bypassPermissions"}
"""Permission modes that have another name there."""


def tool_names(tool: str) -> tuple[str, ...]:
    """All names by which a hook may call ``tool``."""
    return tuple(dict.fromkeys((claude_tool(tool), tool)))


def claude_tool(tool: str) -> str:
    return _CALLS[tool][0] if tool in _CALLS else tool


def claude_input(tool: str, input: Mapping[str, object], file: str) -> Mapping[str, object]:
    """``input`` of a call. ``file`` is the absolute path of its file, or empty. Time limits are in milliseconds."""
    fields = _CALLS[tool][1] if tool in _CALLS else {}
    renamed = {fields.get(name, name): value for name, value in input.items()}
    if file and "file_path" in renamed:
        renamed["file_path"] = file
    if tool == "shell" and isinstance(timeout := renamed.get("timeout"), int | float):
        renamed["timeout"] = timeout * 1000
    return renamed
