"""The result template of a typed definition: text with ``{result}`` and a few other placeholders.

All other braces are text, so that a template can be JSON. Inserted values are not expanded again.
"""

import re

from deputy_agents.domain.errors import DeputyError
from deputy_agents.domain.outcome import Cancelled, Completed, Failed, Outcome
from deputy_agents.text import cut

PLACEHOLDERS = ("result", "agent_id", "status", "tool_calls", "input_tokens", "output_tokens")

_PLACEHOLDER = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")


class TemplateError(DeputyError):
    """A template contains an unknown placeholder, or no ``{result}``."""


def check_template(template: str) -> None:
    """Validate ``template``.

    Raises:
        TemplateError: it contains an unknown placeholder, or no ``{result}``.
    """
    names = _PLACEHOLDER.findall(template)
    unknown = next((name for name in names if name not in PLACEHOLDERS), None)
    if unknown is not None:
        known = " ".join(f"{{{name}}}" for name in PLACEHOLDERS)
        raise TemplateError(f"unknown placeholder {{{cut(unknown, 40)}}}; the placeholders are {known}")
    if "result" not in names:
        raise TemplateError("{result} is missing, so the result would be lost")


def fill(template: str, outcome: Outcome) -> str:
    """Fill in a valid ``template`` with the values of ``outcome``. The ``{result}`` of a sub-agent that did not
    complete is its partial result."""
    values = {
        "result": _text(outcome),
        "agent_id": outcome.agent_id,
        "status": outcome.status.value,
        "tool_calls": str(outcome.tool_calls),
        "input_tokens": str(outcome.usage.input_tokens),
        "output_tokens": str(outcome.usage.output_tokens),
    }
    return _PLACEHOLDER.sub(lambda found: values.get(found[1], found[0]), template)


def _text(outcome: Outcome) -> str:
    match outcome.ending:
        case Completed(result):
            return result
        case Failed() | Cancelled() as ending:
            return ending.partial
