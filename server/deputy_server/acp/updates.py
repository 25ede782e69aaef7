"""Events of a session as updates of the Agent Client Protocol."""

from collections.abc import Sequence
from typing import TypeAlias

from acp import helpers, schema

from deputy_agents.event import (
    AgentStarted,
    CallStatus,
    DiffPreview,
    Event,
    MessageAdded,
    MessageDelta,
    PlanChanged,
    Question,
    ThoughtDelta,
    ToolCallStarted,
    ToolCallUpdated,
)

Update: TypeAlias = (
    schema.AgentMessageChunk
    | schema.AgentThoughtChunk
    | schema.ToolCallStart
    | schema.ToolCallProgress
    | schema.AgentPlanUpdate
)

_Content: TypeAlias = schema.ContentToolCallContent | schema.FileEditToolCallContent | schema.TerminalToolCallContent

_STATUS: dict[CallStatus, schema.ToolCallStatus] = {
    CallStatus.PENDING: "pending",
    CallStatus.IN_PROGRESS: "in_progress",
    CallStatus.COMPLETED: "completed",
    CallStatus.FAILED: "failed",
    CallStatus.CANCELLED: "failed",  # the protocol has no word for it
}


class Updates:
    """What one client has been told of one session. A child's tool calls appear beside the primary's, its label before
    the title and its id in ``_meta``; what it writes stays in its transcript."""

    def __init__(self, primary_id: str) -> None:
        self._primary_id = primary_id
        self._labels: dict[str, str] = {}
        self._shown: dict[str, str] = {}
        """The text of each message that is not whole yet, as far as the client has it."""

    def of(self, event: Event) -> Sequence[Update]:
        """What ``event`` is to the client."""
        body, own = event.body, event.agent_id == self._primary_id
        match body:
            case AgentStarted(info=info):
                self._labels[info.agent_id] = info.label
            case MessageDelta(message_id=message_id, text=text) if own:
                self._shown[message_id] = self._shown.get(message_id, "") + text
                return [helpers.update_agent_message_text(text)]
            case ThoughtDelta(text=text) if own:
                return [helpers.update_agent_thought_text(text)]
            case MessageAdded(role="assistant", message_id=message_id, text=text) if own:
                rest = text.removeprefix(self._shown.pop(message_id, ""))
                return [helpers.update_agent_message_text(rest)] if rest else []
            case PlanChanged(entries=entries) if own:
                made = (
                    helpers.plan_entry(one.content, priority=one.priority or "medium", status=one.status)
                    for one in entries
                )
                return [helpers.update_plan(made)]
            case ToolCallStarted() | ToolCallUpdated():
                return [self._call(event.agent_id or "", body)]
            case _:
                pass
        return []

    def _call(self, agent_id: str, body: ToolCallStarted | ToolCallUpdated) -> Update:
        if isinstance(body, ToolCallUpdated):
            content = None if body.content is None else [helpers.tool_content(helpers.text_block(body.content))]
            update: schema.ToolCallStart | schema.ToolCallProgress = helpers.update_tool_call(
                body.tool_call_id, status=_STATUS[body.status], content=content
            )
        else:
            label = "" if agent_id == self._primary_id else f"[{self._labels.get(agent_id, agent_id)}] "
            title = body.title if body.title.startswith(label) else label + body.title
            update = helpers.start_tool_call(
                body.tool_call_id,
                title,
                kind=body.kind.value,
                status=_STATUS[body.status],
                locations=[schema.ToolCallLocation(path=one.path) for one in body.locations],
                raw_input=dict(body.input),
            )
        update.field_meta = {"deputy": {"agentId": agent_id}}
        return update


def asked(question: Question) -> tuple[schema.ToolCallUpdate, list[schema.PermissionOption]]:
    """A question as the protocol asks it: the tool call, named by who makes it, and what can be answered."""
    content: list[_Content] = []
    if isinstance(shown := question.preview, DiffPreview):
        content.append(helpers.tool_diff_content(shown.path, shown.new_text, shown.old_text))
    call = schema.ToolCallUpdate(
        tool_call_id=question.tool_call_id,
        title=question.title,
        kind=question.kind.value,
        status="pending",
        content=content,
        raw_input=dict(question.input),
    )
    options = [
        schema.PermissionOption(option_id=one.option_id, name=one.name, kind=one.kind.value) for one in question.options
    ]
    return call, options
