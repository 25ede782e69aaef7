"""Tools for the session itself: ``list_agents``, ``get_agent`` and the plan (``todo``)."""

import json
from typing import Annotated, Literal

from pydantic import Field

from deputy_agents.domain.errors import ToolError
from deputy_agents.domain.event import PlanEntry, ToolKind
from deputy_agents.domain.rule import AccessRequest, Action
from deputy_agents.events.view import AgentNode
from deputy_agents.text import cut, make_label
from deputy_agents.tool.args import Args, ArgsTool
from deputy_agents.tool.base import Prepared, ToolContext, ToolOutput

DEFAULT_PAGE = 16_000
MAX_PAGE = 48_000
MAX_PLAN = 100
MAX_LISTED = 100
"""Agents in one list: every agent that has not ended, and the latest of those that have."""
MAX_ERROR = 300
"""Characters of an error in the list; ``get_agent`` returns the full error."""


class ListAgentsArgs(Args):
    pass


class GetAgentArgs(Args):
    agent_id: Annotated[str, Field(min_length=1, description="Id of the agent, from list_agents or a result.")]
    offset: Annotated[int, Field(ge=0, description="First character of the result to return.")] = 0
    limit: Annotated[int, Field(ge=1, le=MAX_PAGE, description="Maximum number of characters.")] = DEFAULT_PAGE
    messages: Annotated[bool, Field(description="Return the agent's messages instead of its result.")] = False


class PlanEntryArgs(Args):
    content: Annotated[str, Field(min_length=1, max_length=500, description="One step, worded for the user.")]
    status: Literal["pending", "in_progress", "completed"] = "pending"
    priority: Literal["high", "medium", "low"] | None = None


class TodoArgs(Args):
    entries: Annotated[
        list[PlanEntryArgs],
        Field(max_length=MAX_PLAN, description="The complete plan, in order; it replaces the previous one."),
    ]


class ListAgents(ArgsTool[ListAgentsArgs]):
    def __init__(self) -> None:
        super().__init__(
            "list_agents",
            ToolKind.OTHER,
            ListAgentsArgs,
            "List all agents of this session with their state, including agents that have ended.",
        )

    async def prepare(self, args: ListAgentsArgs, context: ToolContext) -> Prepared:
        del args, context
        return _prepared(self.name, "")

    async def run(self, args: ListAgentsArgs, context: ToolContext) -> ToolOutput:
        del args
        nodes = await context.session.nodes()
        ended = [node.info.agent_id for node in nodes if node.status.ended]
        omitted = set(ended[: max(0, len(nodes) - MAX_LISTED)])
        result: dict[str, object] = {
            "agents": [_summary(node, MAX_ERROR) for node in nodes if node.info.agent_id not in omitted]
        }
        if omitted:
            result["left_out"] = f"the first {len(omitted)} that have ended"
        return ToolOutput(json.dumps(result, ensure_ascii=False))


class GetAgent(ArgsTool[GetAgentArgs]):
    """The state of one agent, and its result in pages."""

    def __init__(self) -> None:
        super().__init__(
            "get_agent",
            ToolKind.OTHER,
            GetAgentArgs,
            "Get the state and the result of an agent. A long result is returned in pages: next_offset is the offset "
            "of the next page.",
        )

    async def prepare(self, args: GetAgentArgs, context: ToolContext) -> Prepared:
        del context
        return _prepared(self.name, args.agent_id)

    async def run(self, args: GetAgentArgs, context: ToolContext) -> ToolOutput:
        node = next((node for node in await context.session.nodes() if node.info.agent_id == args.agent_id), None)
        if node is None:
            raise ToolError(f"There is no agent {args.agent_id} in this session; list_agents lists all agents.")
        read = context.session.messages_of if args.messages else context.session.result_of
        text = await read(args.agent_id)
        page = text[args.offset : args.offset + args.limit]
        end = args.offset + len(page)
        result = {**_summary(node), "messages" if args.messages else "result": page}
        if end < len(text):
            result |= {"next_offset": end, "length": len(text)}
        return ToolOutput(json.dumps(result, ensure_ascii=False))


class Todo(ArgsTool[TodoArgs]):
    """Sets the plan of the agent; the user sees it live."""

    def __init__(self) -> None:
        super().__init__(
            "todo",
            ToolKind.THINK,
            TodoArgs,
            "Maintain a plan that the user sees. Send the complete list each time; at most one entry is in_progress.",
        )

    async def prepare(self, args: TodoArgs, context: ToolContext) -> Prepared:
        del context
        done = sum(entry.status == "completed" for entry in args.entries)
        return _prepared(self.name, f"{done} of {len(args.entries)} done")

    async def run(self, args: TodoArgs, context: ToolContext) -> ToolOutput:
        context.session.set_plan([PlanEntry(entry.content, entry.status, entry.priority) for entry in args.entries])
        return ToolOutput(f"The plan has {len(args.entries)} entries.")


def _prepared(tool: str, target: str) -> Prepared:
    return Prepared(make_label(target), (AccessRequest(tool, Action.SESSION, target),))


def _summary(node: AgentNode, error_length: int | None = None) -> dict[str, object]:
    """The state of an agent as shown to other agents; absent values are omitted."""
    fields: dict[str, object] = {
        "agent_id": node.info.agent_id,
        "parent_agent_id": node.info.parent_id,
        "label": node.info.label,
        "definition": node.info.definition,
        "run": node.run,
        "status": node.status.value,
        "queue_position": node.queue_position,
        "failure_reason": node.failure_reason.value if node.failure_reason else None,
        "error": cut(node.error, error_length) if node.error and error_length else node.error,
        "tool_calls": node.tool_call_count,
        "input_tokens": node.usage.input_tokens,
        "output_tokens": node.usage.output_tokens,
    }
    return {name: value for name, value in fields.items() if value is not None}
