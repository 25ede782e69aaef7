"""The model that an agent chooses for its sub-agent."""

from collections.abc import Callable, Mapping

from deputy_agents.definition.definition import SMALL
from deputy_agents.domain.errors import ToolError
from deputy_agents.domain.settings import Settings

_WORDS: Mapping[str, Callable[[str, Settings], str]] = {
    "inherit": lambda parent, _: parent,
    SMALL: lambda parent, settings: settings.small_model or parent,
    "default": lambda _, settings: settings.model,
}
WORDS = tuple(_WORDS)
"""Words for the model of the parent, the configured small model, and the model from the settings."""


def chosen_model(wanted: str, parent: str, settings: Settings) -> str:
    """The name of the model that ``wanted``, one of :data:`WORDS` or a name, means for a child of an agent whose model
    is ``parent``.

    Raises:
        ToolError: the settings do not allow it.
    """
    if wanted in _WORDS:
        return _WORDS[wanted](parent, settings)
    if wanted not in settings.agents.models:
        allowed = ", ".join((*WORDS, *settings.agents.models))
        raise ToolError(f"model: {wanted!r} is not allowed; use one of: {allowed}.")
    return wanted
