"""Models, their effort and their thinking."""

from typing import Literal

from deputy_agents.domain.model_card import DEFAULT_WINDOW, Effort, ModelCard, Price, ThinkingMode
from deputy_agents.model.directory import ListedModel, ModelListing
from deputy_agents.model.offline.model import OFFLINE
from deputy_protocol import model as wire
from deputy_protocol.session import Default


def model_list_to_wire(listing: ModelListing, default: str) -> wire.ModelListResult:
    return wire.ModelListResult(
        models=tuple(map(_model_to_wire, listing.models)), default=default, problem=listing.problem
    )


def _model_to_wire(model: ListedModel) -> wire.ListedModel:
    card = model.card
    modes = card.thinking_modes
    return wire.ListedModel(
        name=model.name,
        display_name=card.display_name or None,
        provider=model.provider,
        window=None if card == ModelCard(DEFAULT_WINDOW) or model.name == OFFLINE else card.window,
        max_output=card.max_output,
        efforts=None if card.efforts is None else tuple(map(wire.Effort, card.efforts)),
        thinking=None if modes is None else tuple(map(wire.Thinking, modes)),
        price=card.price and _price_to_wire(card.price),
    )


def _price_to_wire(price: Price) -> wire.ModelPrice:
    return wire.ModelPrice(
        input=price.input, output=price.output, cache_read=price.cache_read, cache_write=price.cache_write
    )


def effort_from_wire(effort: wire.Effort | None) -> Effort | None:
    return None if effort is None else Effort(effort.value)


def thinking_from_wire(thinking: wire.Thinking | None) -> ThinkingMode | None:
    return None if thinking is None else ThinkingMode(thinking.value)


def changed_effort_from_wire(effort: wire.Effort | Default | None) -> Effort | Literal["default"] | None:
    return "default" if isinstance(effort, Default) else effort_from_wire(effort)


def changed_thinking_from_wire(thinking: wire.Thinking | Default | None) -> ThinkingMode | Literal["default"] | None:
    return "default" if isinstance(thinking, Default) else thinking_from_wire(thinking)
