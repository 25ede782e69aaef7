"""The composition root: the only place that chooses the store, the models and the settings."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Self

import anyio

from deputy_agents.domain.model_card import ModelCards
from deputy_agents.domain.settings import Settings as CoreSettings
from deputy_agents.model.directory import ModelDirectory, ModelListing
from deputy_agents.model.endpoint import ApiSettings
from deputy_agents.model.factory import ModelChoice, Models, choose_model
from deputy_agents.model.offline.model import OFFLINE
from deputy_agents.model.providers import provider_of
from deputy_agents.ports.buffers import Buffers
from deputy_agents.ports.model import Model, ModelFactory
from deputy_agents.redact import Redactor
from deputy_agents.session.clients import ClientSettings
from deputy_agents.session.runtime import Runtime
from deputy_agents.snapshots.roots import SnapshotRoots
from deputy_agents.store.sqlite import DOCUMENTS
from deputy_protocol.settings import Settings
from deputy_server.convert.settings import api_settings_from_wire, settings_from_wire
from deputy_server.model_listing import named_models, read_cards
from deputy_server.serve_options import ServeOptions
from deputy_server.settings_files import UserDefaults
from deputy_server.storage import open_state

if TYPE_CHECKING:
    from deputy_agents.model.recording import Recorder, Replay

_CLOSE_TIMEOUT: Final = 4.0
"""Seconds that each step of closing may take; together less than a forced exit waits."""


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

    def models(self, models: ModelFactory) -> ModelFactory:
        """``models``, recorded or replaced by the replay."""
        recorder, replay = self._recorder, self.replay

        def model(name: str) -> Model:
            found = replay or models(name)
            return found if recorder is None else recorder.wrap(found)

        return model

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
        self._directory = ModelDirectory(self._models, environ)
        self._can_reconnect = options.address is not None
        """Whether a client that disconnected may reconnect. Over stdio the process ends with its client."""
        self._traffic = _ModelTraffic(options, environ)
        self._cards, self._cards_problem = read_cards(environ)
        self.editors: list[Buffers] = []
        """The open documents of each client, in the order in which the clients connected."""
        self._state = open_state(environ)
        self.store_notice = self._state.notice
        """Why sessions are not stored, if they are not."""
        self.transcripts = self._state.folder / DOCUMENTS
        """The folder of the transcript files."""
        self._user_defaults = UserDefaults()
        self.redact = Redactor(environ).text
        """Removes secrets from text that is written to a file."""
        self.runtime = Runtime(
            store=self._state.store,
            approvals=self._state.approvals,
            sign_ins=self._state.sign_ins,
            snapshots=SnapshotRoots(self._state.folder),
            answered=self._state.answered,
        )

    def connect(self, settings: Settings | None = None) -> "AppClient":
        """Add a client. Without settings of its own, it has the defaults: never those of another client."""
        setup = self.setup(settings or Settings())
        return AppClient(self, setup, self.runtime.clients.connect(setup.core, setup.models, setup.grace))

    def setup(self, settings: Settings) -> "ClientSetup":
        """What follows from the settings of a client."""
        settings = self._user_defaults.below(settings)
        api = api_settings_from_wire(settings)
        choice = self._choose_model(settings, api)
        searches = choice.name != OFFLINE and provider_of(choice.name)[0].endpoint(self._environ, api).searches
        known = [name for name, _ in self._cards.cards] if searches else []
        return ClientSetup(
            core=settings_from_wire(settings, choice.name, self._directory.cards(self._cards, api), searches=searches),
            api=api,
            models=self._traffic.models(self._models.of(api)),
            grace=settings.permissions.reconnect_grace if self._can_reconnect else 0,
            notice=self._user_defaults.problem or self._cards_problem or choice.notice,
            unknown=self._user_defaults.unknown,
            named=named_models(settings, choice.name),
            offered=tuple(dict.fromkeys(filter(None, (choice.name, settings.small_model, *known, OFFLINE)))),
        )

    async def list_models(self, setup: "ClientSetup") -> ModelListing:
        """The models that a client can choose."""
        return await self._directory.list(self._cards, setup.api, setup.named)

    def cards(self, setup: "ClientSetup") -> ModelCards:
        """What is known about the models of a client by now."""
        return self._directory.cards(self._cards, setup.api)

    async def __aenter__(self) -> Self:
        await self.runtime.__aenter__()
        return self

    async def __aexit__(self, *raised: object) -> None:
        """End all sessions, close all connections to models, and complete the session store. The task that closes the
        App has usually been cancelled, so every step is shielded, and has a time limit."""
        try:
            await self.runtime.__aexit__(*raised)
        finally:
            for close in (self._models.aclose, self._state.close):
                with anyio.move_on_after(_CLOSE_TIMEOUT, shield=True):
                    await close()
            self._traffic.close()

    def _choose_model(self, settings: Settings, api: ApiSettings) -> ModelChoice:
        if self._traffic.replay is None:
            return choose_model(settings.model, self._environ, api)
        model = settings.model or self._traffic.replay.model
        return ModelChoice(model, "Deputy replays a recording and calls no model.")


@dataclass(frozen=True, slots=True)
class ClientSetup:
    """What follows from the settings of one client."""

    core: CoreSettings
    api: ApiSettings
    models: ModelFactory
    grace: float
    """Seconds that a permission request of its sessions waits for a client to reconnect."""
    notice: str | None
    """A message for the user about the choice of the model."""
    unknown: Sequence[str]
    """Names in the user's own settings file that are no settings."""
    named: Sequence[str]
    """Models in the settings."""
    offered: tuple[str, ...]
    """Models to offer to the user: those in the settings, the provider's known models, and the offline model."""


class AppClient:
    """One client of an App. Sessions that it opens run with its ``settings``."""

    def __init__(self, app: App, setup: ClientSetup, settings: ClientSettings) -> None:
        self.settings = settings
        self._app = app
        self._setup = setup

    @property
    def notice(self) -> str | None:
        """A message for the user about the choice of the model."""
        return self._setup.notice

    @property
    def unknown(self) -> Sequence[str]:
        """Messages for the user about names in their settings file that are no settings."""
        return self._setup.unknown

    @property
    def models(self) -> Sequence[str]:
        """Models to offer to the user."""
        return self._setup.offered

    async def list_models(self) -> ModelListing:
        """The models to offer, as the services list them. From then on, requests use what the lists say about the
        models."""
        listing = await self._app.list_models(self._setup)
        cards = self._app.cards(self._setup)
        if cards != self.settings.current.cards:
            self.settings.apply(replace(self.settings.current, cards=cards))
        return listing

    def configure(self, settings: Settings) -> None:
        """Apply the client's changed settings to its sessions."""
        self._setup = setup = self._app.setup(settings)
        self.settings.apply(setup.core, setup.models, setup.grace)

    def disconnect(self) -> None:
        """The client is gone, and the process keeps running."""
        self.settings.disconnect()
