"""Which model is used, and where its adapter comes from."""

from collections.abc import Mapping
from dataclasses import dataclass

from deputy_agents.model.anthropic import AnthropicModel, Endpoint
from deputy_agents.model.offline import OFFLINE, OfflineModel
from deputy_agents.ports import Model

DEFAULT_MODEL = "claude-sonnet-5-5"
"""What is used when a key is set and no model is named; any name is accepted by the setting."""

OFFLINE_NOTICE = (
    "No model is configured, so Deputy uses its built-in offline model: it searches and edits by fixed rules and "
    "understands only simple requests. Set ANTHROPIC_API_KEY, or the setting `model`, to use a language model."
)


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """The name of the model to use; ``notice`` is to be shown to the user once."""

    name: str
    notice: str | None = None


def choose_model(setting: str | None, environ: Mapping[str, str]) -> ModelChoice:
    """The setting, else ``DEPUTY_MODEL``, else a default when a key is set, else the offline model with a notice.
    Blank values count as missing."""
    if named := (setting or "").strip() or environ.get("DEPUTY_MODEL", "").strip():
        return ModelChoice(named)
    if endpoint_of(environ).credential:
        return ModelChoice(DEFAULT_MODEL)
    return ModelChoice(OFFLINE, OFFLINE_NOTICE)


def endpoint_of(environ: Mapping[str, str], base_url: str | None = None, idle_timeout: float | None = None) -> Endpoint:
    """The endpoint that ``base_url`` (a setting) and the environment name."""

    def value(name: str) -> str | None:
        return environ.get(name, "").strip() or None

    defaults = Endpoint()
    return Endpoint(
        base_url=(base_url or "").strip() or value("ANTHROPIC_BASE_URL") or defaults.base_url,
        key=value("ANTHROPIC_API_KEY"),
        token=value("ANTHROPIC_AUTH_TOKEN"),
        idle_timeout=defaults.idle_timeout if idle_timeout is None else idle_timeout,
    )


class Models:
    """The :class:`deputy_agents.ports.ModelFactory` of the product. One adapter, and so one pool of connections, is
    shared by all models of an endpoint. ``base_url`` may be set anew when the setting changes."""

    def __init__(
        self,
        environ: Mapping[str, str],
        *,
        base_url: str | None = None,
        idle_timeout: float | None = None,
        offline: Model | None = None,
    ) -> None:
        self.base_url = base_url
        self._environ = environ
        self._idle_timeout = idle_timeout
        self._offline = offline or OfflineModel()
        self._adapters: dict[Endpoint, AnthropicModel] = {}

    def __call__(self, name: str) -> Model:
        """The model of that name. Nothing is imported, read or connected before its first request."""
        if name == OFFLINE:
            return self._offline
        endpoint = endpoint_of(self._environ, self.base_url, self._idle_timeout)
        return self._adapters.setdefault(endpoint, AnthropicModel(endpoint))

    async def aclose(self) -> None:
        """Closes all connections."""
        for adapter in self._adapters.values():
            await adapter.aclose()
