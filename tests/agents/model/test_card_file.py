"""Prices and windows of models: data that comes with Deputy, and the user's own before it."""

from pathlib import Path

import pytest

from deputy_agents.domain.errors import InvalidRequest
from deputy_agents.domain.message import Usage
from deputy_agents.domain.model_card import DEFAULT_WINDOW, ModelCard, ModelCards, Price
from deputy_agents.model import card_file
from deputy_agents.model.factory import DEFAULT_MODEL

MILLION = 1_000_000


def test_the_cards_that_come_with_deputy_are_sound_and_know_the_default_model() -> None:
    known = card_file.built_in()
    assert card_file.read(Path(card_file.__file__).with_name("models.toml")) == known
    for name, card in known.cards:
        assert card.price is None or card.price.cache_read <= card.price.input <= card.price.output, name
    assert known.card(DEFAULT_MODEL).price is not None


def test_each_kind_of_token_has_its_price() -> None:
    known = ModelCards((("m", ModelCard(price=Price(2, 10, 0.5, 4))),))
    assert known.priced("m", Usage(MILLION, MILLION, MILLION, MILLION)).cost == 16.5


@pytest.mark.parametrize("name", ["m", "m-20260922", "m@20260922", "m-latest", "m[1m]"])
def test_a_dated_version_has_the_card_of_its_name(name: str) -> None:
    assert ModelCards((("m", ModelCard(window=7)),)).card(name).window == 7


@pytest.mark.parametrize("name", ["m-5", "m-mini", "other", "m-2026", ""])
def test_an_unknown_model_gives_tokens_without_a_cost_and_a_usual_window(name: str) -> None:
    known = ModelCards((("m", ModelCard(7, Price(1, 1, 1, 1))),))
    assert known.priced(name, Usage(5, 5)) == Usage(5, 5)
    assert known.card(name).window == DEFAULT_WINDOW


def test_a_long_prompt_has_its_own_price_where_there_is_one() -> None:
    card = ModelCard(price=Price(1, 1, 1, 1), long_above=100, long_price=Price(5, 5, 5, 5))
    known = ModelCards((("m", card),))
    assert known.priced("m", Usage(40, MILLION, 30, 30)).cost == pytest.approx(1.0001)  # pyright: ignore[reportUnknownMemberType]
    assert known.priced("m", Usage(41, MILLION, 30, 30)).cost == pytest.approx(5.000505)  # pyright: ignore[reportUnknownMemberType]


def test_the_users_cards_go_before_those_that_come_with_deputy(tmp_path: Path) -> None:
    path = tmp_path / "models.toml"
    path.write_text(
        f'["{DEFAULT_MODEL}"]\nwindow = 9\n["mine"]\nprice = {{input=1, output=2, cache_read=0, cache_write=1}}'
    )
    known = card_file.read_with_defaults(path)
    assert known.card(DEFAULT_MODEL) == ModelCard(window=9)
    assert known.priced("mine", Usage(MILLION, MILLION)).cost == 3
    assert known.card("claude-opus-5").price is not None


def test_a_file_that_is_not_there_changes_nothing(tmp_path: Path) -> None:
    assert card_file.read_with_defaults(tmp_path / "none.toml") == card_file.built_in()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[m\n", "models.toml"),
        ("[m]\nwindow = 0\n", "m.window"),
        ("[m]\nwindows = 1\n", "m.windows"),
        ("[m]\nprice = {input = -1, output = 1, cache_read = 1, cache_write = 1}\n", "m.price.input"),
        ("[m]\nprice = {input = inf, output = 1, cache_read = 1, cache_write = 1}\n", "m.price.input"),
        ("[m]\nprice = {input = 1, output = 1, cache_read = 1}\n", "m.price.cache_write"),
        ("m = 3\n", "m"),
    ],
)
def test_a_file_that_cannot_be_used_says_where(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "models.toml"
    path.write_text(text)
    with pytest.raises(InvalidRequest, match=says):
        card_file.read(path)
