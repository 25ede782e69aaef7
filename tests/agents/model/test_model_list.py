"""The list of models: what services say about theirs, and what is known without them."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from urllib.parse import parse_qs, urlsplit

import pytest

from deputy_agents.domain.model_card import Effort, ModelCard, ModelCards, Price, ThinkingType
from deputy_agents.model import card_file, directory
from deputy_agents.model.directory import ModelDirectory
from deputy_agents.model.endpoint import ApiSettings
from deputy_agents.model.factory import Models
from deputy_agents.model.model_list import read_model_list
from deputy_agents.model.providers import PROVIDERS, provider_of
from tests.support.messages_api import MessagesApi, messages_api
from tests.support.model_infos import MODELS, Json, model_info, model_page
from tests.support.model_replies import say

pytestmark = pytest.mark.asyncio

OWN = Price(1, 2, 3, 4)
KNOWN = ModelCards(card_file.built_in().cards, (("mine", ModelCard(7, OWN)),))
ENVIRON = {"ANTHROPIC_API_KEY": "key"}


@asynccontextmanager
async def served() -> AsyncGenerator[tuple[ModelDirectory, MessagesApi, ApiSettings]]:
    async with asyncio.timeout(20), messages_api(lambda _body, _n: say("hello")) as api:
        models = Models(ENVIRON)
        try:
            yield ModelDirectory(models, ENVIRON), api, ApiSettings(api.url)
        finally:
            await models.aclose()


@pytest.mark.requirement("M3")
async def test_the_list_has_the_models_of_the_service_with_what_it_says_about_them() -> None:
    async with served() as (listed, api, settings):
        listing = await listed.list(KNOWN, settings, ["mine"])
        assert listing.problem is None
        assert [model.name for model in listing.models] == ["mine", *MODELS, "offline"]
        by_name = {model.name: model.card for model in listing.models}
        haiku = by_name["claude-haiku-4-5-20251001"]
        assert (haiku.window, haiku.max_output, haiku.efforts) == (200_000, 64_000, ())
        assert haiku.thinking == (ThinkingType.BUDGET, ThinkingType.DISABLED)
        assert haiku.price == KNOWN.card("claude-haiku-4-5").price
        assert by_name["mine"].price == OWN
        assert {model.provider for model in listing.models} == {"anthropic", "offline"}
        assert api.requests == []


@pytest.mark.requirement("M3")
async def test_the_list_is_requested_once_and_then_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    async with served() as (listed, api, settings):
        first, second = await asyncio.gather(*(listed.list(KNOWN, settings, []) for _ in range(2)))
        assert first == second
        assert api.lists == 1
        api.models = ()
        assert await listed.list(KNOWN, settings, []) == first
        monkeypatch.setattr(directory, "KEPT", -1.0)
        other = ModelDirectory(Models(ENVIRON), ENVIRON)
        assert (await other.list(KNOWN, settings, [])).problem is not None


@pytest.mark.requirement("M3")
async def test_what_the_service_says_counts_for_requests_from_then_on() -> None:
    async with served() as (listed, api, settings):
        new = model_info(MODELS["claude-opus-4-6"]) | {"id": "claude-new"}
        api.models = (MODELS["claude-opus-4-6"],)
        assert listed.cards(KNOWN, settings) == KNOWN
        cards = KNOWN.with_listed(await read_model_list(lambda _: _later({"data": [new]})))
        assert cards.card("claude-new-20270101").efforts == (Effort.LOW, Effort.MEDIUM, Effort.HIGH, Effort.MAX)
        await listed.list(KNOWN, settings, [])
        assert listed.cards(KNOWN, settings).card("claude-opus-4-6").price == KNOWN.card("claude-opus-4-6").price
        assert listed.cards(KNOWN, settings).card("mine") == ModelCard(7, OWN)


@pytest.mark.requirement("M3")
async def test_without_a_connection_the_list_has_the_known_models_and_says_why() -> None:
    models = Models(ENVIRON)
    listed = ModelDirectory(models, ENVIRON)
    try:
        async with asyncio.timeout(20):
            local = await listed.list(KNOWN, ApiSettings("http://127.0.0.1:9"), ["my-model"])
            public = await listed.list(KNOWN, ApiSettings(proxy="http://127.0.0.1:9"), ["my-model"])
    finally:
        await models.aclose()
    assert [model.name for model in local.models] == ["my-model", "offline"]
    assert local.problem is not None
    assert "http://127.0.0.1:9" in local.problem
    known = [name for name, _ in KNOWN.cards if name != "offline"]
    assert [model.name for model in public.models] == ["my-model", *known, "offline"]


@pytest.mark.requirement("M3")
async def test_without_a_key_nothing_is_requested() -> None:
    listing = await ModelDirectory(Models({}), {}).list(KNOWN, None, ["claude-opus-5"])
    assert [model.name for model in listing.models] == ["claude-opus-5", "offline"]
    assert listing.problem is None


async def test_all_pages_of_a_list_are_read() -> None:
    models = tuple(MODELS.values())

    async def get(path: str) -> Json:
        after = parse_qs(urlsplit(path).query).get("after_id", [None])[0]
        return model_page(models, after, limit=2)

    assert [name for name, _ in await read_model_list(get)] == list(MODELS)


@pytest.mark.parametrize(
    "page",
    [
        {"data": [{"id": "a", "object": "model"}, {"id": ""}, {"name": "b"}, None, 7, {"id": "c\n"}]},
        {"data": [{"id": "a", "max_tokens": -1, "max_input_tokens": "many", "capabilities": []}], "has_more": "yes"},
        {"data": [{"id": "a", "display_name": None, "capabilities": {"effort": 1, "thinking": {"types": None}}}]},
    ],
)
async def test_what_is_missing_or_invalid_in_a_list_is_unknown(page: Json) -> None:
    assert await read_model_list(lambda _: _later(page)) == [("a", ModelCard())]


async def test_a_list_without_an_end_is_read_in_part() -> None:
    page = {"data": [{"id": "a"}], "has_more": True, "last_id": "a"}
    assert len(await read_model_list(lambda _: _later(page))) == 1


async def test_the_sdk_knows_every_field_that_the_list_is_read_from() -> None:
    from anthropic.types import EffortCapability, ModelInfo, ThinkingTypes

    info = ModelInfo.model_validate(model_info(MODELS["claude-sonnet-5-5"]))
    assert info.capabilities is not None
    assert set(Effort) <= EffortCapability.model_fields.keys()
    assert set(ThinkingTypes.model_fields) == {"adaptive", "enabled", "between_tools", "disabled"}


async def test_a_prefix_names_the_provider_and_a_slash_alone_does_not() -> None:
    first = PROVIDERS[0]
    assert provider_of("claude-opus-5") == (first, "claude-opus-5")
    assert provider_of("anthropic/claude-opus-5") == (first, "claude-opus-5")
    assert provider_of("qwen/qwen3-coder") == (first, "qwen/qwen3-coder")
    assert provider_of("anthropic/") == (first, "anthropic/")


async def _later(page: Json) -> Json:
    return page
