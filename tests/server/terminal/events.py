"""Events in wire format."""

from datetime import UTC, datetime
from itertools import count

Raw = dict[str, object]
_seq = count(1)
_BASE = datetime(2026, 1, 2, 3, 4, tzinfo=UTC).timestamp()
NO_USAGE = {"inputTokens": 0, "outputTokens": 0, "cacheReadTokens": 0, "cacheWriteTokens": 0}


def at(second: float) -> float:
    """A time of the test, in seconds since the epoch."""
    return _BASE + second


def time(second: float) -> str:
    return datetime.fromtimestamp(at(second), UTC).isoformat().replace("+00:00", "Z")


def _event(type: str, agent: str, second: float = 0, /, **fields: object) -> Raw:
    seq = next(_seq)
    base: Raw = {"sessionId": "s", "agentId": agent, "run": 1, "time": time(second), "type": type}
    given = {name: value for name, value in fields.items() if value is not None}
    return {**base, "seq": seq, "agentSeq": seq, "afterSeq": seq, **given}


def turn_started() -> Raw:
    return _event("turn_started", "p", turnId="t", origin="user")


def usage(agent: str, context: Raw | None = None) -> Raw:
    return _event("usage", agent, usage=NO_USAGE, context=context)


def turn_finished() -> Raw:
    return _event("turn_finished", "p", turnId="t", stopReason="end_turn")


def _node(agent: str, label: str, run: int, status: str, depth: int, **fields: object) -> Raw:
    return {
        "agentId": agent,
        "label": label,
        "definition": "general" if depth else "primary",
        "model": "offline",
        "access": "default",
        "depth": depth,
        "run": run,
        "status": status,
        "startedAt": time(0),
        "updatedAt": time(0),
        "usage": NO_USAGE,
        "toolCallCount": 0,
        **{name: value for name, value in fields.items() if value is not None},
    }


def primary() -> Raw:
    return _event("agent_started", "p", agent=_node("p", "primary", 1, "idle", 0))


def started(
    agent: str, label: str, *, call: str | None = None, status: str = "running", queue: int | None = None, run: int = 1
) -> Raw:
    node = _node(agent, label, run, status, 1, parentAgentId="p", queuePosition=queue)
    return _event("agent_started", agent, run=run, agent=node, toolCallId=call)


def status(agent: str, status: str, at: float = 0, *, detail: str | None = None) -> Raw:
    return _event("agent_status", agent, at, status=status, detail=detail)


def activity(agent: str, text: str, calls: int) -> Raw:
    return _event("agent_activity", agent, text=text, toolCallCount=calls)


def finished(
    agent: str,
    status: str,
    *,
    at: float = 0,
    reason: str | None = None,
    error: str | None = None,
    calls: int = 0,
    tokens: int = 0,
) -> Raw:
    return _event(
        "agent_finished",
        agent,
        at,
        status=status,
        failureReason=reason,
        error=error,
        result="partial",
        usage={**NO_USAGE, "inputTokens": tokens},
        toolCallCount=calls,
        iterations=1,
        truncated=False,
    )


def delta(agent: str, message: str, text: str) -> Raw:
    return _event("message_delta", agent, messageId=message, text=text)


def message(agent: str, message: str, text: str, role: str = "assistant") -> Raw:
    return _event("message", agent, messageId=message, role=role, text=text)


def call(agent: str, id: str, title: str, kind: str = "other", **input: object) -> Raw:
    return _event(
        "tool_call",
        agent,
        toolCallId=id,
        tool=title.rpartition("] ")[2].partition("(")[0],
        title=title,
        kind=kind,
        status="in_progress",
        input=input,
        locations=[],
    )


def update(agent: str, id: str, status: str, diff: Raw | None = None) -> Raw:
    return _event("tool_call_update", agent, toolCallId=id, status=status, diff=diff)


def edit(*lines: str) -> Raw:
    """The diff of an edit at the first line of a file."""
    old, new = (sum(line.startswith((" ", sign)) for line in lines) for sign in "-+")
    return {"hunks": [{"oldStart": 1, "oldCount": old, "newStart": 1, "newCount": new, "lines": lines}]}


def permission_request(
    agent: str, request: str, *, label: str = "x", path: str = "a.py", old: str | None = "a\n", new: str = "b\n"
) -> Raw:
    """The fields of a permission request."""
    uri = f"file:///project/{path}"
    return {
        "requestId": request,
        "sessionId": "s",
        "batch": {"id": "b", "index": 0, "size": 1},
        "toolCallId": f"call-{request}",
        "agent": {
            "agentId": agent,
            "label": label,
            "definition": "general",
            "model": "offline",
            "depth": 1,
            "ancestry": [],
        },
        "title": f"[{label}] edit_file({path})",
        "tool": "edit_file",
        "kind": "edit",
        "input": {"path": path},
        "locations": [{"uri": uri}],
        "preview": {"type": "diff", "uri": uri, "oldText": old, "newText": new},
        "options": [
            {"optionId": "yes", "name": "Approve", "kind": "allow_once"},
            {"optionId": "always", "name": f"Always allow edit_file({path})", "kind": "allow_always"},
            {"optionId": "no", "name": "Deny", "kind": "reject_once"},
        ],
    }


def permission_requested(agent: str, request: str) -> Raw:
    return {**_event("permission_requested", agent), **permission_request(agent, request)}


def permission_resolved(agent: str, request: str) -> Raw:
    return _event(
        "permission_resolved", agent, requestId=request, by="user", outcome={"outcome": "selected", "optionId": "yes"}
    )
