"""The list of models of a service that speaks the Messages API, as cards. Services of other makers send parts of it, or
lists of another form: what is missing or invalid is unknown."""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import cast
from urllib.parse import quote

from deputy_agents.domain.model_card import DEFAULT_WINDOW, Effort, ModelCard, ThinkingType
from deputy_agents.model.reply_builder import Json, as_json, as_text

MAX_MODELS = 1000
"""Models of a service, at most."""

_PAGE = "/v1/models?limit=1000"
_MAX_PAGES = 10
_MAX_TEXT = 200

_THINKING: Mapping[str, ThinkingType] = {
    "adaptive": ThinkingType.ADAPTIVE,
    "enabled": ThinkingType.BUDGET,
    "between_tools": ThinkingType.BETWEEN_TOOLS,
    "disabled": ThinkingType.DISABLED,
}
"""The types of thinking by their names in the API."""


async def read_model_list(get: Callable[[str], Awaitable[object]]) -> list[tuple[str, ModelCard]]:
    """All pages of the list. ``get`` returns the JSON at a path."""
    found: dict[str, ModelCard] = {}
    path = _PAGE
    for _ in range(_MAX_PAGES):
        page = as_json(await get(path))
        found |= dict(cards_of(page))
        last = as_text(page.get("last_id"))
        if page.get("has_more") is not True or not last or len(found) >= MAX_MODELS:
            break
        path = f"{_PAGE}&after_id={quote(last, safe='')}"
    return list(found.items())[:MAX_MODELS]


def cards_of(page: Json) -> Iterator[tuple[str, ModelCard]]:
    """The models of a page of a list, also of that of OpenAI."""
    listed = page.get("data")
    for info in map(as_json, cast("list[object]", listed) if isinstance(listed, list) else ()):
        name = as_text(info.get("id"))
        if name and len(name) <= _MAX_TEXT and name.isprintable():
            yield name, _card(info)


def _card(info: Json) -> ModelCard:
    capabilities = as_json(info.get("capabilities"))
    effort, thinking = as_json(capabilities.get("effort")), as_json(capabilities.get("thinking"))
    types = as_json(thinking.get("types"))
    return ModelCard(
        window=_count(info.get("max_input_tokens")) or DEFAULT_WINDOW,
        display_name=as_text(info.get("display_name"))[:_MAX_TEXT],
        max_output=_count(info.get("max_tokens")),
        efforts=tuple(one for one in Effort if _supported(effort.get(one))) if effort else None,
        thinking=tuple(kind for name, kind in _THINKING.items() if _supported(types.get(name))) if types else None,
    )


def _supported(capability: object) -> bool:
    return as_json(capability).get("supported") is True


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
