"""Delegation of the work to sub-agents, and combination of their results."""

import re
from collections.abc import Sequence

from deputy_agents.domain.message import ToolUse
from deputy_agents.model.offline.replace import edit_instructions
from deputy_agents.model.offline.search import (
    DEFINITIONS,
    DOCUMENTATION,
    ENTRY_POINTS,
    LAYOUT,
    TESTS_AND_DOCS,
    USAGES,
    search_instructions,
)
from deputy_agents.model.offline.turn import Call, Move, Turn, use
from deputy_agents.model.offline.words import Replacement, keywords

INTRODUCTION = (
    "I am Deputy's offline model: I follow fixed rules and do not understand language. Ask where or how something is "
    "done in this workspace, and several sub-agents search for the words of your question; or ask me to "
    '`replace "old text" with "new text" in path`. For real answers, set ANTHROPIC_API_KEY or the setting `model`.'
)

_REFERENCE = re.compile(r"`[^`\s:]+:\d+(?:-\d+)?`")
_NEEDS_LANGUAGE_MODEL = re.compile(
    r"\W*(please\s+|can you\s+|could you\s+)*(add|build|create|delete|fix|implement|improve|make|move|optimi[sz]e|"
    r"refactor|remove|run|update|write)\b",
    re.IGNORECASE,
)
_OVERVIEW = re.compile(
    r"\b(architecture|overview|structure|layout|organi[sz]ed|project|repo(sitory)?)\b", re.IGNORECASE
)
_MAX_QUESTION = 500
_MAX_BULLETS = 6
_MAX_LINES = 12


def delegation_step(turn: Turn, wanted: Replacement | None) -> Move:
    """Starts sub-agents in the first round, and answers from their results in the second."""
    if turn.rounds == 0:
        children = (_editor(wanted),) if wanted else _searchers(turn.task)
        subject = f"{len(children)} sub-agents look" if len(children) > 1 else "A sub-agent looks"
        return Move(f"{subject} into this, by fixed rules (offline model).", children)
    results = turn.made("spawn_agent")
    if wanted:
        return Move(_edited(results))
    return Move(_found(turn.task, results))


def _editor(wanted: Replacement) -> ToolUse:
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
    if _NEEDS_LANGUAGE_MODEL.match(request):
        opening += " I can only search and replace text: this request needs a language model."
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
    cited = (_REFERENCE.search(call.result) for call in results if not call.is_error)
    best = next(filter(None, cited), None)
    return [f"Start with {best[0]}."] if best else []
