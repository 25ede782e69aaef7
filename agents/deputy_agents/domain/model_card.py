"""Properties of models: sizes, prices, and what they accept as thinking and effort."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from deputy_agents.domain.message import Usage

DEFAULT_WINDOW = 200_000
"""The assumed context window of an unknown model, in tokens, including the reply."""

_PER = 1_000_000

_LONG_WRITE = 1.6
"""What a cache entry that lasts for an hour costs, in prices of one that lasts for minutes."""


class Effort(StrEnum):
    """How much work a model puts into its replies, from least to most."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    XHIGH = "xhigh"
    MAX = "max"


class ThinkingMode(StrEnum):
    """When models think before they answer: when it helps, never, or before every answer. A model that cannot do what
    is asked does what is closest."""

    AUTO = "auto"
    OFF = "off"
    ALWAYS = "always"


class ThinkingType(StrEnum):
    """What a model accepts as thinking."""

    ADAPTIVE = "adaptive"
    """It decides when and how much it thinks."""
    BUDGET = "budget"
    """It thinks before every answer, within a number of tokens."""
    BETWEEN_TOOLS = "between_tools"
    """It does not think, except for short notes between its tool calls."""
    DISABLED = "disabled"
    """It does not think."""


_VERSION = re.compile(r"[-@](?:\d{8}|latest|default)(?:-v\d+(?::\d+)?)?$|-v\d+(?::\d+)?$|\[1m\]$")
"""Suffixes that providers add to the name of the same model."""
_MAKER = re.compile(r"^(?:[a-z-]+\.)?anthropic\.")
"""A prefix that Amazon Bedrock adds."""


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars per million tokens of each kind."""

    input: float
    output: float
    cache_read: float
    cache_write: float

    def cost_of(self, usage: Usage) -> float:
        cost = usage.input_tokens * self.input + usage.output_tokens * self.output
        writes = usage.cache_write_tokens + (_LONG_WRITE - 1) * usage.long_cache_write_tokens
        return (cost + usage.cache_read_tokens * self.cache_read + writes * self.cache_write) / _PER


@dataclass(frozen=True, slots=True)
class ModelCard:
    """One model. ``long_price`` replaces ``price`` for a request whose prompt, including cached parts, has more than
    ``long_above`` tokens. ``max_output`` is the most tokens that a reply may have. ``efforts`` and ``thinking`` are
    what requests may ask for; ``None`` if it is unknown."""

    window: int = DEFAULT_WINDOW
    price: Price | None = None
    long_above: int = 0
    long_price: Price | None = None
    display_name: str = ""
    max_output: int | None = None
    efforts: tuple[Effort, ...] | None = None
    thinking: tuple[ThinkingType, ...] | None = None

    def price_of(self, usage: Usage) -> Price | None:
        prompt = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
        return self.long_price if self.long_price and prompt > self.long_above else self.price

    @property
    def thinking_modes(self) -> tuple[ThinkingMode, ...] | None:
        """The modes that make a difference for this model; ``None`` if it is unknown."""
        if self.thinking is None:
            return None
        thinks = {ThinkingType.ADAPTIVE, ThinkingType.BUDGET}.intersection(self.thinking)
        stops = {ThinkingType.BETWEEN_TOOLS, ThinkingType.DISABLED}.intersection(self.thinking)
        possible = {
            ThinkingMode.AUTO: thinks,
            ThinkingMode.OFF: thinks and stops,
            ThinkingMode.ALWAYS: ThinkingType.BUDGET in self.thinking,
        }
        return tuple(mode for mode in ThinkingMode if possible[mode])

    def over(self, other: "ModelCard") -> "ModelCard":
        """This card, with what it does not say from ``other``."""
        return replace(
            self,
            price=self.price or other.price,
            long_above=self.long_above if self.price else other.long_above,
            long_price=self.long_price if self.price else other.long_price,
            display_name=self.display_name or other.display_name,
            max_output=self.max_output or other.max_output,
            efforts=other.efforts if self.efforts is None else self.efforts,
            thinking=other.thinking if self.thinking is None else self.thinking,
        )


@dataclass(frozen=True, slots=True)
class ModelCards:
    """Cards by name: those of the user (``own``) before the known ones. A name also matches its dated versions, and may
    have the prefix of a provider."""

    cards: tuple[tuple[str, ModelCard], ...] = ()
    own: tuple[tuple[str, ModelCard], ...] = ()

    def card(self, model: str) -> ModelCard:
        return _find(self.own, model) or _find(self.cards, model) or _UNKNOWN

    def with_listed(self, listed: Iterable[tuple[str, ModelCard]]) -> "ModelCards":
        """These cards, updated by what a service says about its models. It says nothing about prices."""
        new = {name: card.over(_find(self.cards, name) or _UNKNOWN) for name, card in listed}
        return replace(self, cards=(*new.items(), *(one for one in self.cards if one[0] not in new)))

    def priced(self, model: str, usage: Usage) -> Usage:
        """The usage of one request with its cost, if the price is known."""
        price = self.card(model).price_of(usage)
        return usage if price is None else replace(usage, cost=price.cost_of(usage))


def _find(cards: tuple[tuple[str, ModelCard], ...], model: str) -> ModelCard | None:
    plain = _MAKER.sub("", model.rpartition("/")[2])
    names = (model, _VERSION.sub("", model), plain, _VERSION.sub("", plain))
    return next((card for name, card in cards if name in names), None)


_UNKNOWN = ModelCard()
