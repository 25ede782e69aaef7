"""What holds in a session, and how a prompt can go on, as the wire has it."""

from pathlib import Path

from deputy_agents.domain.problem import Problem
from deputy_agents.editor.completion import Completions
from deputy_agents.guidance.mcp_entry import EDITOR, SETTINGS
from deputy_agents.session.mcp_servers import ServerStatus
from deputy_agents.session.session import Session
from deputy_agents.text import visible
from deputy_protocol import context as wire
from deputy_server.convert.uris import uri_of


def listed(session: Session) -> wire.ContextListResult:
    """What holds in the folder of ``session``."""
    library, cwd = session.library, Path(session.record.cwd)
    return wire.ContextListResult(
        instructions=tuple(
            wire.InstructionInfo(
                uri=uri_of(one.path), reason=one.why, bytes=len(one.text.encode()), truncated=one.truncated
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
        ),
        servers=tuple(map(_server, session.servers.list())),
        problems=tuple(
            wire.ContextProblem(uri=uri_of(_file(problem, cwd)), line=problem.line, reason=problem.reason)
            for problem in (*library.problems, *session.servers.problems)
        ),
    )


def _server(status: ServerStatus) -> wire.McpServerInfo:
    entry, offer = status.entry, status.offer
    return wire.McpServerInfo(
        name=entry.name,
        uri=uri_of(entry.source.place) if entry.source.is_file else None,
        starts=visible(entry.line),
        state=wire.McpServerState(status.state.value),
        problem=status.problem or None,
        tools=tuple(f"mcp__{entry.name}__{name}" for name in offer.tools),
        resources=offer.resources,
        prompts=tuple(one.name for one in offer.prompts),
    )


def completions(found: Completions) -> wire.CompleteResult:
    return wire.CompleteResult(
        replace=found.replace,
        items=tuple(
            wire.Completion(text=one.text, kind=wire.CompletionKind(one.kind), detail=one.detail) for one in found.items
        ),
    )


def _file(problem: Problem, cwd: Path) -> str:
    """The file with the problem; what is wrong with what is no file is told of the folder that they hold in."""
    return str(cwd) if problem.file in (SETTINGS, EDITOR) else problem.file
