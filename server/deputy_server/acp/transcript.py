"""What one agent says and does, as updates of a session of the Agent Client Protocol.

Updates are plain objects, as they are many, and as the protocol's library does not have types for all of them; the
tests hold each one against the protocol's own schema.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from deputy_agents.domain.event import (
    CallStatus,
    CommandPreview,
    DiffPreview,
    Event,
    Location,
    MessageAdded,
    MessageDelta,
    PermissionRequest,
    PlanChanged,
    PlanEntry,
    TextPreview,
    ThoughtDelta,
    ToolCallStarted,
    ToolCallUpdated,
    ToolKind,
    ToolOutputDelta,
)
from deputy_agents.events.subscription import LIVE_OUTPUT
from deputy_agents.text import visible
from deputy_server.rpc.json import JsonObject

_STATUS: dict[CallStatus, str] = {
    CallStatus.PENDING: "pending",
    CallStatus.IN_PROGRESS: "in_progress",
    CallStatus.COMPLETED: "completed",
    CallStatus.FAILED: "failed",
    CallStatus.CANCELLED: "failed",  # the protocol has no word for it
}

_VERBATIM = (ToolKind.READ, ToolKind.SEARCH, ToolKind.EXECUTE)
"""What these give is no Markdown."""

_TICKS = re.compile(r"`{3,}")


class Transcript:
    """The updates of one agent. In a session that is not its own, ``prefix`` goes before the ids of its calls, and its
    label before their titles."""

    def __init__(self, agent_id: str, label: str = "", prefix: str = "") -> None:
        self._agent_id = agent_id
        self._label = label
        self._prefix = prefix
        self._shown: dict[str, str] = {}
        """The text of each message that is not whole yet, as far as the client has it."""
        self._kinds: dict[str, ToolKind] = {}
        """The kinds of the calls that are open."""
        self._output: dict[str, str] = {}
        """What commands have put out so far."""

    def of(self, event: Event) -> Iterator[JsonObject]:
        """What ``event``, one of this agent's, is to the client. What was said to the agent is not in it."""
        match event.body:
            case MessageDelta(message_id, text):
                self._shown[message_id] = self._shown.get(message_id, "") + text
                yield chunk("agent_message_chunk", text, message_id)
            case ThoughtDelta(message_id, text):
                yield chunk("agent_thought_chunk", text, f"{message_id}/thought")
            case MessageAdded(message_id, "assistant", text):
                yield from self._whole(message_id, text)
            case PlanChanged(entries):
                yield {"sessionUpdate": "plan", "entries": list(map(_step, entries))}
            case ToolCallStarted() as body:
                yield self.started(body)
            case ToolOutputDelta(of, text):
                yield self._output_so_far(of, text)
            case ToolCallUpdated() as body:
                yield self._updated(body)
            case _:
                pass

    def call_id(self, tool_call_id: str) -> str:
        """A call's name in the session. Ids are the model's, and those of two agents may be the same."""
        return f"{self._prefix}{tool_call_id}"

    def title(self, title: str, *, named: bool) -> str:
        """A call's title, with who makes it in front if it is to be ``named``."""
        label = f"[{self._label}] " if self._label else ""
        bare = title.removeprefix(label)
        return label + bare if named else bare

    def asked(self, request: PermissionRequest) -> JsonObject:
        """The call that a question is about, with what it would do."""
        return {
            "toolCallId": self.call_id(request.tool_call_id),
            "title": self.title(request.title, named=True),
            "kind": request.kind.value,
            "status": "pending",
            "content": _preview(request),
            "locations": _locations(request.locations),
            "rawInput": dict(request.input),
        }

    def started(self, body: ToolCallStarted) -> JsonObject:
        """The first that a client hears of a call."""
        self._kinds[body.tool_call_id] = body.kind
        return {
            "sessionUpdate": "tool_call",
            "toolCallId": self.call_id(body.tool_call_id),
            "title": self.title(body.title, named=bool(self._prefix)),
            "name": body.tool,
            "kind": body.kind.value,
            "status": _STATUS[body.status],
            "content": _change(body),
            "locations": _locations(body.locations),
            "rawInput": dict(body.input),
            "_meta": {"deputy": {"agentId": self._agent_id}},
        }

    def _whole(self, message_id: str, text: str) -> Iterator[JsonObject]:
        """What the client lacks of a message. One that was begun otherwise, before its request was repeated, is told
        anew as a message of its own: nothing can be taken back."""
        shown = self._shown.pop(message_id, "")
        rest = behind(shown, text)
        if rest is None:
            yield chunk("agent_message_chunk", text, f"{message_id}/whole")
        elif rest.strip():
            yield chunk("agent_message_chunk", rest, message_id)

    def _output_so_far(self, tool_call_id: str, text: str) -> JsonObject:
        output = self._output[tool_call_id] = (self._output.get(tool_call_id, "") + text)[-LIVE_OUTPUT:]
        return call_update(self.call_id(tool_call_id), content=[content(fenced(output))])

    def _updated(self, body: ToolCallUpdated) -> JsonObject:
        ended = is_over(body.status)
        kind = self._kinds.pop(body.tool_call_id, None) if ended else self._kinds.get(body.tool_call_id)
        if ended:
            self._output.pop(body.tool_call_id, None)
        shown: Sequence[JsonObject] | None = None
        # Of an edit that was made the change itself says more.
        if body.content is not None and not (kind is ToolKind.EDIT and body.status is CallStatus.COMPLETED):
            shown = [content(fenced(body.content) if kind in _VERBATIM else body.content)]
        return call_update(
            self.call_id(body.tool_call_id),
            status=_STATUS[body.status],
            content=shown,
            locations=None if body.locations is None else _locations(body.locations),
        )


def is_over(status: CallStatus) -> bool:
    return status not in (CallStatus.PENDING, CallStatus.IN_PROGRESS)


def chunk(kind: str, text: str, message_id: str) -> JsonObject:
    """A piece of a message."""
    return {"sessionUpdate": kind, "messageId": message_id, "content": {"type": "text", "text": text}}


def call_update(call_id: str, **fields: object) -> JsonObject:
    """News of a tool call; a field that is ``None`` stays as it is."""
    given = {name: value for name, value in fields.items() if value is not None}
    return {"sessionUpdate": "tool_call_update", "toolCallId": call_id, **given}


def content(text: str) -> JsonObject:
    """Text as content of a tool call."""
    return {"type": "content", "content": {"type": "text", "text": text}}


def fenced(text: str) -> str:
    """``text`` as it is, in Markdown."""
    fence = max(["```", *(f"{ticks}`" for ticks in _TICKS.findall(text))], key=len)
    end = "" if text.endswith("\n") else "\n"
    return f"{fence}\n{text}{end}{fence}"


def behind(shown: str, text: str) -> str | None:
    """What of ``text`` comes behind ``shown``, or ``None`` when it begins otherwise. Blanks do not count: the whole of
    a message is put together from its parts."""
    at = 0
    for char in shown:
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


def _change(body: ToolCallStarted) -> list[JsonObject]:
    """The change that an edit makes, as far as its input alone tells it."""
    if body.kind is not ToolKind.EDIT or not body.locations:
        return []
    old, new = _texts(body.input)
    return [] if new is None else [_diff(body.locations[0].path, old, new)]


def _texts(input: Mapping[str, object]) -> tuple[str | None, str | None]:
    """The old and the new text in the input of ``edit_file`` or ``write_file``."""
    old, new = input.get("old_string"), input.get("new_string", input.get("content"))
    return old if isinstance(old, str) else None, new if isinstance(new, str) else None


def _diff(path: str, old: str | None, new: str) -> JsonObject:
    return {"type": "diff", "path": path, "oldText": old, "newText": new}


def _locations(places: Sequence[Location]) -> list[JsonObject]:
    return [{"path": at.path} if at.start is None else {"path": at.path, "line": at.start} for at in places]


def _preview(request: PermissionRequest) -> list[JsonObject]:
    """What the call would do, all of it: nobody can say yes to what is not shown."""
    match request.preview:
        case DiffPreview(path, old, new):
            return [_diff(path, old, new)]
        case CommandPreview(command, cwd):
            shown = [content(f"{fenced(command)}\nin `{visible(cwd)}`")]
        case TextPreview(text):
            shown = [content(fenced(text))]
        case None:
            shown = []
    return [*shown, content(visible(request.reason))] if request.reason else shown
