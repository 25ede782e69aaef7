"""Files with the properties of models. The built-in file is ``models.toml`` beside this module."""

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, TypeAlias, cast

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, with_config
from typing_extensions import TypedDict  # required by pydantic before Python 3.12

from deputy_agents import validation_errors
from deputy_agents.domain.errors import InvalidRequest
from deputy_agents.domain.model_card import DEFAULT_WINDOW, Effort, ModelCard, ModelCards, Price, ThinkingType

_BUILT_IN_FILE = Path(__file__).with_name("models.toml")

_STRICT = ConfigDict(extra="forbid", allow_inf_nan=False)
_Dollars: TypeAlias = Annotated[float, Field(ge=0)]
_Count: TypeAlias = Annotated[int, Field(gt=0)]


@with_config(_STRICT)
class _Price(TypedDict):
    input: _Dollars
    output: _Dollars
    cache_read: _Dollars
    cache_write: _Dollars


@with_config(_STRICT)
class _LongPrice(_Price):
    above: _Count


@with_config(_STRICT)
class _Card(TypedDict, total=False):
    name: str
    window: _Count
    max_output: _Count
    efforts: tuple[Effort, ...]
    thinking: tuple[ThinkingType, ...]
    price: _Price
    long_price: _LongPrice


_Tables: TypeAlias = Mapping[str, _Card]


@cache
def _adapter() -> TypeAdapter[_Tables]:
    """Built only for a user's own file: it takes 5% of the start-up time."""
    return TypeAdapter(dict[str, _Card])


def built_in() -> ModelCards:
    """The built-in cards."""
    return _cards(cast("_Tables", tomllib.loads(_BUILT_IN_FILE.read_text("utf-8"))))


def read_with_defaults(path: Path) -> ModelCards:
    """The cards of the user's file at ``path``, if it exists, and the built-in cards.

    Raises:
        InvalidRequest: the file is invalid; the message names the place and the reason.
    """
    return ModelCards(built_in().cards, read(path).cards if path.is_file() else ())


def read(path: Path) -> ModelCards:
    """The cards in a TOML file that has one table per model.

    Raises:
        InvalidRequest: the file is invalid or cannot be read.
    """
    try:
        return _cards(_adapter().validate_python(tomllib.loads(path.read_text("utf-8"))))
    except ValidationError as error:
        raise InvalidRequest(f"{path}: {validation_errors.describe(error)}") from None
    except OSError as error:
        raise InvalidRequest(f"{path}: {validation_errors.describe_os_error(error)}") from None
    except ValueError as error:
        raise InvalidRequest(f"{path}: {error}") from None


def _cards(tables: _Tables) -> ModelCards:
    return ModelCards(tuple((name, _card(table)) for name, table in tables.items()))


def _card(table: _Card) -> ModelCard:
    price, long = table.get("price"), table.get("long_price")
    efforts, thinking = table.get("efforts"), table.get("thinking")
    return ModelCard(
        window=table.get("window", DEFAULT_WINDOW),
        price=price and _price(price),
        long_above=long["above"] if long else 0,
        long_price=long and _price(long),
        display_name=table.get("name", ""),
        max_output=table.get("max_output"),
        efforts=None if efforts is None else tuple(map(Effort, efforts)),
        thinking=None if thinking is None else tuple(map(ThinkingType, thinking)),
    )


def _price(table: _Price) -> Price:
    return Price(table["input"], table["output"], table["cache_read"], table["cache_write"])
