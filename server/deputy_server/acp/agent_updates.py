"""The messages and tool calls of one agent as session updates of the Agent Client Protocol.

Updates are plain dicts, because they are frequent and the protocol's library lacks types for some of them. Tests
validate each one against the protocol's schema.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from deputy_agents.domain.event import (
    CallStatus,
    Event,
    Location,
    MessageAdded,
    MessageDelta,
    PermissionRequest,
    PlanChanged,
    PlanEntry,
    ThoughtAdded,
    ThoughtDelta,
    ToolCallStarted,
    ToolCallUpdated,
    ToolKind,
    ToolOutputDelta,
)
from deputy_agents.domain.preview import NO_FINAL_LINE_END, CommandPreview, DiffHunk, DiffPreview, TextPreview
from deputy_agents.events.subscription import LIVE_OUTPUT
from deputy_agents.text import visible
from deputy_server.consent import rule_lines
from deputy_server.preview import preview_lines
from deputy_server.rpc.json import JsonObject

_STATUS: dict[CallStatus, str] = {
    CallStatus.PENDING: "pending",
    CallStatus.IN_PROGRESS: "in_progress",
    CallStatus.COMPLETED: "completed",
    CallStatus.FAILED: "failed",
    CallStatus.CANCELLED: "failed",  # the protocol has no such status
}

_VERBATIM = (ToolKind.READ, ToolKind.SEARCH, ToolKind.EXECUTE)
"""Tool calls whose output is not Markdown."""

_TICKS = re.compile(r"`{3,}")


class AgentUpdates:
    """The updates of one agent. In another agent's session, ``prefix`` precedes the ids of its calls, and ``label``
    their titles."""

    def __init__(self, agent_id: str, label: str = "", prefix: str = "") -> None:
        self._agent_id = agent_id
        self._label = label
        self._prefix = prefix
        self._sent: dict[str, str] = {}
        """By message id, the text of an incomplete message that the client has received."""
        self._kinds: dict[str, ToolKind] = {}
        """The kinds of open calls."""
        self._output: dict[str, str] = {}
        """The output of running commands so far."""

    def of(self, event: Event) -> Iterator[JsonObject]:
        """The updates for ``event`` of this agent. Messages to the agent cause none."""
        match event.body:
            case MessageDelta(message_id, text):
                self._sent[message_id] = self._sent.get(message_id, "") + text
                yield chunk("agent_message_chunk", text, message_id)
            case ThoughtDelta(message_id, text):
                self._sent[_thought(message_id)] = self._sent.get(_thought(message_id), "") + text
                yield chunk("agent_thought_chunk", text, _thought(message_id))
            case ThoughtAdded(message_id, text):
                sent = self._sent.pop(_thought(message_id), "")
                if not sent:  # an earlier turn, or a client that missed the deltas
                    yield chunk("agent_thought_chunk", text, _thought(message_id))
            case MessageAdded(message_id, "assistant", text):
                yield from self._complete(message_id, text)
            case PlanChanged(entries):
                yield {"sessionUpdate": "plan", "entries": list(map(_step, entries))}
            case ToolCallStarted() as body:
                yield self.started(body)
            case ToolOutputDelta(of, text):
                yield self._append_output(of, text)
            case ToolCallUpdated() as body:
                yield self._updated(body)
            case _:
                pass

    def call_id(self, tool_call_id: str) -> str:
        """The id of a call in the session. The ids of models are not unique across agents."""
        return f"{self._prefix}{tool_call_id}"

    def title(self, title: str, *, named: bool) -> str:
        """A call's title; with ``named``, the agent's label precedes it."""
        label = f"[{self._label}] " if self._label else ""
        bare = title.removeprefix(label)
        return label + bare if named else bare

    def requested_call(self, request: PermissionRequest) -> JsonObject:
        """The tool call of a permission request, with its preview."""
        return {
            "toolCallId": self.call_id(request.tool_call_id),
            "title": self.title(request.title, named=True),
            "kind": request.kind.value,
            "status": "pending",
            "content": [*_preview(request), *_long_options(request)],
            "locations": _locations(request.locations),
            "rawInput": dict(request.input),
        }

    def started(self, body: ToolCallStarted) -> JsonObject:
        """The first update of a call."""
        self._kinds[body.tool_call_id] = body.kind
        return {
            "sessionUpdate": "tool_call",
            "toolCallId": self.call_id(body.tool_call_id),
            "title": self.title(body.title, named=bool(self._prefix)),
            "name": body.tool,
            "kind": body.kind.value,
            "status": _STATUS[body.status],
            "content": _edit(body),
            "locations": _locations(body.locations),
            "rawInput": dict(body.input),
            "_meta": {"deputy": {"agentId": self._agent_id}},
        }

    def _complete(self, message_id: str, text: str) -> Iterator[JsonObject]:
        """The part of a message that the client has not received. If it has received a different beginning, from before
        a retry, the message is sent as a new one: sent text cannot be withdrawn."""
        rest = remainder(self._sent.pop(message_id, ""), text)
        if rest is None:
            yield chunk("agent_message_chunk", text, f"{message_id}/whole")
        elif rest.strip():
            yield chunk("agent_message_chunk", rest, message_id)

    def _append_output(self, tool_call_id: str, text: str) -> JsonObject:
        output = self._output[tool_call_id] = (self._output.get(tool_call_id, "") + text)[-LIVE_OUTPUT:]
        return call_update(self.call_id(tool_call_id), content=[content(fenced(output))])

    def _updated(self, body: ToolCallUpdated) -> JsonObject:
        ended = is_over(body.status)
        kind = self._kinds.pop(body.tool_call_id, None) if ended else self._kinds.get(body.tool_call_id)
        if ended:
            self._output.pop(body.tool_call_id, None)
        shown: Sequence[JsonObject] | None = None
        if body.diff is not None and body.locations:
            shown = [_hunk(body.locations[0].path, hunk) for hunk in body.diff.hunks]
        elif body.content is not None:
            shown = [content(fenced(body.content) if kind in _VERBATIM else body.content)]
        return call_update(
            self.call_id(body.tool_call_id),
            status=_STATUS[body.status],
            content=shown,
            locations=None if body.locations is None else _locations(body.locations),
        )


def _thought(message_id: str) -> str:
    """The message id of what the model thought before a message."""
    return f"{message_id}/thought"


def is_over(status: CallStatus) -> bool:
    return status not in (CallStatus.PENDING, CallStatus.IN_PROGRESS)


def chunk(kind: str, text: str, message_id: str) -> JsonObject:
    """A part of a message."""
    return {"sessionUpdate": kind, "messageId": message_id, "content": {"type": "text", "text": text}}


def call_update(call_id: str, **fields: object) -> JsonObject:
    """An update of a tool call; fields that are ``None`` do not change."""
    given = {name: value for name, value in fields.items() if value is not None}
    return {"sessionUpdate": "tool_call_update", "toolCallId": call_id, **given}


def content(text: str) -> JsonObject:
    """Text as content of a tool call."""
    return {"type": "content", "content": {"type": "text", "text": text}}


def fenced(text: str) -> str:
    """``text`` in a Markdown code block."""
    fence = max(["```", *(f"{ticks}`" for ticks in _TICKS.findall(text))], key=len)
    end = "" if text.endswith("\n") else "\n"
    return f"{fence}\n{text}{end}{fence}"


def remainder(sent: str, text: str) -> str | None:
    """The rest of ``text`` after ``sent``, or ``None`` if ``text`` begins differently. White space is ignored: a
    complete message is joined from its parts."""
    at = 0
    for char in sent:
        if char.isspace():
            continue
        while at < len(text) and text[at].isspace():
            at += 1
        if at == len(text) or text[at] != char:
            return None
        at += 1
    return text[at:]


def _step(entry: PlanEntry) -> JsonObject:
    return {"content": entry.content, "status": entry.status, "priority": entry.priority or "medium"}


def _edit(body: ToolCallStarted) -> list[JsonObject]:
    """The diff of an edit, as far as it follows from the input."""
    if body.kind is not ToolKind.EDIT or not body.locations:
        return []
    old, new = _texts(body.input)
    return [] if new is None else [_diff(body.locations[0].path, old, new)]


def _texts(input: Mapping[str, object]) -> tuple[str | None, str | None]:
    """The old and new text in the input of ``edit_file`` or ``write_file``."""
    old, new = input.get("old_string"), input.get("new_string", input.get("content"))
    return old if isinstance(old, str) else None, new if isinstance(new, str) else None


def _diff(path: str, old: str | None, new: str) -> JsonObject:
    return {"type": "diff", "path": path, "oldText": old, "newText": new}


def _hunk(path: str, hunk: DiffHunk) -> JsonObject:
    """Changed lines with some around them, as the old and the new text of a diff."""
    old, new = (_side(hunk.lines, sign) for sign in "-+")
    return _diff(path, old if hunk.old_count else None, new)


def _side(lines: Sequence[str], sign: str) -> str:
    """The lines before (``-``) or after (``+``) a change. A backslash begins a note about the line before it."""
    kept: list[str] = []
    for line in lines:
        if line.startswith((" ", sign)):
            kept.append(f"{line[1:]}\n")
        elif line == NO_FINAL_LINE_END and kept:
            kept[-1] = kept[-1].removesuffix("\n")
    return "".join(kept)


def _locations(places: Sequence[Location]) -> list[JsonObject]:
    return [{"path": at.path} if at.start is None else {"path": at.path, "line": at.start} for at in places]


def _long_options(request: PermissionRequest) -> list[JsonObject]:
    """What lasting options add, if it does not fit on their buttons."""
    lines = rule_lines(request)
    return [content(fenced("\n".join(lines)))] if lines else []


def _preview(request: PermissionRequest) -> list[JsonObject]:
    """The full preview of a call: users must not approve anything that they cannot see."""
    match request.preview:
        case DiffPreview(path, old, str(new)):
            return [_diff(path, old, new)]
        case DiffPreview() as preview:
            shown = [content(fenced("\n".join(preview_lines(preview))))]
        case CommandPreview(command, cwd):
            shown = [content(f"{fenced(command)}\nin `{visible(cwd)}`")]
        case TextPreview(text):
            shown = [content(fenced(text))]
        case None:
            shown = []
    return [*shown, content(visible(request.reason))] if request.reason else shown
