"""An agent's transcript as a Markdown document: what happened, what happens now, and what waits for the user.

It is made for editors that know nothing of Deputy, read as plain text as often as rendered. Children are links to
their own documents. What waits for the user stands last, so that no text of a model can come after it.
"""

import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import TypeAlias

from deputy_agents.domain.event import Location, MessageAdded, PermissionRequest, ToolKind
from deputy_agents.events.view import AgentNode, ChildBlock, Entry, EntryBody, ToolCall
from deputy_agents.session.snapshot import Reading
from deputy_agents.text import visible
from deputy_server.convert.uris import uri_of
from deputy_server.icons import ASKING, ICONS
from deputy_server.preview import preview_lines

DocumentOf: TypeAlias = Callable[[AgentNode], str]
"""The relative address of an agent's document."""
Redact: TypeAlias = Callable[[str], str]

WAITING = "## Waiting for you"

_MARKUP = re.compile(r"[\[\]\\`<]")
_LINKING = re.compile(r"\](?=[(\[:])|[\\`<]")
"""Most brackets make no link, and those who read the source like them as they are."""
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})(.*)$", re.MULTILINE)
_OUTPUT_LINES = 30
_HOW = "Answer where the editor asks, or here by a code lens or code action."


def heading(request: PermissionRequest) -> str:
    """The line that a question begins with, and no other: two may be about the same call."""
    return f"### {words(request.title)} ({request.request_id[-6:]})"


class Transcript:
    """The document of one agent of ``reading``, without secrets: it may be written to a file. It remembers what it has
    drawn: of a long one, most stays as it is."""

    def __init__(self, reading: Reading, agent_id: str, document_of: DocumentOf, redact: Redact) -> None:
        self._reading = reading
        self._agent_id = agent_id
        self._document_of = document_of
        self._redact = redact
        self._drawn: dict[int, tuple[EntryBody, str]] = {}

    def text(self, draft: str = "") -> str:
        """As it is now; ``draft`` is what the agent has said so far of a message that is not complete."""
        nodes = {node.info.agent_id: node for node in self._reading.agents()}
        node = nodes[self._agent_id]
        entries, _ = self._reading.transcript(self._agent_id)
        shown = {entry.body.node.info.tool_call_id for entry in entries if isinstance(entry.body, ChildBlock)}
        # The call that made a child is told by the child's line.
        parts = [self._redact(self._head(node, nodes))] + [
            self._entry(entry, node)
            for entry in entries
            if not (isinstance(entry.body, ToolCall) and entry.body.started.tool_call_id in shown)
        ]
        if draft:
            parts.append(f"**{_speaker(node, 'assistant')}** {ICONS['running']}\n\n{_ended(self._redact(draft))}\n")
        if asked := [request for request in self._reading.permission_requests() if self._concerns(request)]:
            parts += [f"{WAITING}\n\n{_HOW}\n", *(self._redact(_question(request)) for request in asked)]
        return _joined(parts)

    def _concerns(self, request: PermissionRequest) -> bool:
        """It is asked by this agent, or by one below it."""
        above = (agent_id for agent_id, _ in request.agent.ancestry)
        return self._agent_id in (request.agent.agent_id, *above)

    def _head(self, node: AgentNode, nodes: dict[str, AgentNode]) -> str:
        if node.info.parent_id is None:
            counts = self._reading.view.status()
            waiting = f" · {counts.awaiting_permission} waiting for you" if counts.awaiting_permission else ""
            title = words(self._reading.record.title) or "Deputy"
            return (
                f"# {title}\n\n{_state(node)} · {visible(node.info.model)}\n\n"
                f"Agents: 1 primary, {counts.running} running, {counts.finished} finished{waiting}\n"
            )
        parent = nodes[node.info.parent_id]
        title = self._reading.record.title if parent.info.parent_id is None else parent.info.label
        above = link(title or "Deputy", self._document_of(parent))
        return f"# {words(node.info.label)}\n\n{_state(node)} · {_figures(node)} · asked for by {above}\n"

    def _entry(self, entry: Entry, node: AgentNode) -> str:
        body, drawn = self._drawn.get(entry.seq, (None, ""))
        if body != entry.body:
            drawn = self._redact("".join(self._lines(entry.body, node)))
            self._drawn[entry.seq] = entry.body, drawn
        return drawn

    def _lines(self, body: EntryBody, node: AgentNode) -> Iterator[str]:
        match body:
            case MessageAdded(role=role, text=text, references=references) as body:
                yield f"**{_speaker(node, role)}**\n\n{_ended(text) or f'[pictures: {body.pictures}]'}\n"
                if references:
                    yield f"\nPlaces: {', '.join(map(self._place, references))}\n"
            case ToolCall() as call:
                yield from _call(call)
            case ChildBlock(child):
                doing = f" · {words(child.activity)}" if child.activity else ""
                name = link(child.info.label, self._document_of(child))
                yield f"- {_state(child)} · {name} · {_figures(child)}{doing}\n"

    def _place(self, at: Location) -> str:
        first, last = at.start or 1, at.end or at.start or 1
        lines = f"{first}" if first == last else f"{first}-{last}"
        anchor = f"#L{first}" if first == last else f"#L{first}-L{last}"
        path, cwd = Path(at.path), self._reading.record.cwd
        name = path.relative_to(cwd).as_posix() if path.is_relative_to(cwd) else at.path
        return link(f"{name}:{lines}", uri_of(at.path) + anchor)


def _joined(parts: list[str]) -> str:
    """Blank lines between parts, but none between the lines of one list."""
    text = parts[0]
    for before, part in pairwise(parts):
        text += part if before.startswith("- ") and part.startswith("- ") else f"\n{part}"
    return text


def _ended(text: str) -> str:
    """``text`` with an end for the block that it leaves open: all that follows would be part of that."""
    fence = ""
    for found in _FENCE.finditer(text):
        if not fence:
            fence = found[1]
        elif found[1].startswith(fence) and not found[2].strip():
            fence = ""
    return f"{text}\n{fence}" if fence else text


def _speaker(node: AgentNode, role: str) -> str:
    if node.info.parent_id is None:
        return "You" if role == "user" else "Deputy"
    return "Task" if role == "user" else visible(node.info.definition)


def _state(node: AgentNode) -> str:
    if node.open_permission_requests:
        return f"{ASKING} waiting for you"
    state = f"{ICONS[node.status]} {node.status}"
    if node.queue_position is not None:
        return f"{state}, place {node.queue_position} in the queue"
    why = (node.failure_reason or "").replace("_", " ") or node.detail
    return f"{state}: {words(why)}" if why else state


def _figures(node: AgentNode) -> str:
    used = node.usage.input_tokens + node.usage.output_tokens
    figures = [visible(node.info.definition), f"{node.tool_call_count} call{'' if node.tool_call_count == 1 else 's'}"]
    if node.ended_at is not None:
        figures.append(f"{node.ended_at - node.started_at:.0f} s")
    return " · ".join([*figures, f"{used} tokens"] if used else figures)


def _call(call: ToolCall) -> Iterator[str]:
    status = call.update.status if call.update else call.started.status
    yield f"- {ICONS[status]} {code(visible(call.started.title))} {status}\n"
    output = (call.update.content or "") if call.update else ""
    # What a command puts out is worth seeing, and why something failed; what was read stands in the file.
    if output and (call.started.kind is ToolKind.EXECUTE or status == "failed"):
        lines = output.splitlines()
        more = [f"… {len(lines) - _OUTPUT_LINES} more lines"] if len(lines) > _OUTPUT_LINES else []
        yield "\n" + fenced("\n".join([*lines[:_OUTPUT_LINES], *more])) + "\n"


def _question(request: PermissionRequest) -> str:
    kind = "diff" if request.kind is ToolKind.EDIT else ""
    shown = fenced("\n".join(preview_lines(request.preview, context=3)), kind)
    why = f"{words(request.reason)}\n\n" if request.reason else ""
    answers = " · ".join(visible(option.name) for option in request.options)
    return f"{heading(request)}\n\n{shown}\n\n{why}{answers}\n"


def link(text: str, target: str) -> str:
    """A link whose words are ``text``, whatever is in it."""
    return f"[{_MARKUP.sub(_escaped, visible(text))}]({target})"


def words(text: str) -> str:
    """``text`` in one line that makes no link, no picture and no code, whatever is in it."""
    return _LINKING.sub(_escaped, visible(text))


def _escaped(found: re.Match[str]) -> str:
    return f"\\{found[0]}"


def code(text: str) -> str:
    """``text`` of one line in a code span that it cannot end."""
    ticks = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    return f"`{text}`" if len(ticks) == 1 else f"{ticks} {text} {ticks}"


def fenced(text: str, kind: str = "") -> str:
    """A block that ``text`` cannot end."""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}{kind}\n{text}\n{fence}"
