"""The models that can be used: what the services list, and what is known without them."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import anyio

from deputy_agents.domain.errors import ModelError, ModelErrorKind
from deputy_agents.domain.model_card import ModelCard, ModelCards
from deputy_agents.model.endpoint import ApiSettings, Endpoint
from deputy_agents.model.factory import Models
from deputy_agents.model.offline.model import OFFLINE
from deputy_agents.model.providers import PROVIDERS, Provider, provider_of

KEPT = 10 * 60.0
"""Seconds after which a list is requested again."""
KEPT_FAILURE = 15.0
"""The same after a failure."""


@dataclass(frozen=True, slots=True)
class ListedModel:
    """A model that can be chosen. ``name`` leads to it; ``provider`` is a prefix, or ``offline``."""

    name: str
    provider: str
    card: ModelCard


@dataclass(frozen=True, slots=True)
class ModelListing:
    """``problem`` says why models of a service are missing, if they are."""

    models: tuple[ListedModel, ...]
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class _Answer:
    """What a service has listed, or why it has not, and until when that counts."""

    cards: tuple[tuple[str, ModelCard], ...]
    problem: str | None
    until: float


class ModelDirectory:
    """The lists of all services of a process, each requested when it is needed and kept for some time."""

    def __init__(self, models: Models, environ: Mapping[str, str]) -> None:
        self._models = models
        self._environ = environ
        self._answers: dict[tuple[str, Endpoint], _Answer] = {}
        self._lock = anyio.Lock()

    def cards(self, known: ModelCards, api: ApiSettings | None) -> ModelCards:
        """``known``, updated by the lists that are there already."""
        for provider, endpoint in self._services(api):
            if (answer := self._answers.get((provider.prefix, endpoint))) is not None:
                known = known.with_listed(answer.cards)
        return known

    async def list(self, known: ModelCards, api: ApiSettings | None, named: Sequence[str]) -> ModelListing:
        """The models of all services with a key or on this machine, those of ``named`` (from the settings), and the
        offline model. If a known service cannot be asked, the models in ``known`` stand for its own."""
        problems: list[str] = []
        names: list[str] = []
        for provider, endpoint in self._services(api):
            answer = await self._answer(provider, endpoint, api)
            prefix = "" if provider is PROVIDERS[0] else f"{provider.prefix}/"
            listed = [name for name, _ in answer.cards]
            if answer.problem is not None:
                problems.append(answer.problem)
                listed = [name for name, _ in known.cards if name != OFFLINE] if endpoint.searches else []
            names += [f"{prefix}{name}" for name in listed]
        cards = self.cards(known, api)
        models = tuple(_listed(name, cards) for name in dict.fromkeys((*filter(None, named), *names, OFFLINE)))
        return ModelListing(models, " ".join(problems) or None)

    def _services(self, api: ApiSettings | None) -> Sequence[tuple[Provider, Endpoint]]:
        found = ((provider, provider.endpoint(self._environ, api)) for provider in PROVIDERS if provider.lists)
        return [(provider, endpoint) for provider, endpoint in found if endpoint.has_key or endpoint.is_loopback]

    async def _answer(self, provider: Provider, endpoint: Endpoint, api: ApiSettings | None) -> _Answer:
        key = provider.prefix, endpoint
        async with self._lock:
            answer = self._answers.get(key)
            if answer is None or answer.until < time.monotonic():
                answer = self._answers[key] = await _ask(self._models, provider, api)
            return answer


async def _ask(models: Models, provider: Provider, api: ApiSettings | None) -> _Answer:
    try:
        cards = tuple(await models.client(provider, api).list_models())
    except ModelError as error:
        if error.kind is ModelErrorKind.NOT_CONFIGURED and provider is not PROVIDERS[0]:
            return _Answer((), None, time.monotonic() + KEPT_FAILURE)  # a key alone does not mean that it is wanted
        problem = f"The models of {provider.name} cannot be listed. {error} {error.action}".strip()
        return _Answer((), problem, time.monotonic() + KEPT_FAILURE)
    return _Answer(cards, None, time.monotonic() + KEPT)


def _listed(name: str, cards: ModelCards) -> ListedModel:
    provider = OFFLINE if name == OFFLINE else provider_of(name)[0].prefix
    return ListedModel(name, provider, cards.card(name))
