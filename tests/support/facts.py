"""The facts of the project, which agents receive beside their first prompt."""

from collections.abc import Iterable

from deputy_agents.project.facts import TITLE


def without_facts(texts: Iterable[str]) -> list[str]:
    """The texts of a message or a conversation that are not the facts of the project."""
    return [text for text in texts if not text.startswith(TITLE)]
