"""What the user can do at the lines of a transcript: stop, open, approve, deny, take edits back."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from deputy_agents.domain.event import CallStatus, ToolCallStarted, ToolCallUpdated, ToolKind
from deputy_agents.domain.outcome import AgentStatus
from deputy_agents.events.view import AgentNode, Entry, ToolCall
from deputy_agents.session.snapshot import Reading
from deputy_agents.text import lines_of, visible
from deputy_protocol import methods
from deputy_server.rpc.json import JsonObject
from deputy_server.transcript import WAITING, heading

_DOCUMENT = re.compile(r"(?<!\\)\]\(([\w-]+\.md)\)")
"""The link of a line. In the words of a link a bracket is escaped."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A command at a line, counted from 0. ``title`` is for a place where ``subject`` stands beside it."""

    line: int
    title: str
    subject: str
    command: str
    argument: JsonObject


def marks(text: str, reading: Reading, agent_id: str, names: Mapping[str, str]) -> Iterator[Mark]:
    """Those of a document as an editor has it, which may be older than the session is. ``names`` tells whose document
    a file name is."""
    nodes = {node.info.agent_id: node for node in reading.agents()}
    lines = [line.rstrip("\r\n") for line in lines_of(text)]
    yield from _of_the_whole(nodes[agent_id], nodes, reading)
    for number, line in enumerate(lines):
        if line.startswith("- ") and (found := _DOCUMENT.search(line)) and found[1] in names:
            yield from _of_a_child(number, nodes[names[found[1]]])
    yield from _of_questions(lines, reading)


def _of_the_whole(node: AgentNode, nodes: Mapping[str, AgentNode], reading: Reading) -> Iterator[Mark]:
    of_agent: JsonObject = {"agentId": node.info.agent_id}
    label = visible(node.info.label)
    if node.info.parent_id is not None:
        above = nodes[node.info.parent_id]
        about = visible(above.info.label)
        yield Mark(0, "Open parent", about, methods.OPEN_TRANSCRIPT_COMMAND.name, {"agentId": above.info.agent_id})
    if node.status in (AgentStatus.RUNNING, AgentStatus.PENDING):
        yield Mark(0, "Stop", label, methods.CANCEL_AGENT_COMMAND.name, of_agent)
    elif any(_is_edit(entry) for entry in reading.transcript(node.info.agent_id)[0]):
        yield Mark(0, "Take its edits back", label, methods.REVERT_AGENT_COMMAND.name, of_agent)


def _is_edit(entry: Entry) -> bool:
    match entry.body:
        case ToolCall(ToolCallStarted(kind=ToolKind.EDIT), ToolCallUpdated(status=CallStatus.COMPLETED)):
            return True
        case _:
            return False


def _of_a_child(line: int, node: AgentNode) -> Iterator[Mark]:
    of_agent: JsonObject = {"agentId": node.info.agent_id}
    label = visible(node.info.label)
    yield Mark(line, "Open", label, methods.OPEN_TRANSCRIPT_COMMAND.name, of_agent)
    if not node.status.ended:
        yield Mark(line, "Stop", label, methods.CANCEL_AGENT_COMMAND.name, of_agent)


def _of_questions(lines: list[str], reading: Reading) -> Iterator[Mark]:
    """Behind the last heading alone: what stands before it may be the words of a model."""
    begin = max((number for number, line in enumerate(lines) if line == WAITING), default=len(lines))
    at = {line: number for number, line in reversed(list(enumerate(lines))) if number > begin}
    for request in reading.permission_requests():
        if (line := at.get(heading(request))) is not None:
            for option in request.options:
                answer: JsonObject = {"requestId": request.request_id, "optionId": option.option_id}
                title = visible(request.title)
                yield Mark(line, visible(option.name), title, methods.ANSWER_PERMISSION_COMMAND.name, answer)
