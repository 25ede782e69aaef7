"""Builds agents: the primary and its children by the same code, from their definitions."""

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from deputy_agents.definition.catalogue import Catalogue
from deputy_agents.definition.definition import Definition
from deputy_agents.definition.describe import describe
from deputy_agents.definition.models import chosen_model
from deputy_agents.domain.access import Access
from deputy_agents.domain.errors import ToolError
from deputy_agents.domain.event import AgentInfo
from deputy_agents.domain.hook import When
from deputy_agents.domain.ids import new_id
from deputy_agents.domain.message import Message, Text
from deputy_agents.domain.model_card import Effort
from deputy_agents.events.view import AgentNode
from deputy_agents.guidance.describe import instructions_section, skills_section
from deputy_agents.guidance.library import Library
from deputy_agents.ports.store import SessionRecord
from deputy_agents.project.briefing import Briefing
from deputy_agents.run.agent import AT_REST, Agent, AnyTool, Frame, Setup
from deputy_agents.run.effect import UserPrompt
from deputy_agents.run.host import Host
from deputy_agents.run.state import Context
from deputy_agents.run.system_prompt import system_prompt
from deputy_agents.session.mcp_servers import McpServers
from deputy_agents.session.restore import Past
from deputy_agents.tool import tool_search
from deputy_agents.tool.agents import GetAgent, ListAgents, Todo
from deputy_agents.tool.ask import AskUser
from deputy_agents.tool.code import REQUIRED_ABILITIES
from deputy_agents.tool.delegate import (
    DELEGATION_TOOLS,
    SESSION_TOOLS,
    DelegationTool,
    SpawnSpec,
    child_access,
    delegation_tools,
)
from deputy_agents.tool.registry import READ_ONLY, Registry, code_tools, command_tools, file_tools, web_tools
from deputy_agents.tool.report import SubmitError, SubmitResult
from deputy_agents.tool.skill import UseSkill
from deputy_agents.tool.tool_search import ToolSearch, are_many
from deputy_agents.web.fetch import Fetcher

_WEB = frozenset(tool.spec.name for tool in web_tools(Fetcher()))
_FILES = frozenset(tool.spec.name for tool in (*file_tools(), *code_tools(), *command_tools()))
TOOL_NAMES = frozenset(
    (*(*_FILES, *_WEB, *DELEGATION_TOOLS, *SESSION_TOOLS, "skill", "submit_result", "submit_error"),)
)
"""Every tool that a definition can name."""


class Builder:
    """Makes the agents of one session: by their definitions in ``catalogue``, with the guidance of ``library`` and the
    tools of ``mcp_servers``. Sub-agents receive the facts of ``briefing`` with their task."""

    def __init__(
        self, host: Host, catalogue: Catalogue, library: Library, mcp_servers: McpServers, briefing: Briefing
    ) -> None:
        self._host = host
        self._catalogue = catalogue
        self._library = library
        self._mcp_servers = mcp_servers
        self._briefing = briefing
        self._skill = UseSkill(library)
        fetcher = Fetcher(lambda: host.settings.web.allow_private)
        self._world = Registry((*file_tools(), *code_tools(), *command_tools(), *web_tools(fetcher)))
        self._session = Registry((ListAgents(), GetAgent(), Todo(), AskUser()))
        self._reports = Registry((SubmitResult(), SubmitError()))

    def primary(self, cwd: Path, record: SessionRecord, name: str) -> Agent:
        """The session's own agent, of the definition ``name``; of the default one if that is gone."""
        definition = self._catalogue.definitions.get(name) or self._catalogue.definitions["primary"]
        info = AgentInfo(
            record.agent_id,
            "primary",
            definition.name,
            record.model,
            Access.DEFAULT,
            depth=0,
            cwd=str(cwd),
            effort=self._primary_effort(definition),
        )
        return self._build(info, definition, cwd, None)

    def _primary_effort(self, definition: Definition) -> Effort | None:
        return self._host.chosen_effort or definition.effort or self._host.settings.effort

    def child(self, parent: Agent, tool_use_id: str, spec: SpawnSpec) -> Agent:
        """A new sub-agent for ``spec``.

        Raises:
            ToolError: there is no such definition, or it may not have the model.
        """
        definition = self._subagent(spec.definition)
        settings = self._host.settings
        model = definition.model_for(parent.info.model, settings.small_model)
        if spec.model:
            model = chosen_model(spec.model, parent.info.model, settings)
        read_only = parent.info.access is Access.READ_ONLY
        info = AgentInfo(
            agent_id=new_id(),
            label=spec.label,
            definition=definition.name,
            model=model,
            access=Access.READ_ONLY if read_only else child_access(definition, spec.access),
            depth=parent.info.depth + 1,
            parent_id=parent.id,
            tool_call_id=tool_use_id,
            cwd=str(spec.cwd),
            effort=spec.effort or definition.effort or parent.info.effort,
        )
        return self._build(info, definition, spec.cwd, parent, references=spec.references)

    def continue_run(self, agent: Agent, tool_use_id: str, spec: SpawnSpec) -> None:
        """Prepares an ended sub-agent for a further run, with its history."""
        agent.run += 1
        agent.fallback = None
        model = chosen_model(spec.model, agent.info.model, self._host.settings) if spec.model else agent.info.model
        effort = spec.effort or agent.info.effort
        agent.info = replace(agent.info, tool_call_id=tool_use_id, model=model, effort=effort)
        agent.tool_calls = 0
        self._renew(agent, references=spec.references)

    def first_prompt(self, agent: Agent, text: str, context: str) -> UserPrompt:
        """The prompt of a sub-agent's run: its task, what hooks add to it and, in the first run, the facts of the
        project."""
        facts = self._briefing.for_task() if agent.run == 1 else ()
        added = (Text(context),) if context else ()
        return UserPrompt(Message("user", (Text(text), *added, *facts)), text)

    def restored(self, info: AgentInfo, parent: Agent) -> Agent:
        """A sub-agent of a stored session, at rest. One whose definition is gone keeps its name and gets no tools."""
        gone = Definition(info.definition, "", "", tools=())
        definition = self._catalogue.definitions.get(info.definition, gone)
        cwd = Path(info.cwd) if info.cwd else parent.cwd
        return Agent(info, definition, cwd, AT_REST, parent=parent)

    def remember(self, agent: Agent, node: AgentNode, past: Past) -> None:
        """Restores what an agent of a stored session knew, except its history."""
        view = past.view
        agent.run = node.run
        if (record := past.contexts.get(agent.id)) is not None:
            agent.frame = Frame(record.frame)
        agent.calls = len(view.transcripts.calls.get(agent.id, ()))
        agent.replies = sum(view.replies.get((agent.id, run), 0) for run in range(1, node.run + 1))
        agent.usage = node.usage
        agent.tool_calls = node.tool_call_count
        agent.result = None if agent.id in view.truncated else node.summary or ""
        agent.notes = past.notes.get(agent.id, ())

    def renew(self, agent: Agent) -> None:
        """Applies files, settings and MCP servers as they are now. The prompt stays the same text when nothing has
        changed, so that a provider's prompt cache stays valid."""
        self._renew(agent, references=agent.context.check_references)

    async def add_instructions(self, agent: Agent) -> None:
        """Adds the instructions of a new agent's folder, if no agent worked there before."""
        if await self._library.visit(agent.cwd):
            system = self._prompt(agent.info, agent.definition, agent.cwd, agent.tools)
            agent.setup = replace(agent.setup, system=system)

    def _renew(self, agent: Agent, *, references: bool) -> None:
        agent.definition = self._catalogue.definitions.get(agent.definition.name, agent.definition)
        if not agent.is_child:
            agent.info = replace(agent.info, effort=self._primary_effort(agent.definition))
        agent.setup = self._setup(agent.info, agent.definition, agent.cwd, agent.parent, references=references)

    def _subagent(self, name: str) -> Definition:
        definition = self._catalogue.definitions.get(name)
        if definition is None or not definition.is_subagent:
            known = ", ".join(sorted(self._subagents()))
            raise ToolError(f"there is no sub-agent definition {name!r}; use one of: {known}.")
        return definition

    def _subagents(self) -> dict[str, Definition]:
        return {definition.name: definition for definition in self._catalogue.subagents()}

    def _build(
        self, info: AgentInfo, definition: Definition, cwd: Path, parent: Agent | None, *, references: bool = False
    ) -> Agent:
        setup = self._setup(info, definition, cwd, parent, references=references)
        return Agent(info, definition, cwd, setup, parent=parent)

    def _setup(
        self, info: AgentInfo, definition: Definition, cwd: Path, parent: Agent | None, *, references: bool
    ) -> Setup:
        delegation = self._delegation_tools(info, definition)
        tools = {**self._tools(info, definition, parent), **delegation}
        settings = self._host.settings
        context = Context(
            is_child=parent is not None,
            delegation_tools=frozenset(delegation),
            concurrent=READ_ONLY | {*SESSION_TOOLS, "skill", tool_search.NAME},
            max_iterations=definition.max_iterations if parent else settings.limits.turn_iterations,
            attempts=settings.retry.attempts,
            check_answer=references or any(hook.when is When.SUBAGENT_STOP for hook in self._host.hooks()),
            check_references=references,
            aggregate_bytes=settings.limits.aggregate_bytes,
            tools=frozenset(tools),
        )
        return Setup(self._prompt(info, definition, cwd, tools), tools, context)

    def _tools(self, info: AgentInfo, definition: Definition, parent: Agent | None) -> dict[str, AnyTool]:
        """What this agent may call besides delegation tools: by its definition, its access, and its parent's tools."""
        tools: dict[str, AnyTool] = {
            name: tool
            for name, tool in self._world.offered(info.access).items()
            if definition.allows(name) and (parent is None or name in parent.tools)
        }
        unsupported = (name for name, ability in REQUIRED_ABILITIES.items() if not self._host.editors.supports(ability))
        files = _FILES if self._host.workspace.is_empty else ()
        for name in (*self._host.settings.web.missing(_WEB), *unsupported, *files):
            tools.pop(name, None)
        tools |= {name: tool for name, tool in self._session.items() if definition.allows(name) or info.depth == 0}
        if info.access is not Access.READ_ONLY:
            shared = self._mcp_servers.tools()
            given = {name: tool for name, tool in shared.items() if parent is None or name in parent.tools}
            given |= self._mcp_servers.tools(definition.name)
            given = {name: tool for name, tool in given.items() if definition.allows(name)}
            if are_many(specs := [tool.spec for tool in given.values()]):
                tools[tool_search.NAME] = ToolSearch(specs)
            tools |= given
        if self._library.skills and "skill" not in definition.disallowed_tools:
            tools["skill"] = self._skill
        return tools if parent is None else {**tools, **self._reports}

    def _delegation_tools(self, info: AgentInfo, definition: Definition) -> dict[str, DelegationTool]:
        """The primary has those that its definition allows; a sub-agent has those that its definition lists, while its
        depth allows; a read-only sub-agent has none."""
        settings = self._host.settings.agents
        if not settings.enabled or info.depth >= settings.max_depth or info.access is Access.READ_ONLY:
            return {}
        listed = definition.tools or ()
        return {
            name: tool
            for name, tool in delegation_tools(self._subagents(), settings.models).items()
            if name in listed or (info.depth == 0 and definition.allows(name))
        }

    def _prompt(self, info: AgentInfo, definition: Definition, cwd: Path, tools: Collection[str]) -> str:
        workspace = self._host.workspace
        known = self._catalogue.subagents()
        delegates = any(name in tools for name in DELEGATION_TOOLS)
        delegates |= any(one.name in tools for one in self._catalogue.typed())
        sections = (
            system_prompt(definition, cwd, workspace.roots, workspace.further, info.access, is_child=info.depth > 0),
            instructions_section(self._library.instructions(cwd)),
            describe(one for one in known if one.input_schema is None or one.name in tools) if delegates else "",
            skills_section(self._library.skills.values()) if "skill" in tools else "",
        )
        return "\n\n".join(filter(None, sections))
