"""The model of a session, and how much it thinks and does."""

from dataclasses import replace
from typing import Literal

from deputy_agents.domain.errors import InvalidRequest, check_length
from deputy_agents.domain.model_card import Effort, ThinkingMode
from deputy_agents.session.record_keeper import RecordKeeper
from deputy_agents.session.roster import Roster
from deputy_agents.session.supervisor import Supervisor
from deputy_agents.text import clean

MAX_NAME = 200
"""Characters of a model's name."""


class ModelChoice:
    """What the user has chosen for the primary agent, kept in the record of the session. Sub-agents that start later
    have it too, unless their definition or their task says otherwise."""

    def __init__(self, keeper: RecordKeeper, roster: Roster, supervisor: Supervisor) -> None:
        self._keeper = keeper
        self._roster = roster
        self._supervisor = supervisor

    def change(
        self,
        model: str | None = None,
        effort: Effort | Literal["default"] | None = None,
        thinking: ThinkingMode | Literal["default"] | None = None,
    ) -> None:
        """Changes what is given, from the primary's next request on. ``default`` is what the settings say.

        Raises:
            InvalidRequest: the name of the model is blank or too long.
        """
        record = self._keeper.record
        if model is not None:
            record = replace(record, model=_checked(model))
        if effort is not None:
            record = replace(record, effort=None if effort == "default" else effort)
        if thinking is not None:
            record = replace(record, thinking=None if thinking == "default" else thinking)
        agent = self._roster.primary
        agent.info = replace(agent.info, model=record.model)
        agent.fallback = None
        self._keeper.change(record)
        self._supervisor.renew_primary()


def _checked(name: str) -> str:
    check_length(name, "model", MAX_NAME)
    name = clean(name).strip()
    if not name:
        raise InvalidRequest("model: a name is needed.", "model")
    return name
