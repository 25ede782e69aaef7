"""Builds agents: the primary and its children by the same code, from their definitions."""

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from deputy_agents.definition.catalogue import Catalogue
from deputy_agents.definition.definition import Definition
from deputy_agents.definition.describe import describe
from deputy_agents.domain.access import Access
from deputy_agents.domain.errors import ToolError
from deputy_agents.domain.event import AgentInfo, AgentRef
from deputy_agents.domain.ids import new_id
from deputy_agents.domain.message import tool_uses
from deputy_agents.domain.settings import Settings
from deputy_agents.events.view import AgentNode
from deputy_agents.guidance.describe import told_instructions, told_skills
from deputy_agents.guidance.library import Library
from deputy_agents.run.agent import Agent, AnyTool, Host
from deputy_agents.run.state import Context
from deputy_agents.run.system_prompt import system_prompt
from deputy_agents.session.restore import Past
from deputy_agents.tool.agents import GetAgent, ListAgents, Todo
from deputy_agents.tool.code import NEEDS
from deputy_agents.tool.delegate import DELEGATION_TOOLS, SESSION_TOOLS, DelegationTool, SpawnSpec, doors, lowered
from deputy_agents.tool.registry import READ_ONLY, Registry, code_tools, command_tools, file_tools, web_tools
from deputy_agents.tool.report import SubmitError, SubmitResult
from deputy_agents.tool.skill import UseSkill
from deputy_agents.web.fetch import Fetcher

_WEB = frozenset(tool.spec.name for tool in web_tools(Fetcher()))
TOOL_NAMES = frozenset(
    (
        *(tool.spec.name for tool in (*file_tools(), *code_tools(), *command_tools())),
        *(*_WEB, *DELEGATION_TOOLS, *SESSION_TOOLS, "skill", "submit_result", "submit_error"),
    )
)
"""Every tool that a definition can name."""


class Builder:
    """Makes the agents of one session from ``catalogue``; ``library`` is what all of them are told."""

    def __init__(self, host: Host, catalogue: Catalogue, library: Library) -> None:
        self._host = host
        self._catalogue = catalogue
        self._library = library
        self._skill = UseSkill(library)
        fetcher = Fetcher(lambda: host.settings.web.allow_private)
        self._world = Registry((*file_tools(), *code_tools(), *command_tools(), *web_tools(fetcher)))
        self._session = Registry((ListAgents(), GetAgent(), Todo()))
        self._reports = Registry((SubmitResult(), SubmitError()))

    @property
    def _settings(self) -> Settings:
        return self._host.settings

    def primary(self, agent_id: str, cwd: Path, model: str, kind: str) -> Agent:
        """The session's own agent, of the definition ``kind``; of the usual one, where that is gone."""
        definition = self._catalogue.definitions.get(kind) or self._catalogue.definitions["primary"]
        info = AgentInfo(agent_id, "primary", definition.name, model, Access.DEFAULT, depth=0, cwd=str(cwd))
        return self._build(info, definition, cwd, None)

    def child(self, parent: Agent, tool_use_id: str, spec: SpawnSpec) -> Agent:
        """A new child, as ``spec`` wants it.

        Raises:
            ToolError: there is no such definition.
        """
        definition = self._subagent(spec.definition)
        info = AgentInfo(
            agent_id=new_id(),
            label=spec.label,
            definition=definition.name,
            model=definition.model_for(parent.info.model, self._settings.small_model),
            access=Access.READ_ONLY if parent.info.access is Access.READ_ONLY else lowered(definition, spec.access),
            depth=parent.info.depth + 1,
            parent_id=parent.id,
            tool_call_id=tool_use_id,
            cwd=str(spec.cwd),
        )
        return self._build(info, definition, spec.cwd, parent, references=spec.references)

    def continue_run(self, agent: Agent, tool_use_id: str, spec: SpawnSpec) -> None:
        """Makes an ended child ready for a further run, with all that it knows."""
        agent.run += 1
        agent.info = replace(agent.info, tool_call_id=tool_use_id)
        agent.tool_calls = 0
        agent.context = replace(agent.context, check_answer=spec.references)

    def restored(self, info: AgentInfo, parent: Agent) -> Agent:
        """A child of a stored session. One whose definition is gone keeps its name and has no tools."""
        gone = Definition(info.definition, "", "", tools=())
        definition = self._catalogue.definitions.get(info.definition, gone)
        cwd = Path(info.cwd) if info.cwd else parent.cwd
        return self._build(info, definition, cwd, parent)

    def remember(self, agent: Agent, node: AgentNode, past: Past) -> None:
        """Gives an agent of a stored session what it knew."""
        agent.run = node.run
        agent.history = list(past.histories.get(agent.id, ()))
        agent.call_ids = {call.id for message in agent.history for call in tool_uses(message)}
        agent.replies = sum(message.role == "assistant" for message in agent.history)
        agent.usage = node.usage
        agent.tool_calls = node.tool_call_count
        agent.result = past.result_of(agent.id)

    def renew(self, agent: Agent) -> None:
        """Definition, tools and prompt as files, settings and servers say now; the same text when nothing has changed,
        so that a provider's prompt cache holds."""
        agent.definition = self._catalogue.definitions.get(agent.definition.name, agent.definition)
        checked = agent.context.check_answer
        fresh = self._build(agent.info, agent.definition, agent.cwd, agent.parent, references=checked)
        agent.system, agent.tools, agent.context = fresh.system, fresh.tools, fresh.context

    async def settle(self, agent: Agent) -> None:
        """Gives a new agent the instructions of its folder, if nobody worked there before."""
        if await self._library.visit(agent.cwd):
            agent.system = self._prompt(agent.info, agent.definition, agent.cwd, agent.tools)

    def _subagent(self, name: str) -> Definition:
        definition = self._catalogue.definitions.get(name)
        if definition is None or not definition.is_subagent:
            known = ", ".join(sorted(self._subagents()))
            raise ToolError(f"there is no sub-agent definition {name!r}; there are {known}.")
        return definition

    def _subagents(self) -> dict[str, Definition]:
        return {definition.name: definition for definition in self._catalogue.subagents()}

    def _build(
        self, info: AgentInfo, definition: Definition, cwd: Path, parent: Agent | None, *, references: bool = False
    ) -> Agent:
        tools = self._tools(info, definition, parent)
        opened = self._doors(info, definition)
        settings = self._settings
        return Agent(
            info=info,
            ref=_ref(info, parent),
            definition=definition,
            cwd=cwd,
            system=self._prompt(info, definition, cwd, {**tools, **opened}),
            tools={**tools, **opened},
            context=Context(
                is_child=parent is not None,
                delegation_tools=frozenset(opened),
                concurrent=READ_ONLY | {*SESSION_TOOLS, "skill"},
                max_iterations=definition.max_iterations if parent else settings.limits.turn_iterations,
                attempts=settings.retry.attempts,
                check_answer=references,
                aggregate_bytes=settings.limits.aggregate_bytes,
                tools=frozenset((*tools, *opened)),
            ),
            parent=parent,
        )

    def _tools(self, info: AgentInfo, definition: Definition, parent: Agent | None) -> dict[str, AnyTool]:
        """What this agent may call beside doors: by its definition, its access, and what its parent has."""
        tools: dict[str, AnyTool] = {
            name: tool
            for name, tool in self._world.offered(info.access).items()
            if definition.allows(name) and (parent is None or name in parent.tools)
        }
        untold = (name for name, ability in NEEDS.items() if not self._host.editors.can(ability))
        for name in (*self._settings.web.missing(_WEB), *untold):
            tools.pop(name, None)
        tools |= {name: tool for name, tool in self._session.items() if definition.allows(name) or info.depth == 0}
        if info.access is not Access.READ_ONLY:
            shared = self._host.mcp_tools()
            given = {name: tool for name, tool in shared.items() if parent is None or name in parent.tools}
            given |= self._host.mcp_tools(definition.name)
            tools |= {name: tool for name, tool in given.items() if definition.allows(name)}
        if self._library.skills and "skill" not in definition.disallowed_tools:
            tools["skill"] = self._skill
        return tools if parent is None else {**tools, **self._reports}

    def _doors(self, info: AgentInfo, definition: Definition) -> dict[str, DelegationTool]:
        """The doors of the primary are those that its definition allows; a child has those that its definition lists,
        while its depth allows, and a child that only reads has none."""
        settings = self._settings.agents
        if not settings.enabled or info.depth >= settings.max_depth or info.access is Access.READ_ONLY:
            return {}
        listed = definition.tools or ()
        return {
            name: door
            for name, door in doors(self._subagents()).items()
            if name in listed or (info.depth == 0 and definition.allows(name))
        }

    def _prompt(self, info: AgentInfo, definition: Definition, cwd: Path, tools: Collection[str]) -> str:
        places = self._host.workspace
        known = self._catalogue.subagents()
        opened = any(name in tools for name in DELEGATION_TOOLS) or any(
            one.name in tools for one in self._catalogue.typed()
        )
        sections = (
            system_prompt(definition, cwd, places.roots, places.further, info.access, is_child=info.depth > 0),
            told_instructions(self._library.instructions(cwd)),
            describe(one for one in known if one.input_schema is None or one.name in tools) if opened else "",
            told_skills(self._library.skills.values()) if "skill" in tools else "",
        )
        return "\n\n".join(filter(None, sections))


def _ref(info: AgentInfo, parent: Agent | None) -> AgentRef:
    ancestry = (*parent.ref.ancestry, (parent.id, parent.info.label)) if parent else ()
    return AgentRef(info.agent_id, info.label, info.definition, info.model, info.depth, ancestry)
