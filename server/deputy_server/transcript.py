"""An agent's transcript as a Markdown document: its past, its current state, and open permission requests.

The document is for editors without a plugin, where it is read as plain text as often as rendered. Sub-agents are links
to their own documents. Open permission requests come last, so that no text of a model can follow them.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TypeAlias

from deputy_agents.domain.event import Location, MessageAdded, PermissionRequest, ThoughtAdded, ToolKind
from deputy_agents.events.transcript_index import EntryRef
from deputy_agents.events.view import AgentNode, ChildBlock, EntryBody, ToolCall
from deputy_agents.session.snapshot import Reading
from deputy_agents.text import visible
from deputy_server.convert.uris import uri_of
from deputy_server.edit_diff import edit_diff
from deputy_server.icons import ASKING, ICONS
from deputy_server.preview import preview_lines

DocumentOf: TypeAlias = Callable[[AgentNode], str]
"""The relative link to an agent's document."""
Redact: TypeAlias = Callable[[str], str]

WAITING = "## Waiting for you"

RENDERED_AT_ONCE = 100
"""Entries that are rendered before the event loop runs other tasks."""

_MARKUP = re.compile(r"[\[\]\\`<]")
_LINK_MARKUP = re.compile(r"\](?=[(\[:])|[\\`<]")
"""Only brackets that end the text of a link: escaping others would make the source harder to read."""
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})(.*)$", re.MULTILINE)
_OUTPUT_LINES = 30
_HOW_TO_ANSWER = "Answer in the editor's dialog, or here with a code lens or code action."


def heading(request: PermissionRequest) -> str:
    """The heading of a permission request. It is unique: two requests may have the same title."""
    return f"### {inline_text(request.title)} ({request.request_id[-6:]})"


@dataclass(frozen=True, slots=True)
class _Rendered:
    """An entry as text. ``call_id`` is that of a tool call; ``child`` the sub-agent that the text shows."""

    updated: int
    text: str
    call_id: str | None = None
    child: AgentNode | None = None


class Transcript:
    """The document of one agent of ``reading``, with secrets removed. Rendered entries are cached: most of a long
    transcript does not change."""

    def __init__(self, reading: Reading, agent_id: str, document_of: DocumentOf, redact: Redact) -> None:
        self._reading = reading
        self._agent_id = agent_id
        self._document_of = document_of
        self._redact = redact
        self._rendered: dict[int, _Rendered] = {}

    async def text(self, draft: str = "") -> str:
        """The current document. ``draft`` is the text of an incomplete message.

        Raises:
            StoreError: the store cannot be read.
        """
        refs, _ = self._reading.view.transcripts.page(self._agent_id)
        await self._render([ref for ref in refs if not self._is_rendered(ref)])
        nodes = {node.info.agent_id: node for node in self._reading.agents()}
        node = nodes[self._agent_id]
        entries = [self._current(ref.seq, nodes) for ref in refs if ref.seq in self._rendered]
        # A call that started a sub-agent is shown by the line of the sub-agent.
        starts = {entry.child.info.tool_call_id for entry in entries if entry.child is not None}
        parts = [self._redact(self._head(node, nodes))]
        parts += [entry.text for entry in entries if entry.call_id is None or entry.call_id not in starts]
        if draft:
            message = _with_closed_fence(self._redact(draft))
            parts.append(f"**{_speaker(node, 'assistant')}** {ICONS['running']}\n\n{message}\n")
        if requests := [request for request in self._reading.permission_requests() if self._concerns(request)]:
            parts.append(f"{WAITING}\n\n{_HOW_TO_ANSWER}\n")
            parts += [self._redact(_permission_request(request)) for request in requests]
        return _joined(parts)

    def _is_rendered(self, ref: EntryRef) -> bool:
        known = self._rendered.get(ref.seq)
        return known is not None and known.updated == ref.updated

    async def _render(self, refs: Sequence[EntryRef]) -> None:
        """Renders entries that are new or have changed, in steps between which other tasks run."""
        updated = dict(refs)
        for start in range(0, len(refs), RENDERED_AT_ONCE):
            for entry in await self._reading.entries(refs[start : start + RENDERED_AT_ONCE]):
                call_id = entry.body.started.tool_call_id if isinstance(entry.body, ToolCall) else None
                child = entry.body.node if isinstance(entry.body, ChildBlock) else None
                text = self._entry(entry.body)
                self._rendered[entry.seq] = _Rendered(updated[entry.seq], text, call_id, child)

    def _current(self, seq: int, nodes: dict[str, AgentNode]) -> _Rendered:
        """A rendered entry, with a sub-agent as it is now."""
        known = self._rendered[seq]
        if known.child is not None and (child := nodes[known.child.info.agent_id]) != known.child:
            known = self._rendered[seq] = replace(known, text=self._entry(ChildBlock(child)), child=child)
        return known

    def _concerns(self, request: PermissionRequest) -> bool:
        """Whether this agent, or an agent below it, has made the request."""
        ancestors = (agent_id for agent_id, _ in request.agent.ancestry)
        return self._agent_id in (request.agent.agent_id, *ancestors)

    def _head(self, node: AgentNode, nodes: dict[str, AgentNode]) -> str:
        if node.info.parent_id is None:
            counts = self._reading.view.status()
            waiting = f" · {counts.awaiting_permission} waiting for you" if counts.awaiting_permission else ""
            title = inline_text(self._reading.record.title) or "Deputy"
            return (
                f"# {title}\n\n{_state(node)} · {_model(node)}\n\n"
                f"Agents: 1 primary, {counts.running} running, {counts.finished} finished{waiting}\n"
            )
        parent = nodes[node.info.parent_id]
        model = "" if _model(parent) == _model(node) else f" · {_model(node)}"
        title = self._reading.record.title if parent.info.parent_id is None else parent.info.label
        parent_link = link(title or "Deputy", self._document_of(parent))
        return (
            f"# {inline_text(node.info.label)}\n\n{_state(node)}{model} · {_figures(node)} · started by {parent_link}\n"
        )

    def _entry(self, body: EntryBody) -> str:
        return self._redact("".join(self._lines(body, self._reading.view.agents[self._agent_id])))

    def _lines(self, body: EntryBody, node: AgentNode) -> Iterator[str]:
        match body:
            case MessageAdded(role=role, text=text, references=references) as body:
                yield f"**{_speaker(node, role)}**\n\n{_with_closed_fence(text) or f'[images: {body.pictures}]'}\n"
                if references:
                    yield f"\nReferences: {', '.join(map(self._reference, references))}\n"
            case ThoughtAdded(text=text):
                yield f"{folded_thought(text)}\n"
            case ToolCall() as call:
                yield from _call(call)
            case ChildBlock(child):
                activity = f" · {inline_text(child.activity)}" if child.activity else ""
                name = link(child.info.label, self._document_of(child))
                yield f"- {_state(child)} · {name} · {_figures(child)}{activity}\n"

    def _reference(self, at: Location) -> str:
        first, last = at.start or 1, at.end or at.start or 1
        lines = f"{first}" if first == last else f"{first}-{last}"
        anchor = f"#L{first}" if first == last else f"#L{first}-L{last}"
        path, cwd = Path(at.path), self._reading.record.cwd
        name = path.relative_to(cwd).as_posix() if path.is_relative_to(cwd) else at.path
        return link(f"{name}:{lines}", uri_of(at.path) + anchor)


def _joined(parts: list[str]) -> str:
    """Join the parts with blank lines, except between the lines of one list."""
    text = parts[0]
    for before, part in pairwise(parts):
        text += part if before.startswith("- ") and part.startswith("- ") else f"\n{part}"
    return text


def folded_thought(text: str) -> str:
    """What a model thought, as a folded quotation."""
    quoted = "\n".join(f"> {line}".rstrip() for line in text.strip().split("\n"))
    return f"<details><summary>Thinking</summary>\n\n{quoted}\n\n</details>"


def _with_closed_fence(text: str) -> str:
    """``text`` with an end for a code block that it leaves open, which would contain everything that follows."""
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
    if node.open_requests:
        return f"{ASKING} waiting for you"
    state = f"{ICONS[node.status]} {node.status}"
    if node.queue_position is not None:
        return f"{state}, position {node.queue_position} in the queue"
    reason = (node.failure_reason or "").replace("_", " ") or node.detail
    return f"{state}: {inline_text(reason)}" if reason else state


def _model(node: AgentNode) -> str:
    return " · ".join(map(visible, filter(None, (node.info.model, node.info.effort))))


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
    if diff := edit_diff(call):
        yield f"\n{fenced(diff, 'diff')}\n"
    # The output of commands and the reasons of failures are worth showing; text that was read is in the file.
    if output and (call.started.kind is ToolKind.EXECUTE or status == "failed"):
        lines = output.splitlines()
        more = [f"… {len(lines) - _OUTPUT_LINES} more lines"] if len(lines) > _OUTPUT_LINES else []
        yield "\n" + fenced("\n".join([*lines[:_OUTPUT_LINES], *more])) + "\n"


def _permission_request(request: PermissionRequest) -> str:
    language = "diff" if request.kind is ToolKind.EDIT else ""
    preview = fenced("\n".join(preview_lines(request.preview, context=3)), language)
    reason = f"{inline_text(request.reason)}\n\n" if request.reason else ""
    options = " · ".join(visible(option.name) for option in request.options)
    return f"{heading(request)}\n\n{preview}\n\n{reason}{options}\n"


def link(text: str, target: str) -> str:
    """A link with the text ``text``, escaped."""
    return f"[{_MARKUP.sub(_escaped, visible(text))}]({target})"


def inline_text(text: str) -> str:
    """``text`` in one line, escaped so that it contains no link, image or code."""
    return _LINK_MARKUP.sub(_escaped, visible(text))


def _escaped(found: re.Match[str]) -> str:
    return f"\\{found[0]}"


def code(text: str) -> str:
    """``text``, of one line, in a code span that it cannot end."""
    ticks = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    return f"`{text}`" if len(ticks) == 1 else f"{ticks} {text} {ticks}"


def fenced(text: str, language: str = "") -> str:
    """``text`` in a code block that it cannot end."""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}{language}\n{text}\n{fence}"
