"""The list of models outside a server, for ``deputy models``."""

import os
from collections.abc import Mapping
from pathlib import Path

import anyio.to_thread

from deputy_agents.domain.errors import InvalidRequest
from deputy_agents.domain.model_card import ModelCards
from deputy_agents.model import card_file
from deputy_agents.model.directory import ModelDirectory
from deputy_agents.model.factory import Models, choose_model
from deputy_protocol.model import ModelListResult
from deputy_protocol.settings import Settings
from deputy_server.convert.model import model_list_to_wire
from deputy_server.convert.settings import api_settings_from_wire


def read_cards(environ: Mapping[str, str]) -> tuple[ModelCards, str | None]:
    """The known models, and what is wrong with the user's own file, if anything."""
    path = environ.get("DEPUTY_MODELS", "").strip()
    try:
        return (card_file.read_with_defaults(Path(path)) if path else card_file.built_in()), None
    except InvalidRequest as error:
        return card_file.built_in(), f"DEPUTY_MODELS is ignored; built-in prices are used. {error}"


def named_models(settings: Settings, model: str) -> list[str]:
    """The models that the settings name; ``model`` is the one in use."""
    named = (model, settings.small_model, settings.fallback_model, *settings.agents.models)
    return [name for name in named if name]


async def list_models(settings: Settings) -> ModelListResult:
    """The models that can be used with ``settings`` and the environment."""
    api = api_settings_from_wire(settings)
    chosen = choose_model(settings.model, os.environ, api).name
    cards, _ = await anyio.to_thread.run_sync(read_cards, os.environ)
    models = Models(os.environ)
    try:
        listing = await ModelDirectory(models, os.environ).list(cards, api, named_models(settings, chosen))
    finally:
        await models.aclose()
    return model_list_to_wire(listing, chosen)
