"""How the outcomes of a door's children become its one tool result."""

import json
from collections.abc import Sequence

from deputy_agents.definition.template import fill
from deputy_agents.event import CallStatus
from deputy_agents.message import ToolResult
from deputy_agents.outcome import Cancelled, Completed, Failed, Outcome, cancel_sentence
from deputy_agents.run.state import Children, Done, Template


def door_result(tool_use_id: str, children: Children) -> Done:
    """The result of a door all of whose children have ended, in the order in which they were asked for."""
    by_id = {outcome.agent_id: outcome for outcome in children.completed}
    outcomes = [by_id[agent_id] for agent_id in children.order]
    if children.style == "aggregate":
        return Done(ToolResult(tool_use_id, aggregate(outcomes)), CallStatus.COMPLETED)
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


def aggregate(outcomes: Sequence[Outcome]) -> str:
    """``{"sub_agent_results": [{agent_id, task, outcome: {success: {result}} | {failure: {error, error_kind}}}]}``."""
    return json.dumps(
        {
            "sub_agent_results": [
                {"agent_id": outcome.agent_id, "task": outcome.task, "outcome": _typed(outcome)} for outcome in outcomes
            ]
        },
        ensure_ascii=False,
    )


def _typed(outcome: Outcome) -> dict[str, dict[str, str]]:
    match outcome.ending:
        case Completed(result):
            return {"success": {"result": result}}
        case Failed() as failed:
            error = f"{failed.error}\n\n{failed.partial}" if failed.partial else failed.error
            return {"failure": {"error": error, "error_kind": failed.reason.value}}
        case Cancelled(by):
            return {"failure": {"error": cancel_sentence(by), "error_kind": "cancelled"}}
