"""Agents, their usage, plans and reverts."""

from collections.abc import Sequence

from deputy_agents.domain import event as ev
from deputy_agents.domain.message import Usage
from deputy_agents.events import view
from deputy_agents.session.review import Reverted
from deputy_protocol import agent
from deputy_protocol import event as wire_event
from deputy_protocol.base import rfc3339
from deputy_protocol.model import Effort
from deputy_server.convert.uris import uri_of


def usage_to_wire(used: Usage) -> agent.Usage:
    return agent.Usage(
        input_tokens=used.input_tokens,
        output_tokens=used.output_tokens,
        cache_read_tokens=used.cache_read_tokens,
        cache_write_tokens=used.cache_write_tokens,
        cost=used.cost,
    )


def context_size_to_wire(size: ev.ContextSize) -> agent.ContextSize:
    return agent.ContextSize(used=size.used, window=size.window)


def agent_node_to_wire(node: view.AgentNode) -> agent.AgentNode:
    info = node.info
    return agent.AgentNode(
        agent_id=info.agent_id,
        parent_agent_id=info.parent_id,
        tool_call_id=info.tool_call_id,
        label=info.label,
        definition=info.definition,
        model=info.model,
        effort=None if info.effort is None else Effort(info.effort),
        access=agent.Access(info.access),
        depth=info.depth,
        run=node.run,
        status=agent.AgentStatus(node.status),
        queue_position=node.queue_position,
        started_at=rfc3339(node.started_at),
        updated_at=rfc3339(node.updated_at),
        ended_at=None if node.ended_at is None else rfc3339(node.ended_at),
        summary=node.summary,
        error=node.error,
        failure_reason=None if node.failure_reason is None else agent.FailureReason(node.failure_reason),
        usage=usage_to_wire(node.usage),
        context=None if node.context is None else context_size_to_wire(node.context),
        tool_call_count=node.tool_call_count,
    )


def agent_ref_to_wire(ref: ev.AgentRef) -> agent.AgentRef:
    return agent.AgentRef(
        agent_id=ref.agent_id,
        label=ref.label,
        definition=ref.definition,
        model=ref.model,
        depth=ref.depth,
        ancestry=tuple(agent.Ancestor(agent_id=agent_id, label=label) for agent_id, label in ref.ancestry),
    )


def revert_to_wire(result: Reverted) -> agent.AgentRevertResult:
    return agent.AgentRevertResult(
        reverted=tuple(map(uri_of, result.files)),
        conflicts=tuple(agent.RevertConflict(uri=uri_of(path), reason=reason) for path, reason in result.conflicts),
    )


def plan_to_wire(entries: Sequence[ev.PlanEntry]) -> tuple[wire_event.PlanEntry, ...]:
    return tuple(
        wire_event.PlanEntry(
            content=step.content,
            status=wire_event.PlanStatus(step.status),
            priority=None if step.priority is None else wire_event.PlanPriority(step.priority),
        )
        for step in entries
    )
