"""The list contains the models of the service that the settings name, as the service lists them, and the models in the
settings. Without a key or a connection it contains the models that Deputy knows. A name that is not listed can be used
as well."""

from enum import StrEnum

from deputy_protocol.base import Number, Positive, Wire


class Effort(StrEnum):
    """How much work a model puts into its replies, from least to most. A model that does not have the level uses the
    next lower one."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    XHIGH = "xhigh"
    MAX = "max"


class Thinking(StrEnum):
    """When a model thinks before it answers: `auto` when it helps, `off` never, `always` before every answer. A model
    that cannot do that does what is closest."""

    AUTO = "auto"
    OFF = "off"
    ALWAYS = "always"


class ModelPrice(Wire):
    """US dollars for a million tokens of each kind."""

    input: Number
    output: Number
    cache_read: Number
    cache_write: Number


class ListedModel(Wire):
    """A model. What is absent is unknown."""

    name: str
    """Name for the setting `model` and for `deputy/session/setModel`."""
    display_name: str | None = None
    """Name for the user."""
    provider: str
    """Prefix of its provider, such as `anthropic`; `offline` for the built-in model."""
    window: Positive | None = None
    """Size of the context window in tokens."""
    max_output: Positive | None = None
    """Maximum number of tokens in one reply."""
    efforts: tuple[Effort, ...] | None = None
    """The levels of effort that it has. Empty if it has none."""
    thinking: tuple[Thinking, ...] | None = None
    """The modes that make a difference. Empty if it cannot think."""
    price: ModelPrice | None = None


class ModelListResult(Wire):
    """The models to offer to the user."""

    models: tuple[ListedModel, ...]
    default: str
    """Name of the model from the settings, which new sessions have."""
    problem: str | None = None
    """Why the models of the service are missing from the list, if they are."""
