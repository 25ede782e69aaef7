"""Instructions, skills, commands, MCP servers and prompt completions."""

from pathlib import Path

from deputy_agents.domain.problem import Problem
from deputy_agents.editor.completion import Completions
from deputy_agents.guidance.builtin_commands import BUILTIN_COMMANDS
from deputy_agents.guidance.mcp_entry import EDITOR, SETTINGS
from deputy_agents.run.context_usage import ContextUsage
from deputy_agents.session.mcp_server_status import McpServerStatus
from deputy_agents.session.session import Session
from deputy_agents.text import visible
from deputy_protocol import context as wire
from deputy_server.convert.uris import uri_of


def context_to_wire(session: Session) -> wire.ContextListResult:
    """Everything that applies in the folder of ``session``."""
    library, cwd = session.customizations.library, Path(session.record.cwd)
    return wire.ContextListResult(
        instructions=tuple(
            wire.InstructionInfo(
                uri=uri_of(one.path), reason=one.reason, bytes=len(one.text.encode()), truncated=one.truncated
            )
            for one in library.instructions(cwd)
        ),
        skills=tuple(
            wire.SkillInfo(name=skill.name, description=skill.description, uri=uri_of(skill.source))
            for skill in library.skills.values()
        ),
        commands=tuple(
            wire.CommandInfo(
                name=command.name,
                description=command.description,
                argument_hint=command.argument_hint,
                uri=uri_of(command.source),
            )
            for command in library.commands.values()
        )
        + _BUILTIN,
        servers=tuple(map(_server_to_wire, session.mcp_servers.list())),
        problems=tuple(
            wire.ContextProblem(uri=uri_of(_problem_path(problem, cwd)), line=problem.line, reason=problem.reason)
            for problem in (*library.problems, *session.mcp_servers.problems)
        ),
    )


_BUILTIN = tuple(
    wire.CommandInfo(
        name=command.name, description=command.description, argument_hint=command.argument_hint, builtin=True
    )
    for command in BUILTIN_COMMANDS.values()
)


def usage_to_wire(usage: ContextUsage) -> wire.ContextUsageResult:
    return wire.ContextUsageResult(
        window=usage.window,
        used=usage.used,
        parts=tuple(wire.ContextPart(name=wire.ContextPartName(one.name), tokens=one.tokens) for one in usage.parts),
        cached_share=usage.cached_share,
        compacts_at=usage.compacts_at,
    )


def _server_to_wire(status: McpServerStatus) -> wire.McpServerInfo:
    entry, catalog = status.entry, status.catalog
    return wire.McpServerInfo(
        name=entry.name,
        uri=uri_of(entry.source.place) if entry.source.is_file else None,
        starts=visible(entry.line),
        state=wire.McpServerState(status.state.value),
        problem=status.problem or None,
        tools=tuple(f"mcp__{entry.name}__{name}" for name in catalog.tools),
        resources=catalog.resources,
        prompts=tuple(one.name for one in catalog.prompts),
    )


def completions_to_wire(found: Completions) -> wire.CompleteResult:
    return wire.CompleteResult(
        replace=found.replace,
        items=tuple(
            wire.Completion(text=one.text, kind=wire.CompletionKind(one.kind), detail=one.detail) for one in found.items
        ),
    )


def _problem_path(problem: Problem, cwd: Path) -> str:
    """The file with the problem, or ``cwd`` for a problem of the settings or of the editor's MCP servers."""
    return str(cwd) if problem.file in (SETTINGS, EDITOR) else problem.file
