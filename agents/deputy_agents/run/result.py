"""Builds tool results and notices from the outcomes of sub-agents."""

import json
from collections.abc import Sequence
from dataclasses import replace

from deputy_agents.definition.template import fill
from deputy_agents.domain.event import CallStatus
from deputy_agents.domain.message import Message, ToolResult
from deputy_agents.domain.outcome import Cancelled, Completed, Ending, Failed, FailureReason, Outcome, cancel_sentence
from deputy_agents.domain.result_style import Template
from deputy_agents.run.state import Children, Done
from deputy_agents.text import clean, cut_bytes, truncate, utf8_size


def delegation_result(tool_use_id: str, children: Children, limit: int) -> Done:
    """The result of a delegation call after its last child has ended, in the order of the tasks. ``limit`` bounds the
    texts of several children together, in bytes."""
    by_id = {outcome.agent_id: outcome for outcome in children.completed}
    outcomes = [by_id[agent_id] for agent_id in children.order]
    if children.style == "aggregate":
        return Done(ToolResult(tool_use_id, aggregate(outcomes, limit)), CallStatus.COMPLETED)
    content, status = bare(outcomes[0])
    if isinstance(children.style, Template) and status is CallStatus.COMPLETED:
        content = fill(children.style.text, outcomes[0])
    return Done(ToolResult(tool_use_id, content, is_error=status is not CallStatus.COMPLETED), status)


def bare(outcome: Outcome) -> tuple[str, CallStatus]:
    """The answer alone; for a failure its reason and error, then the partial result."""
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

    ``limit`` bounds all texts together, in bytes of UTF-8. Beyond it, the longest texts are cut to the same length.
    """
    texts = [text for outcome in outcomes for text in (outcome.task, _text(outcome))]
    length = fair_length([utf8_size(text) for text in texts], limit)
    return json.dumps({"sub_agent_results": [_entry(outcome, length) for outcome in outcomes]}, ensure_ascii=False)


def fair_length(sizes: Sequence[int], limit: int) -> int:
    """The greatest length such that ``sizes``, each cut to it, add up to at most ``limit``. Smaller sizes leave their
    unused share to the others."""
    left = limit
    for done, size in enumerate(ordered := sorted(sizes)):
        share = left // (len(ordered) - done)
        if size > share:
            return share
        left -= size
    return max(sizes, default=0)


READ_ON = (
    "The results of one reply share a limit. Read the rest in parts, for instance with offset, and in fewer calls."
)
_CUT_NOTE = "\n[cut at {} of {} bytes]"


def bounded_results(message: Message, limit: int) -> Message:
    """``message`` with tool results of together at most about ``limit`` bytes. Beyond it, the longest are cut to the
    same length, and the last of those says how to read on."""
    sizes = {at: utf8_size(block.content) for at, block in enumerate(message.content) if isinstance(block, ToolResult)}
    length = fair_length(list(sizes.values()), max(0, limit - len(sizes) * len(_CUT_NOTE)))
    longer = [at for at, size in sizes.items() if size > length]
    content = list(message.content)
    for at in longer:
        result, note = content[at], _CUT_NOTE.format(length, sizes[at])
        assert isinstance(result, ToolResult)
        note = f"{note} {READ_ON}" if at == longer[-1] else note
        content[at] = replace(result, content=cut_bytes(result.content, length, note))
    return replace(message, content=tuple(content)) if longer else message


def _entry(outcome: Outcome, length: int) -> dict[str, object]:
    text = cut_bytes(_text(outcome), length, f"\n{CUT}")
    match outcome.ending:
        case Completed():
            typed: dict[str, dict[str, str]] = {"success": {"result": text}}
        case Failed(reason):
            typed = {"failure": {"error": text, "error_kind": reason.value}}
        case Cancelled():
            typed = {"failure": {"error": text, "error_kind": "cancelled"}}
    return {"agent_id": outcome.agent_id, "task": cut_bytes(outcome.task, length, "…"), "outcome": typed}


def _text(outcome: Outcome) -> str:
    match outcome.ending:
        case Completed(result):
            return result
        case Failed() as failed:
            return f"{failed.error}\n\n{failed.partial}" if failed.partial else failed.error
        case Cancelled(by):
            return cancel_sentence(by)


def result_texts(ending: Ending) -> tuple[str, str | None, FailureReason | None]:
    """Result, error and failure reason, as the event at the end of a run contains them."""
    match ending:
        case Completed(result):
            return result, None, None
        case Failed(reason, error, partial):
            return partial, error, reason
        case Cancelled(by, partial):
            return partial, cancel_sentence(by), None


def bounded_ending(ending: Ending, limit: int, how_to_read_on: str) -> tuple[Ending, bool]:
    """Cleans the texts of ``ending`` and cuts each to ``limit`` bytes; also returns whether the result was cut."""
    match ending:
        case Completed(result):
            text, cut = truncate(clean(result), limit, how_to_read_on)
            return Completed(text), cut
        case Failed(_, error, partial):
            text, cut = truncate(clean(partial), limit, how_to_read_on)
            return replace(ending, error=truncate(clean(error), limit, how_to_read_on)[0], partial=text), cut
        case Cancelled(_, partial):
            text, cut = truncate(clean(partial), limit, how_to_read_on)
            return replace(ending, partial=text), cut


def background_text(outcome: Outcome) -> str:
    """The notice for the parent of a background child that ended: ``{task_id, status, summary, error?}``."""
    summary, error, reason = result_texts(outcome.ending)
    fields = {"task_id": outcome.agent_id, "status": outcome.status.value, "summary": summary}
    if error is not None:
        fields["error"] = f"{reason.value}: {error}" if reason else error
    return json.dumps(fields, ensure_ascii=False)
