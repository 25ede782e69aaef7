"""Maps the tool names of other programs to the tools of Deputy."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from deputy_agents.definition.frontmatter import Value, normalize_name
from deputy_agents.text import cut, visible

_DELEGATION = ("spawn_agent", "spawn_agents", "task")

_MEANINGS: Mapping[tuple[str, ...], str] = {
    ("read_file",): "Read read_file read_many_files NotebookRead view",
    ("list_dir",): "LS list list_dir list_directory list_files",
    ("glob",): "Glob find_files file_search",
    ("grep",): "Grep grep_search text_search search_file_content",
    ("glob", "grep"): "search codebase",
    ("edit_file",): "Edit MultiEdit edit_file NotebookEdit str_replace replace patch apply_patch",
    ("write_file",): "Write write_file create_file",
    ("edit_file", "write_file"): "edit_files",
    ("shell", "process"): "Bash shell execute terminal run_command run_commands run_shell_command",
    ("process",): "process BashOutput KillShell KillBash",
    ("web_fetch",): "WebFetch web_fetch fetch",
    ("web_search",): "WebSearch web_search google_web_search",
    _DELEGATION: "Task Agent",
    ("todo",): "TodoWrite TodoRead todo",
    ("ask_user",): "AskUserQuestion ask_user ask_question",
    ("skill",): "Skill",
    ("diagnostics",): "diagnostics getDiagnostics",
    ("lookup",): "lookup LSP",
    **{(name,): name for name in ("spawn_agent", "spawn_agents", "list_agents", "get_agent")},
    **{(name,): name for name in ("submit_result", "submit_error")},
}
_TOOLS = {normalize_name(alias): ours for ours, aliases in _MEANINGS.items() for alias in aliases.split()}
_EVERYTHING = {"*", "all", "alltools", "inherit"}
_ENTRY = re.compile(r"([^\s,()]+)(\([^)]*\)?)?")
"""A name, and in parentheses a restriction of another program: ``Bash(git add:*, git commit:*)``."""


@dataclass(frozen=True, slots=True)
class Tools:
    """The tools of a definition. ``allowed`` is ``None`` for all tools. ``warnings`` are messages for the user."""

    allowed: tuple[str, ...] | None
    disallowed: tuple[str, ...]
    warnings: tuple[str, ...]


def read_tools(
    allowed: Value,
    allowed_source: str,
    disallowed: Value,
    disallowed_source: str,
    known: Collection[str] | None,
    typed: Collection[str] = (),
) -> Tools:
    """Read two fields, each a list, names separated by commas, or a mapping of names to booleans. ``known`` are the
    available tools; ``None`` disables the check of names. ``typed`` are the names of typed definitions, which are tools
    too."""
    warnings: list[str] = []
    denied = _denied(disallowed, disallowed_source, typed, warnings)
    if isinstance(allowed, dict) and allowed and all(isinstance(value, bool) for value in allowed.values()):
        switched_off: Value = [name for name, value in allowed.items() if value is False and name != "*"]
        denied += _denied(switched_off, "", typed, warnings)
        switched_on: Value = [name for name, value in allowed.items() if value is True]
        listed = _allowed(switched_on, "", known, typed, warnings) if allowed.get("*") is False else None
    else:
        listed = None if allowed is None else _allowed(allowed, allowed_source, known, typed, warnings)
    remaining = None if listed is None else tuple(name for name in listed if name not in denied)
    return Tools(remaining, tuple(dict.fromkeys(denied)), tuple(warnings))


def _allowed(
    value: Value, source: str, known: Collection[str] | None, typed: Collection[str], warnings: list[str]
) -> tuple[str, ...] | None:
    names: dict[str, None] = {}
    for entry, restriction in _entries(value, source):
        if entry == "*" or normalize_name(entry) in _EVERYTHING:
            return None
        candidates = _to_our_tools(entry, known, typed)
        ours = [
            name for name in candidates if known is None or name in known or name in typed or name.startswith("mcp__")
        ]
        if not ours:
            warnings.append(f"tools: unknown tool {_display(entry)}; it is ignored")
        elif restriction:
            shown = _display(entry + restriction)
            warnings.append(f"tools: {shown} allows {', '.join(ours)} completely; permissions are checked at each call")
        names.update(dict.fromkeys(ours))
    return tuple(names)


def _denied(value: Value, source: str, typed: Collection[str], warnings: list[str]) -> list[str]:
    names: list[str] = []
    for entry, restriction in _entries(value, source):
        ours = _to_our_tools(entry, None, typed)
        if not ours:
            warnings.append(f"disallowedTools: unknown tool {_display(entry)}; it is ignored")
        elif restriction:
            shown = _display(entry + restriction)
            warnings.append(
                f"disallowedTools: {shown} removes {', '.join(ours)} completely; use a deny rule for a part"
            )
        names += ours
    return names


def _entries(value: Value, source: str) -> list[tuple[str, str]]:
    if value is None:
        return []
    if isinstance(value, list):
        items = [item for item in value if isinstance(item, str)]
        value = ", ".join(items) if len(items) == len(value) else source
    text = value if isinstance(value, str) else source
    if normalize_name(text) in _EVERYTHING:
        return [("*", "")]
    found = ((name.strip("\"'`[]{}"), restriction) for name, restriction in _ENTRY.findall(text))
    return [(name, restriction) for name, restriction in found if name == "*" or re.search(r"\w", name)]


def _to_our_tools(entry: str, known: Collection[str] | None, typed: Collection[str]) -> tuple[str, ...]:
    """The tools that ``entry`` means. Tool names, also those of other programs, have precedence over agents."""
    if entry.startswith("mcp__") or entry in (known or ()):
        return (entry,)
    return _TOOLS.get(normalize_name(entry)) or ((entry,) if entry in typed else ())


def _display(entry: str) -> str:
    return cut(visible(entry), 60)
