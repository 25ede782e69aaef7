"""What the user can do at the lines of a transcript: stop, open, revert, approve, deny."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from deputy_agents.domain.outcome import AgentStatus
from deputy_agents.events.view import AgentNode
from deputy_agents.session.snapshot import Reading
from deputy_agents.text import lines_with_ends, visible
from deputy_protocol import command_table
from deputy_server.lsp.transcript_files import TranscriptFile
from deputy_server.rpc.json import JsonObject
from deputy_server.transcript import WAITING, heading

_LINK = re.compile(r"(?<!\\)\]\(([\w-]+\.md)\)")
"""The link of a line. Brackets in the text of a link are escaped."""


@dataclass(frozen=True, slots=True)
class LineCommand:
    """A command at a line, counted from 0. ``title`` is shown where ``subject`` is visible next to it."""

    line: int
    title: str
    subject: str
    command: str
    argument: JsonObject


def line_commands(text: str, file: TranscriptFile) -> Iterator[LineCommand]:
    """The commands of a transcript whose ``text`` is the editor's, which may be older than the session's state."""
    reading, names = file.reading, file.agents_by_name
    nodes = {node.info.agent_id: node for node in reading.agents()}
    lines = [line.rstrip("\r\n") for line in lines_with_ends(text)]
    yield from _of_agent(nodes[file.agent_id], nodes, reading)
    for number, line in enumerate(lines):
        if line.startswith("- ") and (found := _LINK.search(line)) and found[1] in names:
            yield from _of_sub_agent(number, nodes[names[found[1]]])
    yield from _of_permission_requests(lines, reading)


def _of_agent(node: AgentNode, nodes: Mapping[str, AgentNode], reading: Reading) -> Iterator[LineCommand]:
    """The commands of the transcript's agent, at the first line."""
    argument: JsonObject = {"agentId": node.info.agent_id}
    label = visible(node.info.label)
    if node.info.parent_id is not None:
        parent = nodes[node.info.parent_id].info
        open_parent: JsonObject = {"agentId": parent.agent_id}
        command = command_table.OPEN_TRANSCRIPT_COMMAND.name
        yield LineCommand(0, "Open parent", visible(parent.label), command, open_parent)
    if node.status in (AgentStatus.RUNNING, AgentStatus.PENDING):
        yield LineCommand(0, "Stop", label, command_table.CANCEL_AGENT_COMMAND.name, argument)
    elif node.info.agent_id in reading.view.transcripts.edited:
        yield LineCommand(0, "Revert edits", label, command_table.REVERT_AGENT_COMMAND.name, argument)


def _of_sub_agent(line: int, node: AgentNode) -> Iterator[LineCommand]:
    argument: JsonObject = {"agentId": node.info.agent_id}
    label = visible(node.info.label)
    yield LineCommand(line, "Open", label, command_table.OPEN_TRANSCRIPT_COMMAND.name, argument)
    if not node.status.ended:
        yield LineCommand(line, "Stop", label, command_table.CANCEL_AGENT_COMMAND.name, argument)


def _of_permission_requests(lines: list[str], reading: Reading) -> Iterator[LineCommand]:
    """The options of permission requests, only below the last heading: text before it may be from a model."""
    begin = max((number for number, line in enumerate(lines) if line == WAITING), default=len(lines))
    numbers = {line: number for number, line in reversed(list(enumerate(lines))) if number > begin}
    for request in reading.permission_requests():
        if (number := numbers.get(heading(request))) is not None:
            title = visible(request.title)
            for option in request.options:
                argument: JsonObject = {"requestId": request.request_id, "optionId": option.option_id}
                command = command_table.ANSWER_PERMISSION_COMMAND.name
                yield LineCommand(number, visible(option.name), title, command, argument)
