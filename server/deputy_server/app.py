"""The composition root: the only place where store, models and settings are chosen."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from deputy_agents.domain.errors import InvalidRequest
from deputy_agents.domain.model_card import ModelCards
from deputy_agents.domain.settings import Settings as CoreSettings
from deputy_agents.mcp.approvals import Approvals
from deputy_agents.model import card_file
from deputy_agents.model.endpoint import endpoint_of
from deputy_agents.model.factory import ModelChoice, Models, choose_model
from deputy_agents.model.offline.model import OFFLINE
from deputy_agents.ports.buffers import Buffers
from deputy_agents.ports.model import Model
from deputy_agents.redact import Redactor
from deputy_agents.session.runtime import Runtime
from deputy_agents.store.sqlite import DOCUMENTS
from deputy_protocol.settings import Settings
from deputy_server.convert.settings import api_settings_from_wire, settings_from_wire
from deputy_server.serve_options import Options
from deputy_server.storage import APPROVALS, open_store, state_folder


class App:
    """What all connections of a process share. Building one reads files.

    Raises:
        InvalidRequest: there is no recording to replay.
        OSError: none can be made.
    """

    def __init__(self, environ: Mapping[str, str] = os.environ, options: Options | None = None) -> None:
        self._environ = environ
        self._models = Models(environ)
        options = options or Options()
        self._can_return = options.endpoint is not None
        """A client that has gone may come back: the process does not end with it."""
        self._open_traffic(options)
        self._cards, self._problem = _cards(environ)
        self.notice: str | None = None
        """What to tell the user about the choice of the model, if anything."""
        self.store_notice: str | None
        """Why sessions are not kept, if they are not."""
        self.model = ""
        """The model that is used where a session names none."""
        self._settings = Settings()
        self._configured = False
        self.editors: list[Buffers] = []
        """The open documents of each client, in the order of their coming."""
        self._choose()
        self._store, self.store_notice = open_store(environ)
        self.transcripts = state_folder(environ) / DOCUMENTS
        """The folder of documents that show what agents do."""
        self.redact = Redactor(environ).text
        """Takes secrets out of what is written to a file."""
        approvals = Approvals(state_folder(environ) / APPROVALS)
        self.runtime = Runtime(
            settings=self._core_settings(), store=self._store, models=self._model, approvals=approvals
        )
        self._set_grace()

    @property
    def configured(self) -> bool:
        """A client's settings are in force."""
        return self._configured

    @property
    def models(self) -> Sequence[str]:
        """Models worth offering: those that are set, those that are known of the provider, and the one that is always
        there."""
        known = [name for name, _ in self._cards.cards] if self.model != OFFLINE and self._is_providers_own else []
        return tuple(dict.fromkeys(filter(None, (self.model, self._settings.small_model, *known, OFFLINE))))

    def configure(self, settings: Settings) -> None:
        """Puts a client's settings in force, for all clients of the process."""
        self._configured = True
        self._settings = settings
        self._models.api = api_settings_from_wire(settings)
        self._choose()
        self.runtime.apply_settings(self._core_settings())
        self._set_grace()

    async def __aenter__(self) -> Self:
        await self.runtime.__aenter__()
        return self

    async def __aexit__(self, *raised: object) -> None:
        """Ends every session and closes every connection to a model."""
        await self.runtime.__aexit__(*raised)
        await self._store.close()
        await self._models.aclose()
        if self._recorder is not None:
            self._recorder.close()

    def _open_traffic(self, options: Options) -> None:
        self._recorder = self._replay = None
        if options.record is None and options.replay is None:
            return
        from deputy_agents.model.recording import Recorder, replay  # only for those who look for a fault

        if options.record is not None:
            self._recorder = Recorder(options.record, Redactor(self._environ))
        if options.replay is not None:
            self._replay = replay(options.replay, self._environ)

    def _model(self, name: str) -> Model:
        model = self._replay or self._models(name)
        return model if self._recorder is None else self._recorder.wrap(model)

    def _choose(self) -> None:
        if self._replay is None:
            choice = choose_model(self._settings.model, self._environ, self._models.api)
        else:
            choice = ModelChoice(
                self._settings.model or self._replay.model, "Deputy replays a recording: no model works."
            )
        self.model, self.notice = choice.name, self._problem or choice.notice

    def _set_grace(self) -> None:
        self.runtime.grace = self._settings.permissions.reconnect_grace if self._can_return else 0

    def _core_settings(self) -> CoreSettings:
        searches = self.model != OFFLINE and self._is_providers_own
        return settings_from_wire(self._settings, self.model, self._cards, searches=searches)

    @property
    def _is_providers_own(self) -> bool:
        """The address is that of the provider whose models and abilities are known."""
        return endpoint_of(self._environ, self._models.api).searches


def _cards(environ: Mapping[str, str]) -> tuple[ModelCards, str | None]:
    """What is known of models, and what is wrong with the user's own file, if anything."""
    path = environ.get("DEPUTY_MODELS", "").strip()
    try:
        return (card_file.read_with_defaults(Path(path)) if path else card_file.built_in()), None
    except InvalidRequest as error:
        return card_file.built_in(), f"Deputy goes without your prices of models (DEPUTY_MODELS): {error}"
