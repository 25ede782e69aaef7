"""Prices and context windows of models: built-in data, preceded by the user's file."""

from pathlib import Path

import pytest

from deputy_agents.domain.errors import InvalidRequest
from deputy_agents.domain.message import Usage
from deputy_agents.domain.model_card import DEFAULT_WINDOW, ModelCard, ModelCards, Price
from deputy_agents.model import card_file
from deputy_agents.model.factory import DEFAULT_MODEL

MILLION = 1_000_000


def test_the_built_in_cards_are_valid_and_include_the_default_model() -> None:
    known = card_file.built_in()
    assert card_file.read(Path(card_file.__file__).with_name("models.toml")) == known
    for name, card in known.cards:
        assert card.price is None or card.price.cache_read <= card.price.input <= card.price.output, name
    assert known.card(DEFAULT_MODEL).price is not None


def test_each_type_of_token_has_its_price() -> None:
    known = ModelCards((("m", ModelCard(price=Price(2, 10, 0.5, 4))),))
    assert known.priced("m", Usage(MILLION, MILLION, MILLION, MILLION)).cost == 16.5


@pytest.mark.parametrize("name", ["m", "m-20260922", "m@20260922", "m-latest", "m[1m]"])
def test_a_dated_version_uses_the_card_of_its_name(name: str) -> None:
    assert ModelCards((("m", ModelCard(window=7)),)).card(name).window == 7


@pytest.mark.parametrize("name", ["m-5", "m-mini", "other", "m-2026", ""])
def test_an_unknown_model_has_no_cost_and_the_default_window(name: str) -> None:
    known = ModelCards((("m", ModelCard(7, Price(1, 1, 1, 1))),))
    assert known.priced(name, Usage(5, 5)) == Usage(5, 5)
    assert known.card(name).window == DEFAULT_WINDOW


def test_a_long_prompt_uses_the_long_price_if_there_is_one() -> None:
    card = ModelCard(price=Price(1, 1, 1, 1), long_above=100, long_price=Price(5, 5, 5, 5))
    known = ModelCards((("m", card),))
    assert known.priced("m", Usage(40, MILLION, 30, 30)).cost == pytest.approx(1.0001)  # pyright: ignore[reportUnknownMemberType]
    assert known.priced("m", Usage(41, MILLION, 30, 30)).cost == pytest.approx(5.000505)  # pyright: ignore[reportUnknownMemberType]


def test_the_users_cards_precede_the_built_in_cards(tmp_path: Path) -> None:
    path = tmp_path / "models.toml"
    path.write_text(
        f'["{DEFAULT_MODEL}"]\nwindow = 9\n["mine"]\nprice = {{input=1, output=2, cache_read=0, cache_write=1}}'
    )
    known = card_file.read_with_defaults(path)
    assert known.card(DEFAULT_MODEL) == ModelCard(window=9)
    assert known.priced("mine", Usage(MILLION, MILLION)).cost == 3
    assert known.card("claude-opus-5").price is not None


def test_a_missing_file_changes_nothing(tmp_path: Path) -> None:
    assert card_file.read_with_defaults(tmp_path / "none.toml") == card_file.built_in()


@pytest.mark.parametrize(
    ("text", "expected"),
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
def test_an_invalid_file_is_reported_with_the_field(tmp_path: Path, text: str, expected: str) -> None:
    path = tmp_path / "models.toml"
    path.write_text(text)
    with pytest.raises(InvalidRequest, match=expected):
        card_file.read(path)
