"""The composition root: the only place where store, models and settings are chosen."""

import os
from collections.abc import Mapping
from typing import Self

from deputy_agents.model.choose import Models, choose_model
from deputy_agents.runtime import Runtime
from deputy_agents.store.memory import MemoryStore
from deputy_protocol.settings import Settings
from deputy_server import convert


class App:
    """What all connections of a process share."""

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self._environ = environ
        self._models = Models(environ)
        choice = choose_model(None, environ)
        self.notice = choice.notice
        """What to tell the user about the choice of the model, if anything."""
        self.model = choice.name
        """The model that is used where a session names none."""
        self.runtime = Runtime(
            settings=convert.core_settings(Settings(), choice.name), store=MemoryStore(), models=self._models
        )

    def configure(self, settings: Settings) -> None:
        """Puts a client's settings in force."""
        choice = choose_model(settings.model, self._environ)
        self.model, self.notice = choice.name, choice.notice
        self._models.base_url = settings.base_url
        self.runtime.apply_settings(convert.core_settings(settings, choice.name))

    async def __aenter__(self) -> Self:
        await self.runtime.__aenter__()
        return self

    async def __aexit__(self, *raised: object) -> None:
        """Ends every session and closes every connection to a model."""
        await self.runtime.__aexit__(*raised)
        await self._models.aclose()
