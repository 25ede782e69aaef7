"""Selection of the model and creation of its adapter."""

from collections.abc import Mapping
from dataclasses import dataclass

from deputy_agents.model.anthropic import AnthropicModel
from deputy_agents.model.endpoint import ApiSettings, Endpoint, endpoint_of
from deputy_agents.model.fair_queue import FairQueue, QueuedModel
from deputy_agents.model.offline.model import OFFLINE, OfflineModel
from deputy_agents.ports.model import Model

DEFAULT_MODEL = "claude-sonnet-5-5"
"""The model used if a key but no model is set. The setting accepts any name."""

OFFLINE_NOTICE = (
    "No model is configured, so Deputy uses its built-in offline model, which searches and edits by fixed rules and "
    "understands only simple requests. Set ANTHROPIC_API_KEY, or the setting `model`, to use a language model."
)


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """The name of the model to use, and a ``notice`` to show to the user once."""

    name: str
    notice: str | None = None


def choose_model(setting: str | None, environ: Mapping[str, str], api: ApiSettings | None = None) -> ModelChoice:
    """The setting, else ``DEPUTY_MODEL``, else the default model if there is a key, else the offline model with a
    notice. Blank values count as missing."""
    if named := (setting or "").strip() or environ.get("DEPUTY_MODEL", "").strip():
        return ModelChoice(named)
    if endpoint_of(environ, api).has_key:
        return ModelChoice(DEFAULT_MODEL)
    return ModelChoice(OFFLINE, OFFLINE_NOTICE)


class Models:
    """The :class:`deputy_agents.ports.model.ModelFactory` of Deputy.

    All models of an endpoint share one adapter, and so one connection pool and one queue. ``api`` can be replaced when
    the settings change.
    """

    def __init__(
        self, environ: Mapping[str, str], api: ApiSettings | None = None, *, offline: Model | None = None
    ) -> None:
        self.api = api or ApiSettings()
        self._environ = environ
        self._offline = offline or OfflineModel()
        self._adapters: dict[Endpoint, AnthropicModel] = {}
        self._models: dict[Endpoint, Model] = {}

    def __call__(self, name: str) -> Model:
        """The model with ``name``. Imports, files and connections wait until its first request."""
        if name == OFFLINE:
            return self._offline
        endpoint = endpoint_of(self._environ, self.api)
        if endpoint not in self._models:
            adapter = self._adapters[endpoint] = AnthropicModel(endpoint)
            self._models[endpoint] = QueuedModel(adapter, FairQueue())
        return self._models[endpoint]

    async def aclose(self) -> None:
        """Closes all connections."""
        for adapter in self._adapters.values():
            await adapter.aclose()
