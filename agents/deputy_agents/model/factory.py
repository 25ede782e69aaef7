"""Selection of the model and creation of its adapter."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from deputy_agents.model.endpoint import ApiSettings, Endpoint, endpoint_of
from deputy_agents.model.fair_queue import FairQueue, QueuedModel
from deputy_agents.model.offline.model import OFFLINE, OfflineModel
from deputy_agents.model.providers import Provider, provider_of
from deputy_agents.ports.model import Model, ModelClient, ModelFactory

DEFAULT_MODEL = "claude-sonnet-5-5"
"""The model used if a key but no model is set. The setting accepts any name."""

OFFLINE_NOTICE = (
    "No model is configured, so Deputy uses its built-in offline model, which searches and edits by fixed rules and "
    "understands only simple requests. Set ANTHROPIC_API_KEY, or the setting `model`, to use a language model."
)

NO_KEY_NOTICE = (
    "{url} is set as the address of the model service, but no key is set for it, so Deputy uses its built-in offline "
    "model, which follows fixed rules. Set ANTHROPIC_API_KEY, or the setting `model`, to use the service."
)


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """The name of the model to use, and a ``notice`` to show to the user once."""

    name: str
    notice: str | None = None


def choose_model(setting: str | None, environ: Mapping[str, str], api: ApiSettings | None = None) -> ModelChoice:
    """The setting, else ``DEPUTY_MODEL``, else the default model if there is a key or a service on this machine, else
    the offline model with a notice. Blank values count as missing."""
    if named := (setting or "").strip() or environ.get("DEPUTY_MODEL", "").strip():
        return ModelChoice(named)
    endpoint = endpoint_of(environ, api)
    if endpoint.has_key or endpoint.is_loopback:
        return ModelChoice(DEFAULT_MODEL)
    missing = NO_KEY_NOTICE.format(url=endpoint.shown_url) if endpoint.is_chosen else OFFLINE_NOTICE
    return ModelChoice(OFFLINE, missing)


class Models:
    """The models of a process.

    All models of an endpoint share one adapter, and so one connection pool and one queue. Requests never go to another
    endpoint than that of the settings that they were made with.
    """

    def __init__(self, environ: Mapping[str, str], *, offline: Model | None = None) -> None:
        self._environ = environ
        self._offline = offline or OfflineModel()
        self._clients: dict[tuple[str, Endpoint], ModelClient] = {}
        """By the prefix of the provider."""
        self._models: dict[tuple[str, Endpoint], Model] = {}

    def of(self, api: ApiSettings | None = None) -> ModelFactory:
        """The models that ``api`` and the environment lead to."""
        return partial(self._model, api)

    def client(self, provider: Provider, api: ApiSettings | None = None) -> ModelClient:
        """The adapter for the service of ``provider``. Imports, files and connections wait until its first request."""
        return self._service(provider, api)[0]

    def _model(self, api: ApiSettings | None, name: str) -> Model:
        """The model with ``name``."""
        return self._offline if name == OFFLINE else self._service(provider_of(name)[0], api)[1]

    def _service(self, provider: Provider, api: ApiSettings | None) -> tuple[ModelClient, Model]:
        key = provider.prefix, provider.endpoint(self._environ, api)
        if key not in self._clients:
            client = self._clients[key] = provider.client(key[1])
            self._models[key] = QueuedModel(client, FairQueue(), f"{provider.prefix}/")
        return self._clients[key], self._models[key]

    async def aclose(self) -> None:
        """Closes all connections."""
        for client in self._clients.values():
            await client.aclose()
