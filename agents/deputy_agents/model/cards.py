"""Reads the files that say what models cost and take. The one that comes with Deputy is ``models.toml`` beside this."""

import tomllib
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from deputy_agents.errors import InvalidRequest
from deputy_agents.modelcard import DEFAULT_WINDOW, ModelCard, ModelCards, Price

_FILE = Path(__file__).with_name("models.toml")


class _Price(BaseModel):
    model_config = ConfigDict(extra="forbid")

    input: float = Field(ge=0)
    output: float = Field(ge=0)
    cache_read: float = Field(ge=0)
    cache_write: float = Field(ge=0)

    def value(self) -> Price:
        return Price(self.input, self.output, self.cache_read, self.cache_write)


class _LongPrice(_Price):
    above: int = Field(gt=0)


class _Card(BaseModel):
    model_config = ConfigDict(extra="forbid")

    window: int = Field(DEFAULT_WINDOW, gt=0)
    price: _Price | None = None
    long_price: _LongPrice | None = None

    def value(self) -> ModelCard:
        price = self.price and self.price.value()
        if self.long_price is None:
            return ModelCard(self.window, price)
        return ModelCard(self.window, price, self.long_price.above, self.long_price.value())


_CARDS = TypeAdapter(dict[str, _Card])


def built_in() -> ModelCards:
    """The cards that come with Deputy."""
    return read(_FILE)


def with_those_of(path: Path) -> ModelCards:
    """Built-in cards behind those of the user's file at ``path``, which need not be there.

    Raises:
        InvalidRequest: the file cannot be used; the message says where and why.
    """
    own = read(path).cards if path.is_file() else ()
    return ModelCards((*own, *built_in().cards))


def read(path: Path) -> ModelCards:
    """The cards in a TOML file, a table for each model.

    Raises:
        InvalidRequest: it cannot be used.
    """
    try:
        cards = _CARDS.validate_python(tomllib.loads(path.read_text("utf-8")))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise InvalidRequest(f"{path}: {where}: {first['msg']}", where) from None
    except (OSError, ValueError) as error:
        raise InvalidRequest(f"{path}: {error}") from None
    return ModelCards(tuple((name, card.value()) for name, card in cards.items()))
