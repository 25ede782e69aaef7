"""Properties of models: the size of the context window, and prices."""

import re
from dataclasses import dataclass, replace

from deputy_agents.domain.message import Usage

DEFAULT_WINDOW = 200_000
"""The assumed context window of an unknown model, in tokens, including the reply."""

_PER = 1_000_000

_VERSION = re.compile(r"[-@](?:\d{8}|latest)(?:-v\d+)?$|\[1m\]$")
"""Suffixes that providers add to the name of the same model."""


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars per million tokens of each kind."""

    input: float
    output: float
    cache_read: float
    cache_write: float

    def cost_of(self, usage: Usage) -> float:
        cost = usage.input_tokens * self.input + usage.output_tokens * self.output
        return (cost + usage.cache_read_tokens * self.cache_read + usage.cache_write_tokens * self.cache_write) / _PER


@dataclass(frozen=True, slots=True)
class ModelCard:
    """One model. ``long_price`` replaces ``price`` for a request whose prompt, including cached parts, has more than
    ``long_above`` tokens."""

    window: int = DEFAULT_WINDOW
    price: Price | None = None
    long_above: int = 0
    long_price: Price | None = None

    def price_of(self, usage: Usage) -> Price | None:
        prompt = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
        return self.long_price if self.long_price and prompt > self.long_above else self.price


@dataclass(frozen=True, slots=True)
class ModelCards:
    """Cards by name, those of the user before the built-in ones. A name also matches its dated versions."""

    cards: tuple[tuple[str, ModelCard], ...] = ()

    def card(self, model: str) -> ModelCard:
        names = (model, _VERSION.sub("", model))
        return next((card for name, card in self.cards if name in names), _UNKNOWN)

    def priced(self, model: str, usage: Usage) -> Usage:
        """The usage of one request with its cost, if the price is known."""
        price = self.card(model).price_of(usage)
        return usage if price is None else replace(usage, cost=price.cost_of(usage))


_UNKNOWN = ModelCard()
