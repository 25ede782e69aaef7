"""How the outcomes of a door's children become its one tool result."""

import json
from collections.abc import Sequence

from deputy_agents.definition.template import fill
from deputy_agents.domain.event import CallStatus
from deputy_agents.domain.message import ToolResult
from deputy_agents.domain.outcome import Cancelled, Completed, Ending, Failed, FailureReason, Outcome, cancel_sentence
from deputy_agents.domain.result_style import Template
from deputy_agents.run.state import Children, Done
from deputy_agents.text import shortened, size_of


def delegation_result(tool_use_id: str, children: Children, limit: int) -> Done:
    """The result of a door all of whose children have ended, in the order in which they were asked for. ``limit``
    bounds the texts of several children together, in bytes."""
    by_id = {outcome.agent_id: outcome for outcome in children.completed}
    outcomes = [by_id[agent_id] for agent_id in children.order]
    if children.style == "aggregate":
        return Done(ToolResult(tool_use_id, aggregate(outcomes, limit)), CallStatus.COMPLETED)
    content, status = bare(outcomes[0])
    if isinstance(children.style, Template) and status is CallStatus.COMPLETED:
        content = fill(children.style.text, outcomes[0])
    return Done(ToolResult(tool_use_id, content, is_error=status is not CallStatus.COMPLETED), status)


def bare(outcome: Outcome) -> tuple[str, CallStatus]:
    """The answer and nothing else; of a failure its reason, then what was found until then."""
    match outcome.ending:
        case Completed(result):
            return result, CallStatus.COMPLETED
        case Failed() as failed:
            line = f"Sub-agent failed ({failed.reason}): {failed.error}"
            return (f"{line}\n\n{failed.partial}" if failed.partial else line), CallStatus.FAILED
        case Cancelled(by):
            return cancel_sentence(by), CallStatus.CANCELLED


CUT = "[cut: get_agent has all of it]"


def aggregate(outcomes: Sequence[Outcome], limit: int) -> str:
    """``{"sub_agent_results": [{agent_id, task, outcome: {success: {result}} | {failure: {error, error_kind}}}]}``.

    ``limit`` bounds the texts together, in bytes of UTF-8. When they are more, the longest are cut, to one length.
    """
    texts = [text for outcome in outcomes for text in (outcome.task, _text(outcome))]
    length = fair_length([size_of(text) for text in texts], limit)
    return json.dumps({"sub_agent_results": [_entry(outcome, length) for outcome in outcomes]}, ensure_ascii=False)


def fair_length(sizes: Sequence[int], limit: int) -> int:
    """The greatest length to which all of ``sizes`` can be cut so that ``limit`` holds them; short ones leave what they
    do not need to the long ones."""
    room = limit
    for done, size in enumerate(ordered := sorted(sizes)):
        share = room // (len(ordered) - done)
        if size > share:
            return share
        room -= size
    return max(sizes, default=0)


def _entry(outcome: Outcome, length: int) -> dict[str, object]:
    text = shortened(_text(outcome), length, f"\n{CUT}")
    match outcome.ending:
        case Completed():
            typed: dict[str, dict[str, str]] = {"success": {"result": text}}
        case Failed(reason):
            typed = {"failure": {"error": text, "error_kind": reason.value}}
        case Cancelled():
            typed = {"failure": {"error": text, "error_kind": "cancelled"}}
    return {"agent_id": outcome.agent_id, "task": shortened(outcome.task, length, "…"), "outcome": typed}


def _text(outcome: Outcome) -> str:
    match outcome.ending:
        case Completed(result):
            return result
        case Failed() as failed:
            return f"{failed.error}\n\n{failed.partial}" if failed.partial else failed.error
        case Cancelled(by):
            return cancel_sentence(by)


def told(ending: Ending) -> tuple[str, str | None, FailureReason | None]:
    """Result, error and reason as the finishing event tells them."""
    match ending:
        case Completed(result):
            return result, None, None
        case Failed(reason, error, partial):
            return partial, error, reason
        case Cancelled(by, partial):
            return partial, cancel_sentence(by), None


def background_text(outcome: Outcome) -> str:
    """How a parent is told of the end of a background child: ``{task_id, status, summary, error?}``."""
    summary, error, reason = told(outcome.ending)
    fields = {"task_id": outcome.agent_id, "status": outcome.status.value, "summary": summary}
    if error is not None:
        fields["error"] = f"{reason.value}: {error}" if reason else error
    return json.dumps(fields, ensure_ascii=False)
