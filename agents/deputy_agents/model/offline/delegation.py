"""Delegation of the work to sub-agents, and combination of their results."""

import re
from collections.abc import Sequence

from deputy_agents.domain.message import ToolUse
from deputy_agents.model.offline.edit_request import EditRequest
from deputy_agents.model.offline.replace import edit_instructions
from deputy_agents.model.offline.search import (
    DEFINITIONS,
    DOCUMENTATION,
    ENTRY_POINTS,
    LAYOUT,
    TESTS_AND_DOCS,
    USAGES,
    is_noise,
    search_instructions,
)
from deputy_agents.model.offline.turn import Call, Move, Turn, use
from deputy_agents.model.offline.words import asks_for_a_change, keywords

_EDITS = '`replace "old text" with "new text"`, `rename NAME to NAME` and `set NAME to VALUE`, each also with `in PATH`'
_FOR_MORE = "set ANTHROPIC_API_KEY, or the setting `model`"
INTRODUCTION = (
    "I am Deputy's offline model: I follow fixed rules and do not understand language. Ask where or how something is "
    "done in this workspace, and several sub-agents search for the words of your question; or ask me to make an exact "
    f"edit: {_EDITS}. For real answers, {_FOR_MORE}."
)
NEEDS_LANGUAGE_MODEL = (
    f"This request needs a language model. Offline, I search, and make exact edits: {_EDITS}. For more, {_FOR_MORE}."
)
"""The answer to every request for a change that is not an exact edit."""

_REFERENCE = re.compile(r"`(?P<path>[^`\s:]+):\d+(?:-\d+)?`")
_OVERVIEW = re.compile(
    r"\b(architecture|overview|structure|layout|organi[sz]ed|project|repo(sitory)?)\b", re.IGNORECASE
)
_MAX_QUESTION = 500
_MAX_BULLETS = 6
_MAX_LINES = 12


def delegation_step(turn: Turn, wanted: EditRequest | None) -> Move:
    """Starts sub-agents in the first round, and answers from their results in the second."""
    if turn.rounds == 0:
        children = (_editor(wanted),) if wanted else _searchers(turn.task)
        subject = f"{len(children)} sub-agents look" if len(children) > 1 else "A sub-agent looks"
        return Move(f"{subject} into this, by fixed rules (offline model).", children)
    results = turn.made("spawn_agent")
    if wanted:
        return Move(_edited(results))
    return Move(_found(turn.task, results))


def _editor(wanted: EditRequest) -> ToolUse:
    return use("spawn_agent", instructions=edit_instructions(wanted), mode="default")


def _searchers(request: str) -> tuple[ToolUse, ...]:
    words = keywords(request)
    if words:
        searches = [DEFINITIONS, USAGES, TESTS_AND_DOCS]
        searches += [LAYOUT] if _OVERVIEW.search(request) else []
    else:
        searches = [DOCUMENTATION, LAYOUT, ENTRY_POINTS]
    short = request[:_MAX_QUESTION]
    return tuple(
        use("spawn_agent", instructions=search_instructions(search, words, short), mode="read_only")
        for search in searches
    )


def _edited(results: Sequence[Call]) -> str:
    if not results:
        return "The sub-agent returned no result, so I do not know whether anything was changed."
    return "\n\n".join(
        f"The sub-agent did not finish: {call.result}" if call.is_error else call.result for call in results
    )


def _found(request: str, results: Sequence[Call]) -> str:
    if not results:
        return f"No sub-agent returned a result. {INTRODUCTION}"
    words = ", ".join(f"`{word}`" for word in keywords(request))
    action = f"searched for {words}" if words else "looked around the workspace"
    opening = f"I am rule-based (the offline model) and {action}; I do not understand what I found."
    if asks_for_a_change(request):
        opening = f"{NEEDS_LANGUAGE_MODEL}\n\n{opening}"
    sections = [_section(call) for call in results]
    return "\n\n".join([opening, *sections, *_advice(results)])


def _section(call: Call) -> str:
    title = call.text("instructions").partition(" of ")[0] or "Result"
    lines = call.result.strip().splitlines()
    if call.is_error:
        return f"### {title}\nNot finished: {lines[0] if lines else 'no reason given'}"
    bullets = [line for line in lines if line.startswith("- ")]
    if not bullets:
        return "\n".join([f"### {title}", *(lines[:_MAX_LINES] or ["No answer."])])
    warning = lines[:1] if lines[0].startswith("Nothing") else []
    return "\n".join([f"### {title}", *warning, *bullets[:_MAX_BULLETS]])


def _advice(results: Sequence[Call]) -> list[str]:
    cited = (match for call in results if not call.is_error for match in _REFERENCE.finditer(call.result))
    best = next((match for match in cited if not is_noise(match["path"])), None)
    return [f"Start with {best[0]}."] if best else []
