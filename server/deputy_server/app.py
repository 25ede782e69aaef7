"""The composition root: the only place that chooses the store, the models and the settings."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self

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
from deputy_server.serve_options import ServeOptions
from deputy_server.storage import APPROVALS, open_store, state_folder

if TYPE_CHECKING:
    from deputy_agents.model.recording import Recorder, Replay


class _ModelTraffic:
    """Records model requests and responses to a file, or replays such a file instead of calling a model."""

    def __init__(self, options: ServeOptions, environ: Mapping[str, str]) -> None:
        self._recorder: Recorder | None = None
        self.replay: Replay | None = None
        if options.record is None and options.replay is None:
            return
        from deputy_agents.model import recording  # needed only for debugging

        if options.record is not None:
            self._recorder = recording.Recorder(options.record, Redactor(environ))
        if options.replay is not None:
            self.replay = recording.replay(options.replay, environ)

    def recorded(self, model: Model) -> Model:
        return model if self._recorder is None else self._recorder.wrap(model)

    def close(self) -> None:
        if self._recorder is not None:
            self._recorder.close()


class App:
    """The parts that all connections of a process share. Creating an App reads files.

    Raises:
        InvalidRequest: the file to replay cannot be used.
        OSError: the file to record to cannot be created.
    """

    def __init__(self, environ: Mapping[str, str] = os.environ, options: ServeOptions | None = None) -> None:
        options = options or ServeOptions()
        self._environ = environ
        self._models = Models(environ)
        self._can_reconnect = options.address is not None
        """Whether a client that disconnected may reconnect. Over stdio the process ends with its client."""
        self._traffic = _ModelTraffic(options, environ)
        self._cards, self._cards_problem = _read_cards(environ)
        self.notice: str | None = None
        """A message for the user about the choice of the model."""
        self.store_notice: str | None
        """Why sessions are not stored, if they are not."""
        self.model = ""
        """The model of sessions that do not set one."""
        self._client_settings: Settings | None = None
        self.editors: list[Buffers] = []
        """The open documents of each client, in the order in which the clients connected."""
        self._choose_model()
        self._store, self.store_notice = open_store(environ)
        self.transcripts = state_folder(environ) / DOCUMENTS
        """The folder of the transcript files."""
        self.redact = Redactor(environ).text
        """Removes secrets from text that is written to a file."""
        approvals = Approvals(state_folder(environ) / APPROVALS)
        self.runtime = Runtime(
            settings=self._core_settings(), store=self._store, models=self._model, approvals=approvals
        )
        self._set_grace()

    @property
    def configured(self) -> bool:
        """Whether a client's settings are in force."""
        return self._client_settings is not None

    @property
    def models(self) -> Sequence[str]:
        """Models to offer to the user: those in the settings, the provider's known models, and the offline model."""
        known = [name for name, _ in self._cards.cards] if self.model != OFFLINE and self._is_known_provider else []
        return tuple(dict.fromkeys(filter(None, (self.model, self._settings.small_model, *known, OFFLINE))))

    def configure(self, settings: Settings) -> None:
        """Apply a client's settings, for all clients of the process."""
        self._client_settings = settings
        self._models.api = api_settings_from_wire(settings)
        self._choose_model()
        self.runtime.apply_settings(self._core_settings())
        self._set_grace()

    async def __aenter__(self) -> Self:
        await self.runtime.__aenter__()
        return self

    async def __aexit__(self, *raised: object) -> None:
        """End all sessions and close all connections to models."""
        await self.runtime.__aexit__(*raised)
        await self._store.close()
        await self._models.aclose()
        self._traffic.close()

    @property
    def _settings(self) -> Settings:
        return self._client_settings or Settings()

    def _model(self, name: str) -> Model:
        return self._traffic.recorded(self._traffic.replay or self._models(name))

    def _choose_model(self) -> None:
        if self._traffic.replay is None:
            choice = choose_model(self._settings.model, self._environ, self._models.api)
        else:
            choice = ModelChoice(
                self._settings.model or self._traffic.replay.model, "Deputy replays a recording and calls no model."
            )
        self.model, self.notice = choice.name, self._cards_problem or choice.notice

    def _set_grace(self) -> None:
        self.runtime.grace = self._settings.permissions.reconnect_grace if self._can_reconnect else 0

    def _core_settings(self) -> CoreSettings:
        searches = self.model != OFFLINE and self._is_known_provider
        return settings_from_wire(self._settings, self.model, self._cards, searches=searches)

    @property
    def _is_known_provider(self) -> bool:
        """Whether requests go to the provider whose models and features are known."""
        return endpoint_of(self._environ, self._models.api).searches


def _read_cards(environ: Mapping[str, str]) -> tuple[ModelCards, str | None]:
    """The known models, and what is wrong with the user's own file, if anything."""
    path = environ.get("DEPUTY_MODELS", "").strip()
    try:
        return (card_file.read_with_defaults(Path(path)) if path else card_file.built_in()), None
    except InvalidRequest as error:
        return card_file.built_in(), f"DEPUTY_MODELS is ignored; built-in prices are used. {error}"
