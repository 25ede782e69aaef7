"""The template of a typed tool's result: a text in which ``{result}`` and a few other names stand for values.

Only these names in braces mean anything; every other brace is text, so that a template can be JSON. What is put in is
never read as a template.
"""

import re

from deputy_agents.domain.errors import DeputyError
from deputy_agents.domain.outcome import Cancelled, Completed, Failed, Outcome
from deputy_agents.text import cut

PLACEHOLDERS = ("result", "agent_id", "status", "tool_calls", "input_tokens", "output_tokens")

_PLACEHOLDER = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")


class TemplateError(DeputyError):
    """A template has a placeholder that there is not, or lacks ``{result}``."""


def check_template(template: str) -> None:
    """
    Raises:
        TemplateError: an unknown placeholder, or no ``{result}``.
    """
    names = _PLACEHOLDER.findall(template)
    unknown = next((name for name in names if name not in PLACEHOLDERS), None)
    if unknown is not None:
        known = " ".join(f"{{{name}}}" for name in PLACEHOLDERS)
        raise TemplateError(f"there is no placeholder {{{cut(unknown, 40)}}}, only {known}")
    if "result" not in names:
        raise TemplateError("without {result} the answer would be lost")


def fill(template: str, outcome: Outcome) -> str:
    """``template``, which was checked, with the values of ``outcome``; ``{result}`` of a child that did not complete
    is what it had found."""
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
